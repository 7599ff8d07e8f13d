"""Langevin proposals by batches: exact with a test, whatever the batch, and SGLD, biased, without one."""

from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest

from flyrun.experiments.gold.reference import arm_of
from flyrun.experiments.samplers.chain import sgld_tested
from flyrun.experiments.samplers.chain.acceptance.exact import Exact
from flyrun.experiments.samplers.chain.acceptance.rule import decide
from flyrun.experiments.samplers.chain.brightness.none import NoBrightness
from flyrun.experiments.samplers.chain.targets.target import keep, log_data
from flyrun.experiments.samplers.method import prepare
from flyrun.ground.errors import ConfigError
from flyrun.ground.numerics.compiled import copy_into, implements
from tests.exactness.chains import full_target, sample, toy, z_scores
from tests.exactness.test_moments import LEVEL

PROBLEM = toy()
TOY = ["dataset=toy_2d", "dataset.n_data=60", "model=logistic", "prior=gaussian", "sampler=sgld_tested"]


class Blind(NamedTuple):
    """Accepts whatever is proposed, as SGLD does."""

    unused: int = 0


@implements(decide, Blind)
def _blind(rule, rng, target, theta, proposal, log_ratio):
    log_data(target, proposal, None)
    copy_into(theta, proposal)
    keep(target)
    return 1.0


@pytest.mark.thorough
@pytest.mark.parametrize(("rule", "holds"), [(Exact(), True), (Blind(), False)])
def test_moments_are_the_posteriors_with_a_test_alone(rule, holds):
    config = SimpleNamespace(batch=5, target_accept=0.57, step=0.4)
    kernel = sgld_tested.build(config, 2)._replace(rule=rule)
    draws = sample(full_target(PROBLEM), kernel, NoBrightness(), np.zeros(2), 200_000, seed=11)
    score = np.abs(z_scores(draws.theta, PROBLEM)).max()
    assert score < LEVEL if holds else score > 2 * LEVEL
    assert np.all(draws.queries == 40 + 2 * 5)


def test_it_is_as_exact_as_its_rule_and_wants_all_data(tmp_path):
    regular = (*TOY, "bound=none", "sampler.batch=10", "acceptance.batch=10")
    assert not prepare(arm_of([*regular, "acceptance=austerity"], ()), tmp_path).exact
    assert prepare(arm_of([*regular, "acceptance=austerity", "acceptance.epsilon=0"], ()), tmp_path).exact
    with pytest.raises(ConfigError, match="choose bound=none"):
        arm_of([*TOY, "bound=map", "brightness=implicit", "acceptance=exact"], ())
