"""The meter: queries equal their closed forms exactly."""

from types import SimpleNamespace

import numpy as np
import pytest

from flyrun.experiments.models import gaussian_prior, logistic, passes
from flyrun.experiments.models.fits.map_fit import find_map
from flyrun.experiments.samplers.chain import random_walk
from flyrun.experiments.samplers.chain.brightness.explicit import explicit
from flyrun.experiments.samplers.chain.brightness.implicit import implicit
from flyrun.experiments.samplers.chain.brightness.none import NoBrightness
from tests.exactness.chains import firefly_target, full_target, sample, toy

PROBLEM = toy(n_data=300)
KERNEL = SimpleNamespace(target_accept=0.35, step=0.2)


def test_regular_random_walk_costs_n_every_iteration():
    draws = sample(full_target(PROBLEM), random_walk.build(KERNEL, 2), NoBrightness(), [0, 0], 500, seed=1)
    assert np.all(draws.queries == 300)
    assert np.all(draws.bright == 300)


def test_implicit_with_q_1_costs_every_datum_every_iteration():
    # bright before the update + dark proposed (all of the rest)
    draws = sample(
        firefly_target(PROBLEM), random_walk.build(KERNEL, 2), implicit(1.0, 300), [0, 0], 500, seed=1
    )
    assert np.all(draws.queries == 300)


def test_explicit_without_replacement_over_all_data_costs_every_datum():
    for order in ("without_replacement", "sequential"):
        draws = sample(
            firefly_target(PROBLEM),
            random_walk.build(KERNEL, 2),
            explicit(1.0, order, 300),
            [0, 0],
            500,
            seed=1,
        )
        assert np.all(draws.queries == 300)


@pytest.mark.parametrize("q", [0.02, 0.3])
def test_implicit_costs_the_bright_data_and_the_proposals(q):
    n_iterations = 20_000
    draws = sample(
        firefly_target(PROBLEM),
        random_walk.build(KERNEL, 2),
        implicit(q, 300),
        [0, 0],
        n_iterations,
        1,
    )
    before = draws.bright[:-1]
    proposals = draws.queries[1:] - before
    assert np.all(proposals >= 0)
    # proposals ~ Binomial(dark, q), independent: a z-score of the total, |z| < 4
    dark = 300 - before
    z = (proposals.sum() - q * dark.sum()) / np.sqrt(q * (1 - q) * dark.sum())
    assert abs(z) < 4


def test_the_smallest_rates_propose_nobody_and_do_not_overflow():
    draws = sample(
        firefly_target(PROBLEM), random_walk.build(KERNEL, 2), implicit(1e-19, 300), [0, 0], 500, 1
    )
    assert np.all(draws.queries[1:] == draws.bright[:-1])


def test_the_map_fit_is_metered(monkeypatch):
    looks, slope = [], passes.slope
    monkeypatch.setattr(passes, "slope", lambda *words: looks.append(300) or slope(*words))
    full, prior = full_target(PROBLEM), gaussian_prior.prior(1.0)
    fit = find_map(logistic, full.model, full.features, gaussian_prior.penalty(prior), 0.0, np.zeros(2))
    assert fit.queries == sum(looks) > 0
    np.testing.assert_allclose(fit.theta, PROBLEM.mode, atol=0.02)  # the grid's mode
