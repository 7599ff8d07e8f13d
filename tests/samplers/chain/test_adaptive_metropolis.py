"""The running Gaussian against its formulas, moments on and off FlyMC, and gains that do not vanish."""

from types import SimpleNamespace

import numpy as np
import pytest

from flyrun.experiments.gold.reference import arm_of
from flyrun.experiments.samplers.chain import adaptive_metropolis
from flyrun.experiments.samplers.chain.brightness.implicit import implicit
from flyrun.experiments.samplers.chain.brightness.none import NoBrightness
from flyrun.experiments.samplers.method import prepare
from tests.exactness.chains import firefly_target, full_target, sample, toy, z_scores
from tests.exactness.test_moments import LEVEL

PROBLEM = toy()
TOY = ["dataset=toy_2d", "dataset.n_data=60", "model=logistic", "prior=gaussian"]


def _kernel(size=2, **settings):
    usual = {"decay": 0.7, "adapts": "throughout", "target_accept": 0.35, "step": None}
    return adaptive_metropolis.build(SimpleNamespace(**usual | settings), size)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("decay", [0.6, 1.0])
def test_mean_and_covariance_follow_the_surveys_recursion(decay):
    rng, kernel = np.random.default_rng(1), _kernel(3, decay=decay)
    draws = rng.standard_normal((50, 3)) @ np.triu(rng.standard_normal((3, 3))) + 2.0
    mean, covariance = draws[0], np.eye(3)
    for t, theta in enumerate(draws, start=1):
        adaptive_metropolis.learn(kernel, theta)
        gain, away = (t + 1) ** -decay, theta - mean
        mean, covariance = mean + gain * away, covariance + gain * (np.outer(away, away) - covariance)
    np.testing.assert_allclose(kernel.mean, mean, rtol=1e-12)
    np.testing.assert_allclose(kernel.root.T @ kernel.root, covariance, rtol=1e-11)


def _scores(kernel, firefly):
    target = firefly_target(PROBLEM) if firefly else full_target(PROBLEM)
    sweep = implicit(0.2, 40) if firefly else NoBrightness()
    draws = sample(target, kernel, sweep, np.zeros(2), 200_000, seed=11)
    return np.abs(z_scores(draws.theta, PROBLEM)).max(), draws


@pytest.mark.thorough
@pytest.mark.parametrize("firefly", [False, True])
@pytest.mark.parametrize("adapts", ["throughout", "burn_in"])
def test_moments_are_the_posteriors_and_the_shape_becomes_its_covariance(adapts, firefly):
    kernel = _kernel(adapts=adapts)
    score, _ = _scores(kernel, firefly)
    assert score < LEVEL
    covariance = kernel.root.T @ kernel.root
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), PROBLEM.sd, rtol=0.35)
    assert (kernel.seen[0] > 1000) == (adapts == "throughout")


def test_negative_control_gains_that_do_not_vanish_are_biased():
    score, _ = _scores(_kernel(decay=0.05), False)
    assert score > 2 * LEVEL


@pytest.mark.parametrize(
    ("settings", "exact"),
    [([], True), (["decay=0.5"], False), (["decay=0.5", "adapts=burn_in"], True)],
)
def test_it_is_called_exact_where_its_averages_converge_to_the_posteriors(settings, exact, tmp_path):
    own = tuple(f"sampler.{one}" for one in settings)
    arm = arm_of([*TOY, "acceptance=exact"], ("sampler=adaptive_metropolis", "bound=none", *own))
    assert prepare(arm, tmp_path).exact is exact
