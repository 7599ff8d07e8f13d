"""The Böhning bound and the softmax likelihood: below, tight, gauge-free, stable; gradients; collapse."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import log_softmax, softmax

from flyrun.experiments.models import gaussian_prior, kronecker
from flyrun.experiments.models import softmax as model_file
from flyrun.experiments.models.base_density import dense
from flyrun.experiments.models.collapse import collapse
from flyrun.experiments.models.features import predict, pull_back
from flyrun.experiments.models.multi_linear import MultiLinear, compact
from flyrun.ground.errors import DataError
from flyrun.ground.numerics.compiled import jit
from tests.models.calls import log_base, log_bound, log_likelihood

ETA = st.floats(-700.0, 700.0)
N = 6


@jit
def _forth(features, index, theta, eta):
    predict(features, index, theta, eta)


@jit
def _back(features, index, slopes, gradient):
    pull_back(features, index, slopes, gradient)


def _evaluate(eta, psi, labels):
    """log L, its slopes, log B, its slopes at eta, (n, K); bounds tight at psi."""
    n, n_classes = eta.shape
    model = model_file.Softmax(labels, n_classes)
    values, slopes = np.zeros((2, n)), np.zeros((2, n, n_classes))
    log_likelihood(model, np.arange(n), eta, values[0], slopes[0])
    log_bound(model_file.tight_at(psi, labels), model, np.arange(n), eta, values[1], slopes[1])
    return values[0], slopes[0], values[1], slopes[1]


def matrices(n_classes):
    return arrays(float, (N, n_classes), elements=ETA)


@st.composite
def cases(draw):
    """(eta, psi, labels) for 2, 3 or 5 classes."""
    k = draw(st.sampled_from([2, 3, 5]))
    labels = draw(arrays(np.int64, N, elements=st.integers(0, k - 1)))
    return draw(matrices(k)), draw(matrices(k)), labels


def _slack(*etas):
    # rounding of the parabola's terms, which cancel where the bound is tight
    return 1e-15 * (1.0 + sum((eta**2).sum(axis=1) for eta in etas))


@pytest.mark.thorough
@given(cases())
def test_bound_is_below_the_likelihood(case):
    eta, psi, labels = case
    log_l, _, log_b, _ = _evaluate(eta, psi, labels)
    assert np.all(np.isfinite(log_b))
    assert np.all(log_b <= log_l + _slack(eta, psi))


@pytest.mark.thorough
@given(cases())
def test_bound_touches_in_value_and_slopes(case):
    _, psi, labels = case
    log_l, slopes_l, log_b, slopes_b = _evaluate(psi, psi, labels)
    assert np.all(np.abs(log_b - log_l) <= _slack(psi, psi))
    np.testing.assert_allclose(slopes_b, slopes_l, atol=1e-12)


@pytest.mark.thorough
@given(cases())
def test_likelihood_and_slopes_are_those_of_the_softmax(case):
    eta, psi, labels = case
    log_l, slopes, _, _ = _evaluate(eta, psi, labels)
    np.testing.assert_allclose(log_l, log_softmax(eta, axis=1)[np.arange(N), labels], rtol=1e-13, atol=1e-14)
    expected = -softmax(eta, axis=1)
    expected[np.arange(N), labels] += 1.0
    np.testing.assert_allclose(slopes, expected, atol=1e-14)


@pytest.mark.thorough
@given(cases(), st.floats(-700.0, 700.0))
def test_a_shift_of_all_predictors_changes_nothing(case, shift):
    eta, psi, labels = case
    log_l, slopes_l, log_b, slopes_b = _evaluate(eta, psi, labels)
    shifted = _evaluate(eta + shift, psi + shift, labels)
    slack = 1e-12 * (1.0 + np.abs(eta).max() + np.abs(psi).max() + abs(shift)) ** 2
    for before, after in zip((log_l, slopes_l, log_b, slopes_b), shifted, strict=True):
        np.testing.assert_allclose(after, before, atol=slack)


def test_negative_control_a_flatter_parabola_is_no_bound():
    labels, eta = np.zeros(1, np.int64), np.array([[0.3, -0.3, 0.0]])
    log_l, _, log_b, _ = _evaluate(eta, np.zeros((1, 3)), labels)
    centred = eta - eta.mean()
    assert log_b < log_l
    assert log_b + 0.125 * (centred**2).sum() > log_l  # half the curvature


def test_nan_stays_nan():
    values = _evaluate(np.array([[0.0, np.nan, 1.0]]), np.zeros((1, 3)), np.zeros(1, np.int64))
    assert np.isnan(values[0]).all()
    assert np.isnan(values[2]).all()


def _data(seed, n_classes, whole):
    rng = np.random.default_rng(seed)
    x = rng.choice([-1.0, 1.0], (31, 4)) if whole else rng.normal(size=(31, 4))
    labels = rng.integers(0, n_classes, 31)
    return *model_file.bind(x, labels, n_classes), x, rng


@pytest.mark.thorough
@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([2, 3, 4, 7]), st.booleans())
def test_predict_and_pull_back_are_matrix_products(seed, n_classes, whole):
    _, features, x, rng = _data(seed, n_classes, whole)
    assert features.rows.dtype == (np.int8 if whole else np.float64)
    theta, index = rng.normal(size=n_classes * 4), rng.permutation(31)[:27]
    eta, gradient = np.zeros((27, n_classes)), np.ones(n_classes * 4)
    _forth(features, index, theta, eta)
    np.testing.assert_allclose(eta, x[index] @ theta.reshape(n_classes, 4).T, rtol=1e-12, atol=1e-12)
    slopes = rng.normal(size=(27, n_classes))
    _back(features, index, slopes, gradient)
    np.testing.assert_allclose(gradient - 1.0, (slopes.T @ x[index]).ravel(), rtol=1e-12, atol=1e-12)


@pytest.mark.thorough
@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([2, 3, 4]), st.booleans())
def test_collapsed_bounds_are_the_sum_of_the_bounds(seed, n_classes, whole):
    model, features, x, rng = _data(seed, n_classes, whole)
    psi, theta = rng.normal(size=(31, n_classes)) * 3, rng.normal(size=n_classes * 4) * 2
    bound = model_file.tight_at(psi, model.labels)
    base = gaussian_prior.pseudo_prior(gaussian_prior.prior(0.7), collapse(bound, model, features))
    eta = x @ theta.reshape(n_classes, 4).T
    _, _, log_b, _ = _evaluate(eta, psi, model.labels)
    log_prior = -0.5 * theta @ theta / 0.49 - len(theta) * np.log(0.7 * np.sqrt(2 * np.pi))
    gradient = np.zeros(len(theta))
    assert log_base(base, theta, gradient) == pytest.approx(log_b.sum() + log_prior, rel=1e-11)
    full = dense(base)
    same = -0.5 * theta @ full.precision @ theta + full.linear @ theta + full.constant[0]
    assert same == pytest.approx(log_b.sum() + log_prior, rel=1e-11)
    np.testing.assert_allclose(gradient, full.linear - full.precision @ theta, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("xi", [0.0, 1.5])
def test_untuned_bounds_touch_at_xi_in_the_class_of_the_datum(xi):
    model, features, _, _ = _data(2, 3, False)
    psi = xi * np.eye(3)[model.labels]
    expected = model_file.tight_at(psi, model.labels).tangent
    np.testing.assert_array_equal(model_file.untuned_bound(model, features, xi).tangent, expected)


def test_only_small_whole_numbers_are_packed():
    assert compact(np.array([[1.0, -128.0]])).dtype == np.int8
    assert compact(np.array([[1.0, 128.0]])).dtype == np.float64
    assert compact(np.array([[1.0, 0.5]])).dtype == np.float64
    assert isinstance(_data(0, 3, True)[1], MultiLinear)


def test_one_class_is_refused():
    with pytest.raises(DataError, match="two classes"):
        model_file.bind(np.ones((3, 1)), np.zeros(3, np.int64))


def test_a_kronecker_base_never_makes_the_full_matrix():
    model, features, _, _ = _data(3, 3, False)
    base = collapse(model_file.untuned_bound(model, features, 0.0), model, features)
    assert isinstance(base, kronecker.Kronecker)
    assert max(np.size(part) for part in base) == 4 * 4
