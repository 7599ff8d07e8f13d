"""The Jaakkola-Jordan bound: below the likelihood everywhere, tight in value and slope where it says."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from flyrun.experiments.models import logistic
from flyrun.experiments.models.collapse import collapse
from flyrun.experiments.models.features import Linear
from tests.models.calls import log_bound, log_likelihood

MARGIN = st.floats(-700.0, 700.0)


def _evaluate(margins, xi):
    """log L, its slope, log B, its slope at the margins, bounds tight at ±xi."""
    n = len(margins)
    index, eta = np.arange(n), np.asarray(margins, float)[:, None].copy()
    values, slopes = np.zeros((2, n)), np.zeros((2, n, 1))
    log_likelihood(logistic.Logistic(), index, eta, values[0], slopes[0])
    log_bound(logistic.tight_at(xi), logistic.Logistic(), index, eta, values[1], slopes[1])
    return values[0], slopes[0, :, 0], values[1], slopes[1, :, 0]


@pytest.mark.thorough
@given(arrays(float, 7, elements=MARGIN), arrays(float, 7, elements=MARGIN))
def test_bound_is_below_the_likelihood(margins, xi):
    log_l, _, log_b, _ = _evaluate(margins, xi)
    # rounding of the parabola's terms, which cancel where the bound is tight
    slack = 4e-16 * (1.0 + margins**2 + xi**2)
    assert np.all(np.isfinite(log_b))
    assert np.all(log_b <= log_l + slack)


@pytest.mark.thorough
@given(arrays(float, 7, elements=MARGIN), st.sampled_from([-1.0, 1.0]))
def test_bound_touches_in_value_and_slope(margins, side):
    log_l, slope_l, log_b, slope_b = _evaluate(side * margins, margins)
    np.testing.assert_allclose(log_b, log_l, atol=4e-16 * float(1 + 2 * np.max(margins**2)))
    np.testing.assert_allclose(slope_b, slope_l, atol=1e-12)


@given(arrays(float, 7, elements=MARGIN))
def test_likelihood_is_the_log_sigmoid(margins):
    log_l, slope, _, _ = _evaluate(margins, margins)
    np.testing.assert_allclose(log_l, -np.logaddexp(0.0, -margins), rtol=1e-14, atol=1e-300)
    np.testing.assert_allclose(slope, np.exp(-np.logaddexp(0.0, margins)), rtol=1e-13, atol=1e-300)


def test_series_near_zero_joins_the_formula():
    xi = np.array([0.0, 0.99e-4, 1.01e-4])
    a = logistic.tight_at(xi).curve[:, 0]
    np.testing.assert_allclose(a, -0.125 + xi**2 / 96.0, rtol=1e-14)


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1))
def test_collapsed_bounds_are_the_sum_of_the_bounds(seed):
    rng = np.random.default_rng(seed)
    x, t = rng.normal(size=(30, 4)), rng.choice([-1.0, 1.0], 30)
    theta = rng.normal(size=4) * 3
    _, features = logistic.bind(x, t)
    xi = rng.normal(size=30) * 4
    quadratic = collapse(logistic.tight_at(xi), logistic.Logistic(), features)
    _, _, log_b, _ = _evaluate(features.rows @ theta, xi)
    collapsed = -0.5 * theta @ quadratic.precision @ theta + quadratic.linear @ theta + quadratic.constant[0]
    np.testing.assert_allclose(collapsed, log_b.sum(), rtol=1e-12)


def test_labels_are_folded_into_the_rows():
    x, t = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1.0, -1.0])
    _, features = logistic.bind(x, t)
    assert isinstance(features, Linear)
    np.testing.assert_array_equal(features.rows, [[1.0, 2.0], [-3.0, -4.0]])
