"""Softmax, Student-t and others, bounds by hand or searched for: three data, a few θ, every z; the joint, its
gradient and the brightness kernels."""

import itertools

import numpy as np
import pytest
from scipy.stats import norm

from flyrun.experiments.models import (
    clutter,
    gaussian_prior,
    laplace_prior,
    probit,
    softmax,
    student_t,
    tangents,
)
from flyrun.experiments.models.base_density import log_base
from flyrun.experiments.models.collapse import collapse
from flyrun.experiments.samplers.chain.brightness.base import resample
from flyrun.experiments.samplers.chain.brightness.explicit import ORDERS, _next_datum, explicit
from flyrun.experiments.samplers.chain.brightness.implicit import implicit
from flyrun.experiments.samplers.chain.brightness.partition import is_bright
from flyrun.experiments.samplers.chain.targets.firefly import brighten, firefly, query
from flyrun.experiments.samplers.chain.targets.full_data import full_data
from flyrun.experiments.samplers.chain.targets.target import data_gradient, kept_log_data, log_data
from flyrun.ground.numerics.compiled import outer_jit
from tests.densities import log_density
from tests.exactness.enumeration import interpreted, outcomes, with_room_for_symbols
from tests.plugins.rows import registered

X = np.array([[1.0, 0.5], [-0.3, 1.2], [0.8, -1.1]])
ALL_Z = list(itertools.product((False, True), repeat=3))
PRIOR = gaussian_prior.prior(1.3)
PROBLEMS = {
    "softmax": (softmax, *softmax.bind(X, np.array([0, 2, 1])), gaussian_prior, gaussian_prior.prior(1.3), 6),
    "softmax, whole numbers": (
        softmax,
        *softmax.bind(np.sign(X), np.array([0, 2, 1])),
        gaussian_prior,
        gaussian_prior.prior(1.3),
        6,
    ),
    "clutter": (
        clutter,
        *clutter.bind(X, np.array([0.4, 3.9, -1.0])),
        gaussian_prior,
        gaussian_prior.prior(2.0),
        2,
    ),
    "probit": (
        probit,
        *probit.bind(X, np.array([1.0, -1.0, 1.0])),
        gaussian_prior,
        gaussian_prior.prior(1.3),
        2,
    ),
    "student_t": (
        student_t,
        *student_t.bind(X, np.array([0.4, 1.9, -1.0]), 0.8, 4.0),
        laplace_prior,
        laplace_prior.prior(0.7),
        2,
    ),
}

with registered("flyrun_rows"):
    ROWS = {
        "label_noise": ([1.0, -1.0, 1.0], {}),
        "softplus_counts": ([0.0, 3.0, 1.0], {}),
        "known_noise": ([0.4, 1.9, -1.0], {"trials": np.array([0.3, 1.0, 2.0])}),
    }
    PROBLEMS |= {
        name: (code := tangents.of(name), *code.bind(X, np.array(y), **beside), gaussian_prior, PRIOR, 2)
        for name, (y, beside) in ROWS.items()
    }


def _thetas(n_params):
    rng = np.random.default_rng(8)
    return [rng.normal(size=n_params) * scale for scale in (0.3, 1.0, 1.0, 2.5)]


def _bounds(problem):
    """(bound, the base of its targets) of each bound."""
    likelihood, model, features, priors, prior, n_params = problem
    at = np.random.default_rng(9).normal(size=n_params).reshape(model.n_predictors, -1)
    slack = likelihood.map_bound(model, features.rows @ at.T)
    likelihood.lower(slack, np.random.default_rng(7).uniform(0.0, 0.5, len(features.rows)))
    bounds = [
        likelihood.untuned_bound(model, features, 0.0),
        likelihood.untuned_bound(model, features, 1.5),
        likelihood.map_bound(model, features.rows @ at.T),
        slack,
    ]
    return [(bound, priors.pseudo_prior(prior, collapse(bound, model, features))) for bound in bounds]


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


def _target(problem, bounded, theta, z):
    """A Firefly target at θ with brightness z; the values of bright data are queried as a chain would."""
    (_, model, features, *_), (bound, base) = problem, bounded
    target = firefly(base, model, bound, features, gradients=True)
    for n in np.flatnonzero(z):
        query(target, np.array([n]), theta)
        brighten(target, n, 0)
    return target


def _cases(problem):
    return itertools.product(_bounds(problem), _thetas(problem[-1]))


@pytest.mark.thorough(but="probit]")
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_joint_summed_over_brightness_is_the_posterior(name):
    problem = PROBLEMS[name]
    _, model, features, _, prior, n_params = problem
    full = full_data(prior, model, features, n_params)
    for bound, theta in _cases(problem):
        room = np.zeros(n_params)
        joint = [_joint(_target(problem, bound, theta, z), theta, room.copy()) for z in ALL_Z]
        assert np.logaddexp.reduce(joint) == pytest.approx(log_density(full, theta)[0], abs=1e-12)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("name", ROWS)
