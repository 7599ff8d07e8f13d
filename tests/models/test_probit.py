"""The probit likelihood to its far tail, the parabola below it, and its remainders' constants."""

from math import factorial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import log_ndtr

from flyrun.experiments.models import logistic, probit, taylor
from flyrun.experiments.models.collapse import collapse
from flyrun.experiments.models.factors import Factors, Gaussians, tilted
from flyrun.ground.numerics.compiled import jit
from tests.models.calls import log_bound, log_likelihood

MARGIN = st.floats(-700.0, 700.0)
MODEL = probit.Probit()
WIDE = np.concatenate([-np.logspace(4, -6, 800), [0.0], np.logspace(-6, 2, 800)])


@jit
def _subtract(model, index, centres, eta, order, values):
    taylor.subtract_expansion(model, index, centres, eta, order, values)


def _likelihood(margins):
    """log L and its slope."""
    margins = np.asarray(margins, float)
    values, slopes = np.zeros(margins.size), np.zeros((margins.size, 1))
    log_likelihood(MODEL, np.arange(margins.size), margins.reshape(-1, 1).copy(), values, slopes)
    return values, slopes[:, 0]


def _bound(margins, xi):
    """log B and its slope, bounds tight at xi."""
    values, slopes = np.zeros(len(margins)), np.zeros((len(margins), 1))
    log_bound(probit.tight_at(xi), MODEL, np.arange(len(margins)), margins[:, None].copy(), values, slopes)
    return values, slopes[:, 0]


def test_likelihood_is_the_normal_distribution_function_into_both_tails():
    found, known = _likelihood(WIDE)[0], log_ndtr(WIDE)
    some = known < -1e-300  # below, doubles lose digits
    np.testing.assert_allclose(found[some], known[some], rtol=1e-12)
    assert np.all(np.abs(found[~some]) < 1e-299)


def test_slope_is_that_of_the_density_over_the_distribution_function():
    with np.errstate(under="ignore"):
        known = np.exp(-0.5 * WIDE**2 - 0.5 * np.log(2 * np.pi) - log_ndtr(WIDE))
    near = np.abs(WIDE) < 30  # from there on the exponent's own terms round
    np.testing.assert_allclose(_likelihood(WIDE)[1][near], known[near], rtol=1e-11)
    np.testing.assert_allclose(_likelihood(WIDE)[1], probit._derivatives(WIDE)[0], rtol=1e-12, atol=1e-290)


def test_the_far_tail_is_the_asymptotic_series():
    """s = x + 1/x − 2/x³ + 10/x⁵, and its derivatives by m = −x (Abramowitz & Stegun 26.2.12)."""
    x = np.logspace(2, 8, 60)
    slope, bend, third, fourth = probit._derivatives(-x)
    np.testing.assert_allclose(slope - x, 1 / x - 2 / x**3, rtol=1e-6, atol=3e-16 * x.max())
    np.testing.assert_allclose(1.0 + bend, 1 / x**2 - 6 / x**4, rtol=1e-6, atol=3e-16)
    np.testing.assert_allclose(third, 2 / x**3 - 24 / x**5, rtol=1e-5)
    np.testing.assert_allclose(fourth, 6 / x**4 - 120 / x**6, rtol=1e-3, atol=1e-14)
    parts = probit._parts(-x)
    np.testing.assert_allclose(parts.above, 1 / x - 2 / x**3 + 10 / x**5, rtol=1e-9)
    np.testing.assert_allclose(parts.left, 1 / x**2 - 6 / x**4 + 50 / x**6, rtol=1e-8)


def test_curvature_is_between_0_and_1_and_the_third_derivative_is_positive():
    margins = WIDE[WIDE < 37]
    bend = probit.curvature(MODEL, margins[:, None])[:, 0, 0]
    assert np.all((bend > 0) & (bend < 1))
    assert np.all(probit.derivative(MODEL, margins[:, None], 3) > 0)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_each_derivative_is_the_change_of_the_one_before(order):
    at, step = np.linspace(-9.0, 9.0, 181), 1e-4

    def before(margins):
        if order == 1:
            return _likelihood(margins)[0]
        return probit.derivative(MODEL, margins[:, None], order - 1)

    numeric = (before(at + step) - before(at - step)) / (2 * step)
    found = probit.derivative(MODEL, at[:, None], order)
    np.testing.assert_allclose(found, numeric, rtol=1e-7, atol=2e-8)


def test_huge_margins_stay_finite_and_nan_stays_nan():
    log_l, slope = _likelihood([1e200, -1e160, -1e5])
    assert np.all(np.isfinite(log_l))
    assert np.all(np.isfinite(slope))
    assert np.isnan(_likelihood([np.nan])[0]).all()


@pytest.mark.thorough
@given(arrays(float, 7, elements=MARGIN), arrays(float, 7, elements=MARGIN))
def test_bound_is_below_the_likelihood(margins, xi):
    log_b = _bound(margins, xi)[0]
    # rounding of the parabola's terms, which cancel where the bound is tight
    assert np.all(log_b <= _likelihood(margins)[0] + 1e-15 * (1.0 + margins**2 + xi**2))


@given(arrays(float, 7, elements=MARGIN))
def test_bound_touches_in_value_and_slope(xi):
    log_l, slope_l = _likelihood(xi)
    log_b, slope_b = _bound(xi, xi)
    np.testing.assert_allclose(log_b, log_l, atol=1e-15 * float(1 + np.max(xi**2)))
    np.testing.assert_allclose(slope_b, slope_l, atol=1e-12)


