"""Rules of acceptance on a grid of θ: what one step makes of the posterior, exactly; and broken rules."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from flyrun.experiments.models import gaussian_prior, logistic
from flyrun.experiments.models.base_density import log_base
from flyrun.experiments.samplers.chain import random_walk
from flyrun.experiments.samplers.chain.acceptance import exact
from flyrun.experiments.samplers.chain.acceptance.rule import decide
from flyrun.experiments.samplers.chain.brightness.none import NoBrightness
from flyrun.experiments.samplers.chain.targets.full_data import full_data
from flyrun.experiments.samplers.chain.targets.target import keep, log_data
from tests.densities import log_density
from tests.exactness import broken
from tests.exactness.chains import full_target, sample, z_scores
from tests.exactness.enumeration import outcomes
from tests.exactness.test_moments import LEVEL, N_ITERATIONS, PROBLEM

GRID = [np.array(pair) for pair in itertools.product((-2.0, 0.1, 1.3), repeat=2)]
X = np.array([[1.0, 0.5], [-0.3, 1.2], [0.8, -1.1]])
ROWS = logistic.bind(X, np.array([1.0, -1.0, 1.0]))[1]
RULES = {"exact": exact.Exact()}


def _target():
    return full_data(gaussian_prior.prior(2.0), logistic.Logistic(), ROWS, 2)


def _error(rule):
    """The most by which one step from π, proposals even on the grid, is off π."""
    pi = np.exp([log_density(_target(), theta)[0] for theta in GRID])
    pi /= pi.sum()
    after = np.zeros(len(GRID))
    for (i, here), there in itertools.product(enumerate(GRID), GRID):

        def step(rng, here=here, there=there):
            target, theta = _target(), here.copy()
            log_data(target, theta, None)
            keep(target)
            log_ratio = log_base(target.base, there, None) - log_base(target.base, theta, None)
            decide(rule, rng, target, theta, there, log_ratio)
            return next(k for k, at in enumerate(GRID) if (at == theta).all())

        for probability, k in outcomes(step, most=4):
            after[k] += pi[i] * probability / len(GRID)
    assert after.sum() == pytest.approx(1.0, abs=1e-14)
    return np.abs(after - pi).max()


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_a_rule_leaves_the_posterior_invariant(rule):
    assert _error(rule) < 1e-15


def test_negative_control_a_rule_with_another_probability_does_not():
    assert _error(broken.TimidRule()) > 0.01


@pytest.mark.parametrize(("rule", "holds"), [(exact.Exact(), True), (broken.TimidRule(), False)])
def test_a_chain_has_the_exact_moments_under_a_right_rule_alone(rule, holds):
    kernel = random_walk.build(SimpleNamespace(target_accept=0.35, step=None), 2)._replace(rule=rule)
    draws = sample(full_target(PROBLEM), kernel, NoBrightness(), np.zeros(2), N_ITERATIONS, seed=11)
    score = np.abs(z_scores(draws.theta, PROBLEM)).max()
    assert score < LEVEL if holds else score > 2 * LEVEL
