"""The Gaussian bound on Student-t noise: below, tight, stable; its collapse; gradients."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import t as scipy_t

from flyrun.experiments.models import gaussian_prior, laplace_prior, student_t
from flyrun.experiments.models.base_density import dense, draw_base
from flyrun.experiments.models.collapse import collapse
from flyrun.ground.numerics.compiled import outer_jit
from tests.models.calls import log_base, log_bound, log_likelihood

RESIDUAL = arrays(float, 7, elements=st.floats(-700.0, 700.0))
NU = st.sampled_from([0.5, 1.0, 4.0, 30.0])


@outer_jit
def _draw(base, rng, out):
    draw_base(base, rng, out)


def _evaluate(residuals, tight, nu, scale=1.0):
    """log L, its slope by η, log B, its slope where (y − η)/σ = residuals; bounds tight at ±tight."""
    n = len(residuals)
    model, _ = student_t.bind(np.zeros((n, 1)), np.full(n, 0.0), scale, nu)
    eta = -scale * np.asarray(residuals, float)[:, None]
    values, slopes = np.zeros((2, n)), np.zeros((2, n, 1))
    log_likelihood(model, np.arange(n), eta, values[0], slopes[0])
    log_bound(student_t.tight_at(model, tight), model, np.arange(n), eta, values[1], slopes[1])
    return values[0], slopes[0, :, 0], values[1], slopes[1, :, 0]


def _slack(nu, *residuals):
    return 4e-15 * (1.0 + (nu + 1.0) / nu * sum(r**2 for r in residuals))


@pytest.mark.thorough
@given(RESIDUAL, RESIDUAL, NU)
def test_bound_is_below_the_likelihood(residuals, tight, nu):
    log_l, _, log_b, _ = _evaluate(residuals, tight, nu)
    assert np.all(np.isfinite(log_b))
    assert np.all(log_b <= log_l + _slack(nu, residuals, tight))


@given(RESIDUAL, NU, st.sampled_from([-1.0, 1.0]))
def test_bound_touches_in_value_and_slope(residuals, nu, side):
    log_l, slope_l, log_b, slope_b = _evaluate(side * residuals, residuals, nu, 0.3)
    assert np.all(np.abs(log_b - log_l) <= _slack(nu, residuals))
    np.testing.assert_allclose(slope_b, slope_l, rtol=1e-12, atol=1e-12)


@pytest.mark.thorough
@given(RESIDUAL, NU, st.sampled_from([0.01, 1.0, 30.0]))
def test_likelihood_is_the_t_density(residuals, nu, scale):
    log_l, slope, _, _ = _evaluate(residuals, residuals, nu, scale)
    np.testing.assert_allclose(
        log_l, scipy_t.logpdf(scale * residuals, nu, scale=scale), rtol=1e-12, atol=1e-12
    )
    step = 1e-6
    up, _, _, _ = _evaluate(residuals - step, residuals, nu, scale)  # η up is r down
    down, _, _, _ = _evaluate(residuals + step, residuals, nu, scale)
    np.testing.assert_allclose(slope * scale, (up - down) / (2 * step), rtol=1e-4, atol=1e-6)


def test_negative_control_a_flatter_gaussian_is_no_bound():
    r = 0.3
    log_l, _, log_b, _ = _evaluate(np.array([r]), np.zeros(1), 4.0)
    assert log_b < log_l
    assert log_b + 0.5 * 0.625 * r**2 > log_l  # half the curvature (ν+1)/(2ν)


def test_huge_residuals_stay_finite_and_nan_stays_nan():
    log_l, slope, _, _ = _evaluate(np.array([1e200, -1e160, 1e5]), np.zeros(3), 4.0)
    assert np.all(np.isfinite(log_l))
    assert np.all(np.isfinite(slope))
    assert np.isnan(_evaluate(np.array([np.nan]), np.zeros(1), 4.0)[0]).all()


@pytest.mark.thorough
@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([np.float32, np.float64]))
def test_collapsed_bounds_are_the_sum_of_the_bounds(seed, dtype):
    rng = np.random.default_rng(seed)
    x, y, theta = rng.normal(size=(40, 4)).astype(dtype), rng.normal(size=40) * 3, rng.normal(size=4)
    model, features = student_t.bind(x, y, scale=0.7, nu=4.0)
    assert features.rows.dtype == dtype
    tight = rng.normal(size=40) * 3
    bound = student_t.tight_at(model, tight)
    base = laplace_prior.pseudo_prior(laplace_prior.prior(0.4), collapse(bound, model, features))
    _, _, log_b, _ = _evaluate((y - x.astype(float) @ theta) / 0.7, tight, 4.0, 0.7)
    log_prior = -np.abs(theta).sum() / 0.4 - 4 * np.log(0.8)
    gradient = np.zeros(4)
    assert log_base(base, theta, gradient) == pytest.approx(log_b.sum() + log_prior, rel=1e-11)
    bounds = dense(base.bounds)
    expected = bounds.linear - bounds.precision @ theta - np.sign(theta) / 0.4
    np.testing.assert_allclose(gradient, expected, rtol=1e-10, atol=1e-10)


def test_rows_are_not_copied():
    rows = np.zeros((5, 2), np.float32)
    assert student_t.bind(rows, np.zeros(5))[1].rows is rows


@pytest.mark.thorough
def test_laplace_draws_and_their_stand_in():
    prior, rng = laplace_prior.prior(0.3), np.random.default_rng(4)
    draws = np.zeros(200_000)
    _draw(prior, rng, draws)
    # four standard errors of means of |θ| (sd 0.3) and of the sign (sd 1)
    assert np.abs(draws).mean() == pytest.approx(0.3, abs=4 * 0.3 / np.sqrt(2e5))
    assert np.sign(draws).mean() == pytest.approx(0.0, abs=4 / np.sqrt(2e5))
    x = rng.normal(size=(40, 3))
    model, features = student_t.bind(x, rng.normal(size=40))
    bounds = collapse(student_t.untuned_bound(model, features, 0.0), model, features)
    # a Laplace prior of scale b has variance 2b²
    expected = bounds.precision + np.eye(3) / (2 * 0.3**2)
    np.testing.assert_allclose(
        dense(laplace_prior.pseudo_prior(prior, bounds)).precision, expected, rtol=1e-10
    )


@pytest.mark.thorough
@pytest.mark.parametrize("priors", [gaussian_prior, laplace_prior])
def test_collapsed_bounds_of_tiny_noise_keep_their_digits(priors):
    # with noise of 1e-8 the terms θᵀPθ and hᵀθ are 1e17, and what is left of their sum decides
    scale, rng = 1e-8, np.random.default_rng(11)
    x = np.column_stack([rng.normal(size=(200, 2)), np.ones(200)])
    truth = np.array([0.7, -1.3, 0.4])
    y = x @ truth + scale * rng.standard_t(4, 200)
    model, features = student_t.bind(x, y, scale, 4.0)
    residuals = np.longdouble(y) - np.longdouble(x) @ np.longdouble(truth)
    bound = student_t.tight_at(model, np.asarray(residuals / scale, float))
    base = priors.pseudo_prior(priors.prior(1.0), collapse(bound, model, features))
    sd = np.sqrt(np.diag(np.linalg.inv(dense(base).precision)))
    positions = truth + sd * rng.normal(size=(20, 3))
    rest = np.longdouble(y)[:, None] - np.longdouble(x) @ np.longdouble(positions).T
    exact = -(np.longdouble(bound.curve[:, 1:]) * (rest / np.longdouble(scale)) ** 2).sum(axis=0)
    found = np.array([log_base(base, theta, np.zeros(3)) for theta in positions])
    plain = np.array([log_base(base, theta, None) for theta in positions])
    for values in (found, plain):
        differences = (values - values[0]) - np.asarray(exact - exact[0], float)
        np.testing.assert_allclose(differences, 0.0, atol=1e-5)