def test_negative_control_a_parabola_of_curvature_nine_tenths_is_no_bound():
    margins = np.linspace(-190.0, 10.0, 401)
    for xi in (-8.0, 0.0, 1.5, 4.0):
        log_l, log_b = _likelihood(margins)[0], _bound(margins, np.full(401, xi))[0]
        assert np.all(log_b <= log_l + 1e-10)
        assert np.any(log_b + 0.05 * (margins - xi) ** 2 > log_l + 0.1)


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1), st.sampled_from([np.float32, np.float64]))
def test_collapsed_bounds_are_the_sum_of_the_bounds(seed, dtype):
    rng = np.random.default_rng(seed)
    x, t = rng.normal(size=(30, 4)).astype(dtype), rng.choice([-1.0, 1.0], 30)
    theta, xi = rng.normal(size=4) * 3, rng.normal(size=30) * 4
    _, features = probit.bind(x, t)
    assert features.rows.dtype == dtype
    quadratic = collapse(probit.tight_at(xi), MODEL, features)
    collapsed = -0.5 * theta @ quadratic.precision @ theta + quadratic.linear @ theta + quadratic.constant[0]
    np.testing.assert_allclose(collapsed, _bound(features.rows @ theta, xi)[0].sum(), rtol=1e-11, atol=1e-10)


@settings(max_examples=60)
@given(
    x=st.floats(-700, 700) | st.floats(-6, 6),
    t=st.floats(-700, 700) | st.floats(-6, 6),
    order=st.integers(1, 3),
)
def test_constants_of_each_datum_hold_everywhere(x, t, order):
    """|f'(x + t) − T'(x + t)| ≤ κ(x)|t|^k/k!."""
    left = probit._derivatives(np.array(x + t))[0]
    for j in range(order):
        left = left - probit._derivatives(np.array(x))[j] * t**j / factorial(j)
    for local in (True, False):
        kappa = probit.remainder_constants(MODEL, np.array([[x]]), order, local)[0]
        room = kappa * abs(t) ** order / factorial(order)
        assert abs(left) <= room + 1e-15 * (1 + abs(x) + abs(t)) * (1 + abs(t) ** (order - 1))


def test_constants_are_the_smallest_and_half_of_them_fail():
    x, t = np.linspace(-4, 4, 81), np.linspace(-12, 12, 481)
    slope, bend = probit._derivatives(x)[:2]
    left = np.abs(probit._derivatives(x[:, None] + t)[0] - slope[:, None] - bend[:, None] * t)
    room = probit.remainder_constants(MODEL, x[:, None], 2, True)[:, None] * t * t / 2
    assert np.all(left <= room + 1e-14)
    assert np.all((left > 0.95 * room).any(axis=1))
    for order, derivative in ((2, 3), (3, 4)):
        largest = np.abs(probit.derivative(MODEL, np.linspace(-9, 9, 18_001)[:, None], derivative)).max()
        assert probit.LARGEST[order] == pytest.approx(largest, rel=1e-5)
        assert probit.LARGEST[order] >= largest


@pytest.mark.thorough
@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_the_expansion_leaves_the_next_order(order):
    centres = np.array([-30.0, -5.1, -4.9, -1.0, 0.0, 0.7, 3.0])[:, None]
    eta = centres + 0.01
    values = _likelihood(eta)[0]
    _subtract(MODEL, np.arange(len(eta)), centres, eta, order, values)
    left = values - _likelihood(centres)[0]
    following = probit.derivative(MODEL, centres, order + 1) * 0.01 ** (order + 1) / factorial(order + 1)
    np.testing.assert_allclose(left, following, rtol=0.02, atol=3e-13)


def _closed_form(mean, variance):
    """log Z, its slope and curvature in the mean, of N(u; m, v)Φ(u): Φ(m/√(1+v)) and its derivatives.

    Rasmussen & Williams (2006), Gaussian Processes for Machine Learning, equations 3.82 to 3.85.
    """
    root = np.sqrt(1.0 + variance)
    z = mean / root
    ratio = np.exp(-0.5 * z**2 - 0.5 * np.log(2 * np.pi) - log_ndtr(z))
    return log_ndtr(z), ratio / root, ratio * (z + ratio) / root**2


@pytest.mark.thorough
@pytest.mark.parametrize(("variance", "points"), [(0.01, 8), (0.3, 20), (1.0, 60)])
def test_tilted_moments_are_those_in_closed_form(variance, points):
    at = Gaussians(np.array([[-3.0], [-0.4], [0.0], [2.0]]), np.full((4, 1, 1), variance))
    found = tilted(Factors(probit, MODEL), at, points)
    mean = at.mean[:, 0]
    log_z, slope, curvature = _closed_form(mean, variance)
    np.testing.assert_allclose(found.log_z, log_z, atol=1e-9)
    np.testing.assert_allclose(found.slope[:, 0], slope, atol=1e-9)
    np.testing.assert_allclose(found.curvature[:, 0, 0], curvature, atol=1e-9)
    np.testing.assert_allclose(found.mean[:, 0], mean + variance * slope, atol=1e-9)
    np.testing.assert_allclose(found.variance[:, 0, 0], variance - variance**2 * curvature, atol=1e-9)


def test_negative_control_the_logistic_likelihood_has_other_moments():
    at = Gaussians(np.array([[0.7]]), np.ones((1, 1, 1)))
    found = tilted(Factors(logistic, logistic.Logistic()), at, 60)
    assert abs(found.slope[0, 0] - _closed_form(0.7, 1.0)[1]) > 0.05
