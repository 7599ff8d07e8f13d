"""The Gaussian with the posterior's slope and curvature on average, against draws and quadrature."""

import numpy as np
import pytest
from scipy import integrate, stats

from flyrun.gold.problem import arm_of
from flyrun.models.base import Penalty
from flyrun.models.fits.gaussian_fit import POINTS, _of_prior, gaussian_fit
from flyrun.models.problem import bind, log_densities, posterior_curvature, scores

DATA = ["dataset=toy_2d", "dataset.n_data=80", "dataset.separation=1.5"]
LOGISTIC = [*DATA, "model=logistic", "prior=gaussian"]


@pytest.fixture(scope="module")
def logistic(tmp_path_factory):
    arm = arm_of(LOGISTIC)
    return arm, bind(arm, tmp_path_factory.mktemp("setup"), needs_map=True)


def test_no_steps_are_laplaces_approximation(logistic):
    fit = gaussian_fit(*logistic, 0)
    np.testing.assert_array_equal(fit.mean, logistic[1].fit.theta_map)
    np.testing.assert_allclose(fit.precision, posterior_curvature(*logistic), rtol=1e-12)
    assert fit.queries == 80


def test_the_fixed_point_has_no_slope_on_average_and_the_mean_curvature(logistic):
    fit = gaussian_fit(*logistic, 30)
    covariance = np.linalg.inv(fit.precision)
    draws = np.random.default_rng(0).multivariate_normal(fit.mean, covariance, 4_000)
    slopes = scores(*logistic, draws)
    error = slopes.std(axis=0) / np.sqrt(len(draws))
    assert (np.abs(slopes.mean(axis=0)) < 4 * error).all()
    # −E∇² log p = E[∇log p (θ − m)ᵀ]·S⁻¹ under the Gaussian (Stein), a mean of products
    stein = slopes.T @ (draws - fit.mean) / len(draws) @ fit.precision
    np.testing.assert_allclose(-stein, fit.precision, atol=0.15 * np.abs(fit.precision).max())
    assert fit.queries == 80 * (1 + 30 * POINTS)
    # the MAP is no such point: the posterior is skewed
    at_map = gaussian_fit(*logistic, 0)
    away = np.random.default_rng(0).multivariate_normal(at_map.mean, np.linalg.inv(at_map.precision), 4_000)
    off = scores(*logistic, away)
    assert np.abs(off.mean(axis=0) / (off.std(axis=0) / np.sqrt(len(away)))).max() > 4


def test_it_is_closer_to_the_posterior_than_laplaces(logistic):
    def divergence(steps):
        fit = gaussian_fit(*logistic, steps)
        q = stats.multivariate_normal(fit.mean, np.linalg.inv(fit.precision))
        draws = q.rvs(3_000, random_state=1)
        return np.mean(q.logpdf(draws) - sum(log_densities(*logistic, draws)))

    assert divergence(10) < divergence(0)


@pytest.mark.parametrize("penalty", [Penalty(2.0, 0.0), Penalty(0.0, 3.0)])
def test_what_the_prior_gives_on_average(penalty):
    mean, sd = np.array([0.3]), np.array([0.5])
    q = stats.norm(mean[0], sd[0])

    def slope(theta):
        return -penalty.ridge * theta - penalty.rate * np.sign(theta)

    parts = [(-8, 0), (0, 8)]
    by_quadrature = sum(integrate.quad(lambda t: slope(t) * q.pdf(t), *part)[0] for part in parts)
    by_stein = sum(integrate.quad(lambda t: slope(t) * (t - 0.3) * q.pdf(t), *part)[0] for part in parts)
    found, bend = _of_prior(penalty, mean, sd)
    assert found[0] == pytest.approx(by_quadrature, rel=1e-6)
    assert bend[0] == pytest.approx(-by_stein / sd[0] ** 2, rel=1e-6)