def test_negative_control_a_kappa_1_percent_too_small_is_no_posterior(name):
    """Where the likelihood bends most, the joint's sum is the bound, which is above it."""
    code, model, features, _, prior, _ = PROBLEMS[name]
    full, off = full_data(prior, model, features, 2), {}
    at = code.steepest(model)[:1]
    theta = np.linalg.lstsq(X[:1], at, rcond=None)[0][:, 0] + 0.01
    for share in (1.0, 0.99):
        bound = code.map_bound(model, np.tile(at, (3, 1)))
        bound.parabola[:, 3] *= share / (1.0 + tangents.ROOM)
        bounded = bound, gaussian_prior.pseudo_prior(prior, collapse(bound, model, features))
        joint = [_joint(_target(PROBLEMS[name], bounded, theta, z), theta, np.zeros(2)) for z in ALL_Z]
        off[share] = abs(np.logaddexp.reduce(joint) - log_density(full, theta)[0])
    assert off[1.0] < 1e-12
    assert off[0.99] > 1e-7


@pytest.mark.thorough(but="probit]")
@pytest.mark.parametrize("name", sorted(PROBLEMS.keys() - {"softmax, whole numbers"}))
def test_gradients_kept_and_proposed_are_those_of_the_density(name):
    problem = PROBLEMS[name]
    _, model, features, _, prior, n_params = problem
    full = full_data(prior, model, features, n_params)
    step = 1e-6
    for bound, theta in _cases(problem):
        _, exact = log_density(full, theta)
        units = np.eye(n_params) * step
        numeric = [
            (log_density(full, theta + u)[0] - log_density(full, theta - u)[0]) / (2 * step) for u in units
        ]
        np.testing.assert_allclose(exact, numeric, rtol=1e-6, atol=1e-6)
        for z in ALL_Z:
            kept, proposed = np.zeros(n_params), np.zeros(n_params)
            target = _target(problem, bound, theta, z)
            spent = int(target.memory.queries[0])
            _joint(target, theta, kept)
            assert target.memory.queries[0] == spent  # what is kept costs nothing
            _proposed(target, theta, proposed)
            assert target.memory.queries[0] == spent + sum(z)
            on_the_way = np.zeros(n_params)
            _on_the_way(target, theta, on_the_way)
            assert target.memory.queries[0] == spent + 2 * sum(z)
            np.testing.assert_array_equal(on_the_way, proposed)
            np.testing.assert_allclose(kept, proposed, rtol=1e-12, atol=1e-12)
            there = [_proposed(target, theta + u, np.zeros(n_params)) for u in units]
            back = [_proposed(target, theta - u, np.zeros(n_params)) for u in units]
            numeric = (np.array(there) - np.array(back)) / (2 * step)
            np.testing.assert_allclose(proposed, numeric, rtol=1e-5, atol=1e-5)


KERNELS = {
    "implicit": lambda: implicit(0.3, 3),
    **{f"explicit {order}": lambda order=order: explicit(0.5, order, 3) for order in ORDERS},
}


@pytest.mark.thorough(but="probit-")
@pytest.mark.parametrize("make", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize("name", PROBLEMS)
def test_brightness_kernels_leave_their_conditional_invariant(name, make, monkeypatch):
    # a helper that draws must run as plain Python here; all else runs compiled
    monkeypatch.setattr(
        "flyrun.experiments.samplers.chain.brightness.explicit._next_datum", interpreted(_next_datum)
    )
    problem = PROBLEMS[name]
    for bound, theta in list(_cases(problem))[::5]:
        room = np.zeros(theta.size)
        pi = np.exp([_joint(_target(problem, bound, theta, z), theta, room) for z in ALL_Z])
        pi /= pi.sum()
        matrix = np.zeros((8, 8))
        for row, z in enumerate(ALL_Z):

            def sweep(rng, z=z, bound=bound, theta=theta):
                target, kernel = _target(problem, bound, theta, z), with_room_for_symbols(make())
                resample.methods[type(kernel)](kernel, rng, target, theta)
                return tuple(bool(is_bright(target.memory.partition, n)) for n in range(3))

            for probability, after in outcomes(sweep, most=4):
                matrix[row, ALL_Z.index(after)] += probability
        np.testing.assert_allclose(matrix.sum(axis=1), 1.0, atol=1e-14)
        np.testing.assert_allclose(pi @ matrix, pi, atol=1e-15)


@pytest.mark.thorough(but="softmax]")
@pytest.mark.parametrize("name", ["softmax", "softmax, whole numbers"])
def test_gauge_along_a_shift_of_all_classes_the_posterior_is_the_prior(name):
    problem = PROBLEMS[name]
    _, model, features, _, prior, n_params = problem
    full = full_data(prior, model, features, n_params)
    shift = np.tile([1.7, -0.4], 3)  # Θ + 1vᵀ
    for bound, theta in _cases(problem):
        expected = norm.logpdf(theta + shift, scale=1.3).sum() - norm.logpdf(theta, scale=1.3).sum()
        there, here = log_density(full, theta + shift)[0], log_density(full, theta)[0]
        assert there - here == pytest.approx(expected, abs=1e-11)
        for z in ALL_Z:  # and so under FlyMC, whatever is bright
            target = _target(problem, bound, theta, z)
            there, here = (_proposed(target, at, np.zeros(n_params)) for at in (theta + shift, theta))
            assert there - here == pytest.approx(expected, abs=1e-11)
