"""Firefly tested by batches of its bright data: exact at level 0, counted, and biased by a loose test."""

import copy
from types import SimpleNamespace

import numpy as np
import pytest

from flyrun.experiments.gold.reference import arm_of
from flyrun.experiments.samplers.chain import random_walk
from flyrun.experiments.samplers.chain.acceptance.bright_subset import both_values, bright_subset
from flyrun.experiments.samplers.chain.acceptance.rule import decide
from flyrun.experiments.samplers.chain.brightness.implicit import implicit
from flyrun.experiments.samplers.method import prepare
from flyrun.ground.errors import ConfigError
from tests.exactness.chains import begin, firefly_target, sample, toy, z_scores
from tests.exactness.test_moments import LEVEL
from tests.models.calls import log_base, log_bound

PROBLEM, N = toy(), 40
UNTUNED = PROBLEM.likelihood.untuned_bound(PROBLEM.model, PROBLEM.features, 1.5)  # four are bright


def _draws(rule):
    kernel = random_walk.build(SimpleNamespace(target_accept=0.3, step=1.0), 2)._replace(rule=rule)
    target = firefly_target(PROBLEM, bound=UNTUNED)
    return sample(target, kernel, implicit(0.3, N), np.zeros(2), 200_000, seed=11)


@pytest.mark.thorough
@pytest.mark.parametrize(("epsilon", "holds"), [(0.0, True), (0.4, False)])
def test_moments_are_the_posteriors_at_level_0_alone(epsilon, holds):
    draws = _draws(bright_subset(N, 2, epsilon))
    score = np.abs(z_scores(draws.theta, PROBLEM)).max()
    assert score < LEVEL if holds else score > 2 * LEVEL
    whole = draws.bright.mean() + 0.3 * (N - draws.bright.mean())
    if holds:  # all bright data for the test, and the dark ones that are proposed
        assert draws.queries.mean() == pytest.approx(whole, rel=0.02)
    else:
        assert draws.queries.mean() < 0.9 * whole


def _both(epsilon, batch=2):
    return both_values(bright_subset(N, batch, epsilon), PROBLEM.prior, N)


@pytest.mark.thorough
@pytest.mark.parametrize(("epsilon", "holds"), [(0.0, True), (0.4, False)])
def test_with_terms_of_both_values_they_are_at_level_0_alone(epsilon, holds):
    draws = _draws(_both(epsilon))
    score = np.abs(z_scores(draws.theta, PROBLEM)).max()
    assert score < LEVEL if holds else score > 2 * LEVEL
    # every term once for the test, and the dark data that brightness proposes
    whole = N + 0.3 * (N - draws.bright.mean())
    if holds:
        assert draws.queries.mean() == pytest.approx(whole, rel=0.02)
    else:
        assert draws.queries.mean() < 0.9 * whole


def _wrong(rule):
    """Share of proposals whose decision is not that of all terms, with the same u."""
    rng, wrong, n = np.random.default_rng(2), 0, 1_000
    for _ in range(n):
        theta, proposal = PROBLEM.mean + PROBLEM.sd * rng.standard_normal((2, 2))
        target = firefly_target(PROBLEM, bound=UNTUNED)
        begin(target, rng, theta)
        change = log_base(target.base, proposal, None) - log_base(target.base, theta, None)
        u, at = copy.deepcopy(rng).random(), theta.copy()  # what the rule is about to draw
        lit = target.memory.partition.bright[: target.memory.partition.n_bright[0]]
        gain = _pseudo(proposal, lit) - _pseudo(theta, lit)
        decide(rule, rng, target, at, proposal, change)
        wrong += (at == proposal).all() != (np.log(u) < change + gain)
    return wrong / n


def _pseudo(theta, lit):
    """Σ log L̃_n of the data `lit`, written out."""
    eta = PROBLEM.features.rows[lit] @ theta
    log_b = np.zeros(len(lit))
    log_bound(UNTUNED, PROBLEM.model, lit, eta[:, None], log_b, None)
    return np.log(np.expm1(-np.logaddexp(0.0, -eta) - log_b)).sum()


@pytest.mark.thorough
def test_nearly_all_terms_of_both_values_decide_as_all_do_and_a_rule_with_the_bounds_twice_does_not():
    assert _wrong(_both(0.0)) == 0.0
    one_batch = _both(0.5, batch=34)  # of 36 dark data or so
    assert _wrong(one_batch) < 0.1
    twice = one_batch._replace(prior=firefly_target(PROBLEM, bound=UNTUNED).base)
    assert _wrong(twice) > 0.14  # the bounds in it and in dark terms
    assert _wrong(_both(0.5)) > 0.15  # two of a kind


def test_it_is_exact_at_level_0_and_wants_bright_data(tmp_path):
    toy_words = [
        "dataset=toy_2d",
        "dataset.n_data=60",
        "model=logistic",
        "prior=gaussian",
        "sampler=random_walk",
    ]
    words = [*toy_words, "acceptance=bright_subset"]
    firefly = ("bound=map", "brightness=implicit")
    assert not prepare(arm_of(words, firefly), tmp_path).exact
    assert prepare(arm_of(words, (*firefly, "acceptance.epsilon=0")), tmp_path).exact
    with pytest.raises(ConfigError, match="choose bound=map"):
        arm_of(words, ("bound=none",))
