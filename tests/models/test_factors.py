"""Expectations of likelihoods where what they see is Gaussian, against sums over fine grids."""

from types import SimpleNamespace

import numpy as np
import pytest

from flyrun.experiments.models import logistic, softmax, student_t
from flyrun.experiments.models.factors import Factors, Gaussians, Projection, expected, tilted

GRID = np.linspace(-9, 9, 6_001)


def _logistic():
    return Factors(logistic, logistic.bind(np.ones((3, 1)), np.array([1.0, -1.0, 1.0]))[0])


def _student_t():
    return Factors(student_t, student_t.bind(np.ones((3, 1)), np.array([0.5, -2.0, 4.0]), 0.7, 4.0)[0])


def _moments(factors, at):
    """log Z, slope, curvature in the mean, mean and variance of each row by sums over a grid."""
    found = []
    for n in range(len(at.mean)):
        m, v = at.mean[n, 0], at.variance[n, 0, 0]
        u = m + np.sqrt(v) * GRID
        one = Factors(factors.module, factors.module.part(factors.part, np.full(len(u), n)))
        weight = np.exp(-0.5 * GRID**2) / np.sqrt(2 * np.pi) * (GRID[1] - GRID[0])
        weight = weight * np.exp(one.values(u[:, None]))
        z = weight.sum()
        mean = weight @ u / z
        variance = weight @ (u - mean) ** 2 / z
        found.append((np.log(z), (mean - m) / v, (v - variance) / v**2, mean, variance))
    return np.array(found).T


@pytest.mark.parametrize("make", [_logistic, _student_t])
@pytest.mark.parametrize(("variance", "level"), [(0.01, 1e-9), (1.0, 1e-5), (30.0, 2e-3)])
def test_tilted_moments_are_those_of_a_grid(make, variance, level):
    """Wide ones too, for which nodes about the mean would miss where the product is."""
    factors, at = make(), Gaussians(np.array([[0.4], [-1.0], [2.0]]), np.full((3, 1, 1), variance))
    found = tilted(factors, at, 20)
    log_z, slope, curvature, mean, spread = _moments(factors, at)
    np.testing.assert_allclose(found.log_z, log_z, atol=level)
    np.testing.assert_allclose(found.slope[:, 0], slope, atol=level)
    np.testing.assert_allclose(found.curvature[:, 0, 0], curvature, atol=level)
    np.testing.assert_allclose(found.mean[:, 0], mean, atol=5 * level)
    np.testing.assert_allclose(found.variance[:, 0, 0], spread, rtol=30 * level)


def test_negative_control_nodes_about_the_mean_miss_a_wide_product():
    factors, at = _logistic(), Gaussians(np.full((3, 1), -8.0), np.full((3, 1, 1), 100.0))
    log_z = _moments(factors, at)[0]
    assert np.abs(tilted(factors, at, 4).log_z - log_z).max() < 0.1
    plain = expected(factors, at, 4).value
    assert np.abs(plain - log_z).min() > 1


def test_softmax_is_seen_in_one_dimension_less_and_shifts_do_not_matter():
    rng = np.random.default_rng(0)
    model, features = softmax.bind(rng.standard_normal((4, 2)), np.array([0, 1, 2, 1]))
    factors = Factors(softmax, model)
    assert factors.basis.shape == (3, 2)
    projection = Projection(features, factors.basis)
    root = rng.standard_normal((6, 6)) * 0.3
    mean, covariance = rng.standard_normal(6), root @ root.T
    at = projection.marginals(features.rows, *projection.reduced(mean, covariance))
    found = expected(factors, at, 12)
    theta = rng.multivariate_normal(mean, covariance, 40_000).reshape(-1, 3, 2)
    eta = np.einsum("skd,nd->nsk", theta, features.rows)
    log_p = eta - np.logaddexp.reduce(eta, axis=2)[:, :, None]
    drawn = np.array([log_p[n, :, label] for n, label in enumerate(model.labels)])
    z = (drawn.mean(axis=1) - found.value) / (drawn.std(axis=1) / 200)
    assert np.abs(z).max() < 4


def test_sites_go_back_to_parameters_as_they_came():
    rng = np.random.default_rng(1)
    basis = Factors(softmax, SimpleNamespace(n_predictors=3)).basis
    projection = Projection(None, basis)
    gram, linear = rng.standard_normal((4, 4)), rng.standard_normal(4)
    precision, slope = projection.back(gram, linear)
    theta = rng.standard_normal(6)
    little = (basis.T @ theta.reshape(3, 2)).ravel()
    np.testing.assert_allclose(theta @ precision @ theta, little @ gram @ little)
    np.testing.assert_allclose(theta @ slope, little @ linear)
