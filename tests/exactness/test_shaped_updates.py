"""Updates shaped by a Gaussian near the target: exact moments on and off FlyMC, controls that must fail."""

from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest

from flyrun.experiments.samplers.chain import elliptical_slice, hmc, independence, mala, random_walk
from flyrun.experiments.samplers.chain.brightness.implicit import implicit
from flyrun.experiments.samplers.chain.brightness.none import NoBrightness
from flyrun.experiments.samplers.chain.metric import Own, reference_at
from tests.exactness.chains import TOYS, firefly_target, full_target, reference, sample, z_scores

PROBLEMS = {name: make() for name, make in TOYS.items()}
N_ITERATIONS = 100_000
# Four or six z-scores a test, |z| < 4.5: fails by chance once in 24,000 runs, and seeds are fixed.
LEVEL = 4.5


class Case(NamedTuple):
    """An update, and the model that the default tests run it on."""

    module: object
    config: SimpleNamespace
    usual: str


CASES = {
    "random walk": Case(random_walk, SimpleNamespace(target_accept=0.35, step=None), "student_t"),
    "mala": Case(mala, SimpleNamespace(target_accept=0.57, step=None), "student_t"),
    "hmc": Case(hmc, SimpleNamespace(target_accept=0.8, step=None, n_steps=3, jitter=0.2), "student_t"),
    "hmc, classes": Case(
        hmc, SimpleNamespace(target_accept=0.8, step=None, n_steps=3, jitter=0.2), "softmax"
    ),
    "elliptical slice": Case(elliptical_slice, SimpleNamespace(), "logistic"),
    "elliptical slice, corners": Case(elliptical_slice, SimpleNamespace(), "student_t"),
    "independence": Case(independence, SimpleNamespace(freedom=6.0), "student_t"),
}


def _draws(case, model, arm, shape=None, seed=11):
    problem = PROBLEMS[model]
    if arm == "full data":
        target, sweep = full_target(problem, case.module.GRADIENTS), NoBrightness()
    else:
        target = firefly_target(problem, case.module.GRADIENTS)
        sweep = implicit(0.3, problem.features.rows.shape[0])
    size = problem.mode.size
    kernel = case.module.build(case.config, size, shape or reference(problem, target))
    return sample(target, kernel, sweep, np.zeros(size), N_ITERATIONS, seed=seed)


# Compiling a combination takes longer than running it: by default an update has one model, mostly FlyMC.
BOTH = ("elliptical slice", "independence")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "model", "arm"),
    [
        pytest.param(name, model, arm, marks=[] if usual else [pytest.mark.slow])
        for name, case in CASES.items()
        for model in PROBLEMS
        for arm in ("full data", "firefly")
        for usual in [model == case.usual and (arm == "firefly" or name in BOTH)]
    ],
)
def test_chain_has_the_exact_moments(name, model, arm):
    draws = _draws(CASES[name], model, arm)
    assert np.abs(z_scores(draws.theta, PROBLEMS[model])).max() < LEVEL
    assert draws.accepted.mean() > 0.2


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["elliptical slice", "independence"])
def test_any_shape_is_exact(name):
    far = reference_at(np.array([0.8, 0.2]), np.array([[2.0, 0.5], [0.5, 3.0]]))
    draws = _draws(CASES[name], "logistic", "full data", far)
    assert np.abs(z_scores(draws.theta, PROBLEMS["logistic"])).max() < LEVEL


@pytest.mark.thorough(but="hmc")
@pytest.mark.parametrize("name", ["elliptical slice", "hmc"])
def test_negative_control_a_reference_that_is_not_the_base_fails(name):
    """What the target has over its own Gaussian is not what it has over another."""
    problem = PROBLEMS["logistic"]
    right = reference(problem, firefly_target(problem))
    draws = _draws(CASES[name], "logistic", "firefly", right._replace(mean=right.mean + 0.2))
    assert isinstance(right.kind, Own)
    assert np.abs(z_scores(draws.theta, problem)).max() > 2 * LEVEL


@pytest.mark.thorough(but="hmc")
@pytest.mark.parametrize(
    "name", [pytest.param("mala", marks=pytest.mark.slow), "hmc", "elliptical slice", "independence"]
)
def test_negative_control_a_root_of_another_precision_fails(name):
    problem = PROBLEMS["logistic"]
    right = reference(problem, firefly_target(problem))
    wrong = right._replace(metric=right.metric._replace(root=1.6 * right.metric.root))
    draws = _draws(CASES[name], "logistic", "firefly", wrong)
    assert np.abs(z_scores(draws.theta, problem)).max() > 2 * LEVEL
