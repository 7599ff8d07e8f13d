"""Bounds of two levels: the joint, moments of chains that cross the border all the time, broken twins."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from flyrun.experiments.models.base_density import log_base
from flyrun.experiments.samplers.chain import hmc, mala, random_walk
from flyrun.experiments.samplers.chain.brightness.explicit import explicit
from flyrun.experiments.samplers.chain.brightness.implicit import implicit
from flyrun.experiments.samplers.chain.brightness.per_datum import per_datum
from flyrun.experiments.samplers.chain.metric import reference_of
from flyrun.experiments.samplers.chain.targets.firefly import brighten, query
from flyrun.experiments.samplers.chain.targets.full_data import full_data
from flyrun.experiments.samplers.chain.targets.target import data_gradient, kept_log_data, log_data
from flyrun.ground.numerics.compiled import outer_jit
from tests.densities import log_density
from tests.exactness.chains import sample, softmax_toy, student_t_toy, toy, z_scores
from tests.exactness.tightened import local_bound, local_target, two_bases

PROBLEMS = {"logistic": toy, "student_t": student_t_toy, "softmax": softmax_toy}
N_ITERATIONS = 60_000
# Four z-scores a test, |z| < 4.5: fails by chance once in 36,000 runs, and seeds are fixed.
LEVEL = 4.5


UPDATES = {
    "hmc": lambda target, size: hmc.build(
        SimpleNamespace(target_accept=0.8, step=None, n_steps=3, jitter=0.2),
        size,
        reference_of(target.base, target=True),
    ),
    "one long step": lambda target, size: hmc.build(
        SimpleNamespace(target_accept=0.8, step=None, n_steps=1, jitter=0.2),
        size,
        reference_of(target.base, target=True),
    ),
    "mala": lambda _, size: mala.build(SimpleNamespace(target_accept=0.57, step=None), size),
    "random walk": lambda _, size: random_walk.build(SimpleNamespace(target_accept=0.3, step=None), size),
}
SWEEPS = {
    "implicit": lambda n: implicit(0.3, n),
    "explicit": lambda n: explicit(0.3, "without_replacement", n),
    "per datum": lambda n: per_datum(np.random.default_rng(0).uniform(0.02, 0.9, n)),
}
# within lies half of a Gaussian of two coordinates, of three for softmax: every other draw crosses the border
RADIUS = {"logistic": 1.2, "student_t": 1.2, "softmax": 1.5}


def _draws(name, update, sweep, bound, base=None, seed=5):
    problem = PROBLEMS[name]()
    target = local_target(problem, bound, base)
    n_data = problem.features.rows.shape[0]
    return problem, sample(
        target,
        UPDATES[update](target, problem.mode.size),
        SWEEPS[sweep](n_data),
        problem.mode + 0.1,
        N_ITERATIONS,
        seed,
    )


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "update", "sweep", "slack"),
    [
        ("logistic", "hmc", "per datum", 0.0),
        pytest.param("logistic", "one long step", "implicit", 0.5, marks=pytest.mark.slow),
        pytest.param("logistic", "mala", "explicit", 0.5, marks=pytest.mark.slow),
        pytest.param("logistic", "random walk", "implicit", 0.0, marks=pytest.mark.slow),
        pytest.param("student_t", "hmc", "per datum", 0.5, marks=pytest.mark.slow),
        pytest.param("student_t", "random walk", "explicit", 0.0, marks=pytest.mark.slow),
        pytest.param("softmax", "hmc", "per datum", 0.5, marks=pytest.mark.slow),
        pytest.param("softmax", "mala", "implicit", 0.0, marks=pytest.mark.slow),
    ],
)
def test_chain_has_the_exact_moments(name, update, sweep, slack):
    bound = local_bound(PROBLEMS[name](), RADIUS[name], slack)[0]
    problem, draws = _draws(name, update, sweep, bound)
    assert np.abs(z_scores(draws.theta, problem)).max() < LEVEL
    away = draws.theta - bound.region.centre
    share = (np.einsum("ti,ij,tj->t", away, bound.region.curvature, away) <= RADIUS[name] ** 2).mean()
    assert 0.3 < share < 0.7


def test_negative_control_one_constant_for_both_levels_fails():
    problem = toy()
    bound = local_bound(problem, RADIUS["logistic"], slack=2.0)[0]
    base = two_bases(problem, bound)
    level = base._replace(beyond=base.beyond._replace(constant=base.within.constant))
    _, draws = _draws("logistic", "hmc", "per datum", bound, level)
    assert np.abs(z_scores(draws.theta, problem)).max() > LEVEL


def test_negative_control_local_bounds_used_beyond_fail():
    problem = toy()
    narrow = local_bound(problem, 0.1)[0]
    wide = narrow._replace(region=narrow.region._replace(square=np.inf))
    _, draws = _draws("logistic", "hmc", "per datum", wide)
    assert np.abs(z_scores(draws.theta, problem)).max() > LEVEL


@outer_jit
def _joint(target, theta, gradient):
    return log_base(target.base, theta, gradient) + kept_log_data(target, gradient)


@outer_jit
def _proposed(target, theta, gradient):
    return log_base(target.base, theta, gradient) + log_data(target, theta, gradient)


@outer_jit
def _on_the_way(target, theta, gradient):
    log_base(target.base, theta, gradient)
    data_gradient(target, theta, gradient)


@pytest.mark.thorough(but="logistic")
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_joint_summed_over_brightness_is_the_posterior_on_both_sides(name):
    problem = PROBLEMS[name]()
    few = np.arange(6)
    rows = problem.features.rows[few]
    features = problem.features._replace(rows=np.ascontiguousarray(rows))
    problem = problem._replace(features=features, model=problem.likelihood.part(problem.model, few))
    n_params, bound = problem.mode.size, local_bound(problem, 1.0, 0.5)[0]
    full = full_data(problem.prior, problem.model, features, n_params)
    rng, sides = np.random.default_rng(1), set()
    root = np.linalg.cholesky(np.linalg.inv(bound.region.curvature))
    for size in (0.2, 0.7, 1.5, 3.0):
        theta = problem.mode + size * root @ (rng.normal(size=n_params) * [1.0, 0.5, 0.5][:n_params])
        joint = []
        for z in itertools.product((False, True), repeat=len(few)):
            target = local_target(problem, bound)
            for n in np.flatnonzero(z):
                query(target, np.array([n]), theta)
                brighten(target, n, 0)
            here, there, way = np.zeros((3, n_params))
            joint.append(_joint(target, theta, here))
            assert _proposed(target, theta, there) == pytest.approx(joint[-1], abs=1e-12)
            _on_the_way(target, theta, way)
            np.testing.assert_allclose(here, there, rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(here, way, rtol=1e-9, atol=1e-12)
        assert np.logaddexp.reduce(joint) == pytest.approx(log_density(full, theta)[0], abs=1e-12)
        away = theta - problem.mode
        sides.add(bool(away @ bound.region.curvature @ away <= bound.region.square))
    assert sides == {True, False}
