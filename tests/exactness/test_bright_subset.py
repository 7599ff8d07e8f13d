"""Firefly tested by batches of its bright data: exact at level 0, counted, and biased by a loose test."""

from types import SimpleNamespace

import numpy as np
import pytest

from flyrun.experiments.gold.reference import arm_of
from flyrun.experiments.samplers.chain import random_walk
from flyrun.experiments.samplers.chain.acceptance.bright_subset import bright_subset
from flyrun.experiments.samplers.chain.brightness.implicit import implicit
from flyrun.experiments.samplers.method import prepare
from flyrun.ground.errors import ConfigError
from tests.exactness.chains import firefly_target, sample, toy, z_scores
from tests.exactness.test_moments import LEVEL

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
