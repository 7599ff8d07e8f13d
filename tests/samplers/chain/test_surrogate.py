"""The Taylor surrogate: polynomials against derivatives, their sums against the data, bounds against both."""

from math import factorial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flyrun.experiments.models import logistic, softmax, student_t, taylor
from flyrun.experiments.samplers.chain.surrogate.remainder import by_leverages, leverage_reach
from flyrun.experiments.samplers.chain.surrogate.taylor import (
    add_in_theta,
    predictors_at,
    summed,
    to_phi,
    to_theta,
)
from flyrun.ground.numerics.compiled import jit
from tests.exactness.chains import TOYS
from tests.exactness.expansions import expansion
from tests.models.calls import log_likelihood

ORDERS = {"logistic": 3, "student_t": 3, "softmax": 2}


@jit
def _subtract(model, index, centres, eta, order, values):
    taylor.subtract_expansion(model, index, centres, eta, order, values)


@jit
def _summed(made, theta, phi, gradient, out, back):
    to_phi(made, theta, phi)
    value = summed(made, phi, gradient)
    add_in_theta(made, gradient, out)
    to_theta(made, phi, back)
    return value, summed(made, phi, None)


def _remainders(problem, made, order, theta):
    """R_k,n + log L_n(θ̂) of all data, (N,), and Σ log L_n(θ)."""
    model, features = problem.model, problem.features
    eta = predictors_at(model, features, theta)
    index, values = np.arange(len(eta)), np.zeros(len(eta))
    log_likelihood(model, index, eta, values, None)
    whole = values.sum()
    _subtract(model, index, made.predictors, eta, order, values)
    return values, whole


@pytest.mark.thorough
@pytest.mark.parametrize("name", TOYS)
def test_the_sum_of_the_polynomials_is_the_surrogate(name):
    problem, rng = TOYS[name](), np.random.default_rng(1)
    size = problem.mode.size
    for order in range(ORDERS[name] + 1):
        made, _ = expansion(problem, order)
        for theta in (made.mean, made.mean + 0.4 * rng.standard_normal(size)):
            left, whole = _remainders(problem, made, order, theta)
            phi, gradient, out, back = np.zeros((4, size))
            value, quick = _summed(made, theta, phi, gradient, out, back)
            assert quick == pytest.approx(value, abs=1e-12)
            np.testing.assert_allclose(back, theta, atol=1e-12)
            assert whole - left.sum() == pytest.approx(value, abs=1e-10)
        slopes = []
        for d in range(size):
            ends = []
            for side in (-1e-5, 1e-5):
                moved, room = theta + side * np.eye(size)[d], np.zeros((4, size))
                ends.append(_summed(made, moved, *room)[1])
            slopes.append((ends[1] - ends[0]) / 2e-5)
        np.testing.assert_allclose(out, slopes, atol=1e-5)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("name", TOYS)
def test_remainders_stay_within_their_bounds_and_nearly_reach_them(name):
    problem, rng = TOYS[name](), np.random.default_rng(2)
    model, size = problem.model, problem.mode.size
    for order in range(ORDERS[name] + 1):
        made, roots = expansion(problem, order)
        local = problem.likelihood.remainder_constants(model, made.predictors, order, True)
        largest = problem.likelihood.remainder_constants(model, made.predictors, order, False)
        assert np.all(local <= 1.002 * largest)
        bounds = by_leverages(order, local, roots)
        used = np.zeros(2)
        for _ in range(300):
            here, there = rng.standard_normal((2, size)) * rng.exponential(size=(2, 1)) * 2.0
            if rng.random() < 0.5:
                there = here + 0.3 * there
            changes = np.zeros(len(roots))
            for phi, sign in ((here, -1.0), (there, 1.0)):
                changes += sign * _remainders(problem, made, order, made.mean + made.colour @ phi)[0]
            for i, cornish in enumerate((False, True)):
                room = bounds.weights * leverage_reach(order, cornish, here, there)
                assert np.all(np.abs(changes) <= room * (1 + 1e-9) + 1e-12)
                used[i] = max(used[i], np.max(np.abs(changes) / (room + 1e-300)))
                assert leverage_reach(order, cornish, here, there) == pytest.approx(
                    leverage_reach(order, cornish, there, here), rel=1e-12
                )
        assert used[0] > (0.3 if name == "softmax" else 0.5)
        assert used[1] <= used[0] + 1e-9


@settings(max_examples=60)
@given(
    x=st.floats(-700, 700) | st.floats(-6, 6),
    t=st.floats(-700, 700) | st.floats(-6, 6),
    order=st.integers(1, 3),
    name=st.sampled_from(["logistic", "student_t"]),
)
def test_constants_of_each_datum_hold_everywhere(x, t, order, name):
    """|f'(x + t) − T'(x + t)| ≤ κ(x)|t|^k/k!."""
    module = {"logistic": logistic, "student_t": student_t}[name]
    left = module._derivatives(np.array(x + t))[0]
    for j in range(order):
        left = left - module._derivatives(np.array(x))[j] * t**j / factorial(j)
    kappa = module._smallest(order).at(np.array(x))
    room = kappa * abs(t) ** order / factorial(order)
    assert abs(left) <= room + 1e-15 * (1 + abs(t) ** (order - 1))


def test_constants_known_in_closed_form():
    """At the centre and where the third derivative of the logistic is largest."""
    peak = np.log(2 + np.sqrt(3))
    assert logistic._smallest(2).at(peak) == pytest.approx(1 / (6 * np.sqrt(3)), rel=2e-3)
    assert logistic._smallest(3).at(0.0) == pytest.approx(1 / 8, rel=2e-3)
    model, _ = student_t.bind(np.zeros((1, 1)), np.zeros(1), scale=0.5, nu=4.0)
    of = student_t.remainder_constants(model, np.zeros((1, 1)), 3, False)
    assert of[0] == pytest.approx(30 / 16 / 0.5**4)
    assert student_t.remainder_constants(model, np.zeros((1, 1)), 0, True)[0] == pytest.approx(1.25 / 0.5)
    assert student_t.remainder_constants(model, np.zeros((1, 1)), 2, False)[0] == pytest.approx(
        0.91069 / 0.125, 1e-4
    )


def test_negative_control_constants_of_half_the_size_fail():
    x = np.linspace(-4, 4, 81)
    t = np.linspace(-6, 6, 241)
    for module in (logistic, student_t):
        slope, bend = module._derivatives(x)[:2]
        left = np.abs(module._derivatives(x[:, None] + t)[0] - slope[:, None] - bend[:, None] * t)
        room = module._smallest(2).at(x)[:, None] * t * t / 2
        assert np.all(left <= room + 1e-15)
        assert np.all((left > 0.95 * room).any(axis=1))


def test_softmax_constants_hold_for_whatever_probabilities():
    """Cumulants of unit vectors under probabilities near the extremes: below the constants, near them."""
    rng = np.random.default_rng(3)
    seen = np.zeros(3)
    for _ in range(4000):
        several = rng.integers(2, 6)
        v = rng.standard_normal(several) * (rng.random(several) < 0.7)
        v -= v.mean()
        if np.linalg.norm(v) == 0:
            continue
        v /= np.linalg.norm(v)
        p = rng.dirichlet(np.full(several, 0.3))
        away = v - p @ v
        seen = np.maximum(seen, [np.abs(away).max(), p @ away**2, abs(p @ away**3)])
    assert np.all(seen <= np.array(softmax.LARGEST) + 1e-12)
    assert np.all(seen > 0.9 * np.array(softmax.LARGEST))
