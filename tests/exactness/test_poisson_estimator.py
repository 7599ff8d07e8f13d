"""Poisson's estimate of the likelihood: its mean, the chain that keeps it, and one that forgets it."""

from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest

from flyrun.experiments.models import passes
from flyrun.experiments.samplers.chain import random_walk
from flyrun.experiments.samplers.chain.acceptance.poisson_estimator import (
    PoissonEstimator,
    estimate,
    poisson_estimator,
)
from flyrun.experiments.samplers.chain.acceptance.rule import decide
from flyrun.experiments.samplers.chain.brightness.none import NoBrightness
from flyrun.experiments.samplers.chain.targets.target import log_data
from flyrun.ground.numerics.compiled import implements, jit
from flyrun.ground.numerics.generator_argument import uncounted
from tests.exactness.chains import normal_toy, sample, toy, z_scores
from tests.exactness.expansions import about, bounds, expanded_target, expansion
from tests.exactness.test_moments import LEVEL

PROBLEM = toy()


def _rule(problem, order, intensity=1.0):
    eta = expansion(problem, order)[0].predictors
    known = passes.values_and_slopes(problem.model, np.ascontiguousarray(eta))[0]
    return poisson_estimator(bounds(problem, order), known, problem.mode.size, intensity)


@jit
def _estimates(rule, rng, target, theta, values):
    log_data(target, theta, None)
    for i in range(values.shape[0]):
        values[i] = estimate(rule, rng, target, theta, 1)


@pytest.mark.thorough
@pytest.mark.parametrize(("order", "intensity"), [(1, 1.0), (2, 1.0), (2, 3.0)])
def test_estimates_have_the_likelihood_for_their_mean_and_cost_their_data(order, intensity):
    rule, target, values = (
        _rule(PROBLEM, order, intensity),
        expanded_target(PROBLEM, order),
        np.empty(100_000),
    )
    theta = PROBLEM.mode + np.array([0.9, -0.5]) * PROBLEM.sd
    _estimates(rule, uncounted(np.random.default_rng(1)), target, theta, values)
    margins = PROBLEM.features.rows @ np.stack([theta, PROBLEM.mode], axis=1)
    here, there = -np.logaddexp(0.0, -margins).sum(axis=0)
    ratio = np.exp(values - (here - there))
    assert abs(ratio.mean() - 1.0) < 4.5 * ratio.std() / np.sqrt(len(values))
    assert ratio.std() > 0.01  # there is something to estimate
    assert target.memory.queries[0] == rule.candidates[0] > 0


class Forgetful(NamedTuple):
    """The estimate here made anew at every step: Monte Carlo within Metropolis, which is biased."""

    rule: PoissonEstimator


@implements(decide, Forgetful)
def _forgetful(rule, rng, target, theta, proposal, log_ratio):
    rule.rule.kept[0] = np.nan
    return decide(rule.rule, rng, target, theta, proposal, log_ratio)


def _score(problem, rule, order, count=200_000):
    kernel = random_walk.build(SimpleNamespace(target_accept=0.3, step=1.5), 2, about(problem))
    made = kernel._replace(rule=rule)
    draws = sample(expanded_target(problem, order), made, NoBrightness(), problem.mode, count, seed=11)
    return np.abs(z_scores(draws.theta, problem)).max(), draws


@pytest.mark.thorough
@pytest.mark.parametrize("order", [1, 2])
def test_moments_are_the_posteriors_unless_estimates_are_forgotten(order):
    score, draws = _score(PROBLEM, _rule(PROBLEM, order), order)
    assert score < LEVEL
    assert 0.0 < draws.queries.mean() < 40.0
    if order == 1:
        assert _score(PROBLEM, Forgetful(_rule(PROBLEM, order)), order)[0] > 2 * LEVEL


@pytest.mark.thorough
def test_numbers_taken_for_normal_have_bounds_of_their_own():
    problem = normal_toy()
    assert _score(problem, _rule(problem, 2), 2)[0] < LEVEL
