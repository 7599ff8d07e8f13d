"""Chains on probit regression, on all data and by Firefly, have the moments of a grid."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import log_ndtr

from flyrun.experiments.models import gaussian_prior, probit
from flyrun.experiments.samplers.chain import hmc, random_walk
from flyrun.experiments.samplers.chain.brightness.implicit import implicit
from flyrun.experiments.samplers.chain.brightness.none import NoBrightness
from tests.exactness.broken import inverted_implicit
from tests.exactness.chains import Toy, firefly_target, full_target, reference, sample, z_scores

N_DATA, N_ITERATIONS = 40, 40_000
LEVEL = 4.5  # four z-scores a test: by chance once in 36,000


def _toy() -> Toy:
    rng = np.random.default_rng(4)
    x = np.c_[rng.normal(size=N_DATA), np.ones(N_DATA)]
    features = probit.bind(x, np.where(rng.normal(size=N_DATA) < x @ [1.0, -0.4], 1.0, -1.0))[1]
    axis = np.linspace(-4.0, 6.0, 401)
    grid = np.stack([a.ravel() for a in np.meshgrid(axis, axis, indexing="ij")])
    log_p = log_ndtr(features.rows @ grid).sum(axis=0) - 0.5 * (grid**2).sum(axis=0)
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    mean = grid @ p
    sd = np.sqrt((grid - mean[:, None]) ** 2 @ p)
    return Toy(
        features,
        gaussian_prior.prior(1.0),
        mean,
        sd,
        grid[:, log_p.argmax()],
        probit.Probit(),
        probit,
        gaussian_prior,
    )


PROBLEM = _toy()
WALK = random_walk.build(SimpleNamespace(target_accept=0.35, step=0.4), 2)


def _untuned(gradients):
    bound = probit.untuned_bound(PROBLEM.model, PROBLEM.features, 0.0)
    return firefly_target(PROBLEM, gradients, bound)


def _hmc(target):
    settings = SimpleNamespace(target_accept=0.8, step=0.3, n_steps=4, jitter=0.2)
    return hmc.build(settings, 2, reference(PROBLEM, target))


CASES = {
    "all data, random walk": lambda: (full_target(PROBLEM), WALK, NoBrightness()),
    "tight at the mode, random walk": lambda: (firefly_target(PROBLEM), WALK, implicit(0.2, N_DATA)),
    "all data, hmc": lambda: (full_target(PROBLEM, True), _hmc(full_target(PROBLEM, True)), NoBrightness()),
    "untuned, hmc": lambda: (_untuned(True), _hmc(_untuned(True)), implicit(0.3, N_DATA)),
}


# compiling takes most of a minute, and test_enumeration_models has the likelihood's steps
@pytest.mark.thorough
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if "tight" not in name else []) for name in CASES]
)
def test_chain_has_the_exact_moments(name):
    target, kernel, brightness = CASES[name]()
    draws = sample(target, kernel, brightness, np.zeros(2), N_ITERATIONS, seed=11)
    assert np.abs(z_scores(draws.theta, PROBLEM)).max() < LEVEL


def test_negative_control_inverted_brightness_fails():
    draws = sample(_untuned(False), WALK, inverted_implicit(0.2, N_DATA), np.zeros(2), N_ITERATIONS, seed=11)
    assert np.abs(z_scores(draws.theta, PROBLEM)).max() > 2 * LEVEL
