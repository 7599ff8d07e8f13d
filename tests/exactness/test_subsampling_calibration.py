"""Simulation-based calibration (Talts et al. 2018) of chains that read few data, and a fault it finds."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import chisquare

from flyrun.experiments.models import gaussian_prior, logistic
from flyrun.experiments.models.fits.newton_fit import find_newton_map
from flyrun.experiments.samplers.chain import hmc, pcn
from flyrun.experiments.samplers.chain.acceptance.thinned import SPARED, thinned
from flyrun.experiments.samplers.chain.brightness.none import NoBrightness
from flyrun.experiments.samplers.chain.brightness.per_datum import per_datum, rates
from flyrun.experiments.samplers.chain.metric import reference_of
from flyrun.experiments.samplers.subsampling import zigzag
from tests.exactness.chains import Toy, sample
from tests.exactness.expansions import about, bounds, expanded_target, expansion
from tests.exactness.tightened import local_bound, local_target

N, REPEATS, RANKS, BINS = 30, 600, 63, 8
PRIOR = gaussian_prior.prior(1.0)


def _problem(rng):
    """θ from the prior, data by it; the posterior with its mode."""
    theta = rng.standard_normal(2)
    x = np.c_[rng.normal(size=N) * 1.5, np.ones(N)]
    t = np.where(rng.random(N) < 1 / (1 + np.exp(-(x @ theta))), 1.0, -1.0)
    model, features = logistic.bind(x, t)
    found = find_newton_map(logistic, model, features, gaussian_prior.penalty(PRIOR), 0.0, np.zeros(2))
    return theta, Toy(features, PRIOR, np.zeros(2), np.ones(2), found.theta)


def _mh_ss(problem, seed):
    kernel = pcn.build(SimpleNamespace(persistence=0.0), 2, about(problem))
    kernel = kernel._replace(rule=thinned(SPARED, bounds(problem, 3)))
    draws = sample(expanded_target(problem, 3), kernel, NoBrightness(), problem.mode, 10 * RANKS, seed, 200)
    return draws.theta[9::10]


def _local_bounds(problem, seed):
    # a border that every other draw crosses
    bound, expected = local_bound(problem, 1.2, 0.5)
    target = local_target(problem, bound)
    settings = SimpleNamespace(target_accept=0.8, step=None, n_steps=3, jitter=0.2)
    kernel = hmc.build(settings, 2, reference_of(target.base, target=True))
    brightness = per_datum(rates(expected, 1.5))
    return sample(target, kernel, brightness, problem.mode, 10 * RANKS, seed, 200).theta[9::10]


def _zigzag(problem, seed):
    made, roots = expansion(problem, 2)
    setup = SimpleNamespace(surrogate=lambda order: made, module=logistic, roots_of_leverages=roots)
    bound = SimpleNamespace(
        model=problem.model, features=problem.features, prior=PRIOR, fit=SimpleNamespace(theta_map=made.mean)
    )
    arm = SimpleNamespace(
        model=SimpleNamespace(auxiliary=False),
        prior=SimpleNamespace(code=gaussian_prior),
        dataset=SimpleNamespace(shard=None),
    )
    process = zigzag.process_of(arm, bound, setup, 2, True)
    rng, theta = np.random.default_rng(seed), np.empty((RANKS + 10, 2))
    phi, v = rng.standard_normal(2), np.array([1.0, -1.0])
    zigzag._run(process, rng, phi, v, 8.0, 0, 1, theta, np.empty(RANKS + 10, np.int64))
    return theta[10:]


def _level(draw):
    """The least p-value of the ranks' evenness, over both coordinates."""
    rng, counts = np.random.default_rng(11), np.zeros((2, BINS))
    for repeat in range(REPEATS):
        theta, problem = _problem(rng)
        ranks = (draw(problem, repeat) < theta).sum(axis=0)
        for d in range(2):
            counts[d, ranks[d] * BINS // (RANKS + 1)] += 1
    return min(chisquare(one).pvalue for one in counts)


@pytest.mark.slow
@pytest.mark.parametrize("draw", [_mh_ss, _zigzag, _local_bounds])
def test_ranks_of_the_truth_are_even(draw):
    assert _level(draw) > 0.005


@pytest.mark.slow
@pytest.mark.parametrize("draw", [_mh_ss, _zigzag, _local_bounds])
def test_negative_control_draws_too_close_together_are_found_out(draw):
    """The draws pulled together by a third."""

    def narrowed(problem, seed):
        theta = draw(problem, seed)
        return theta.mean(axis=0) + 0.67 * (theta - theta.mean(axis=0))

    assert _level(narrowed) < 1e-6
