"""Tangents for classes that must hold only within an ellipsoid: below, touching; their product; each side."""

import numpy as np
import pytest

from flyrun.experiments.models import softmax
from flyrun.experiments.models.base_density import log_base
from flyrun.experiments.models.collapse import collapse
from flyrun.experiments.models.likelihood import enter, log_bound
from flyrun.experiments.models.local_bounds import brought_in, ellipsoid, mass_beyond
from flyrun.experiments.models.local_class_bounds import bend_factor, within
from flyrun.experiments.models.passes import block_predictors, look, values_and_slopes
from flyrun.ground.numerics.compiled import outer_jit

N, K, D = 400, 4, 3


@outer_jit
def _bounds_at(bound, model, theta, index, eta, values, slopes):
    enter(bound, theta)
    log_bound(bound, model, index, eta, values, slopes)


@outer_jit
def _base_at(base, theta, gradient):
    return log_base(base, theta, gradient)


def _problem(radius, n=N):
    rng = np.random.default_rng(3)
    x, theta = rng.normal(size=(n, D)), rng.normal(size=(K, D))
    p = np.exp(x @ theta.T)
    labels = (np.cumsum(p / p.sum(axis=1, keepdims=True), axis=1) < rng.random((n, 1))).sum(axis=1)
    model, features = softmax.bind(x, labels, K)
    curvature = look(softmax, model, features, theta.ravel()).curvature + np.eye(K * D)
    return model, features, ellipsoid(theta.ravel(), curvature, radius), rng


def _at(bound, model, features, theta):
    """η, the bounds' logarithms and slopes, the likelihoods' logarithms."""
    count = len(features.rows)
    eta = block_predictors(model, features, theta, slice(0, count))
    values, slopes = np.zeros(count), np.zeros(eta.shape)
    _bounds_at(bound, model, theta, np.arange(count), eta, values, slopes)
    return eta, values, slopes, values_and_slopes(model, eta)[0]


def _places(region, rng, count, low, high):
    root = np.linalg.inv(np.linalg.cholesky(region.curvature)).T
    for _ in range(count):
        away = rng.normal(size=K * D)
        share = rng.uniform(low, high) * np.sqrt(region.square) / np.linalg.norm(away)
        yield region.centre + share * root @ away


@pytest.mark.thorough
@pytest.mark.parametrize("radius", [0.1, 2.0, 5.0, 8.0])
def test_they_are_bounds_within_and_their_product_is_what_they_collapse_into(radius):
    model, features, region, rng = _problem(radius)
    bound, expected = within(softmax, model, features, region)
    product = collapse(bound, model, features, bound.region.centre)
    assert (expected > 0).all()
    for theta in _places(region, rng, 100, 0.0, 1.0):
        _, values, slopes, likelihoods = _at(bound, model, features, theta)
        assert (values <= likelihoods + 1e-13).all()
        gradient = np.zeros(K * D)
        assert _base_at(product, theta, gradient) == pytest.approx(values.sum(), rel=1e-10)
        np.testing.assert_allclose(gradient, (slopes.T @ features.rows).ravel(), rtol=1e-8, atol=1e-9)
    _, values, slopes, likelihoods = _at(bound, model, features, region.centre)
    np.testing.assert_allclose(values, likelihoods, rtol=1e-12)
    bound.lower(np.full(N, 0.25))
    np.testing.assert_allclose(_at(bound, model, features, region.centre)[1], likelihoods - 0.25, rtol=1e-12)


@pytest.mark.thorough
def test_slopes_are_those_of_the_values():
    model, features, region, rng = _problem(7.0)
    bound, _ = within(softmax, model, features, region)
    assert 0.1 < (bound.tangent[:, -1] > 0).mean() < 1.0  # of both kinds
    (theta,) = _places(region, rng, 1, 0.5, 0.5)
    _, _, slopes, _ = _at(bound, model, features, theta)
    eta, step = block_predictors(model, features, theta, slice(0, N)), 1e-6
    for k in range(K):
        sides = np.zeros((2, N))
        for side, sign in zip(sides, (-1.0, 1.0), strict=True):
            _bounds_at(bound, model, theta, np.arange(N), eta + sign * step * np.eye(K)[k], side, None)
        np.testing.assert_allclose((sides[1] - sides[0]) / (2 * step), slopes[:, k], rtol=1e-5, atol=1e-8)


@pytest.mark.thorough
def test_beyond_they_are_bohnings():
    model, features, region, rng = _problem(1.0)
    bound, _ = within(softmax, model, features, region)
    for theta in _places(region, rng, 20, 1.01, 6.0):
        eta, values, _, likelihoods = _at(bound, model, features, theta)
        other = np.zeros(N)
        _bounds_at(bound.beyond, model, theta, np.arange(N), eta, other, None)
        np.testing.assert_array_equal(values, other)
        assert (values <= likelihoods + 1e-13).all()
        away = brought_in(region, theta) - region.centre
        assert away @ region.curvature @ away < region.square


@pytest.mark.thorough
def test_each_datum_has_the_tighter_and_the_more_data_the_fewer_are_bright():
    sums = []
    for n in (400, 40_000):
        model, features, region, _ = _problem(5.0, n)
        _, expected = within(softmax, model, features, region)
        # Böhning's alone, within a wide region as well as everywhere
        bound, everywhere = within(softmax, model, features, region._replace(square=1e12))
        assert (bound.tangent[:, -1] == 0.0).all()
        assert (expected <= everywhere + 1e-15).all()
        sums.append((expected.sum(), everywhere.sum()))
    assert sums[1][0] < 0.2 * sums[0][0]
    assert sums[1][1] == pytest.approx(sums[0][1], rel=0.5)


@pytest.mark.parametrize("size", [1e-9, 1e-4, 9.9e-4, 1.1e-3, 0.5, 3.0, 30.0])
def test_the_factor_is_what_a_growing_curvature_asks_for(size):
    nodes, weights = np.polynomial.legendre.leggauss(60)
    t, weights = 0.5 * (nodes + 1.0), 0.5 * weights
    asked = 2.0 * (weights * (1.0 - t) * np.exp(t * size)).sum()
    assert bend_factor(np.array([size]))[0] == pytest.approx(asked, rel=1e-6)


def test_negative_controls_half_the_range_or_the_curvature_alone_is_no_bound():
    model, features, region, rng = _problem(6.0)
    bound, _ = within(softmax, model, features, region)
    one, _ = softmax.bind(np.array([[1.0]]), np.array([0]), 2)
    # one datum of two classes, far from even: on the way to even odds its curvature grows nearly as e^{tR}
    for share, holds in ((1.0, True), (0.5, False), (0.0, False)):
        eta = np.array([[6.0, 0.0]])
        p = np.exp(eta[0]) / np.exp(eta[0]).sum()
        step = np.array([-2.0, 2.0])
        here, slopes = values_and_slopes(one, eta)
        bend = p @ step**2 - (p @ step) ** 2
        fall = here[0] + slopes[0] @ step - values_and_slopes(one, eta + step)[0][0]
        assert (0.5 * bend_factor(np.array([share * 4.0]))[0] * bend >= fall) == holds
    wide = bound._replace(region=region._replace(square=np.inf))
    assert any(
        (_at(wide, model, features, theta)[1] > _at(wide, model, features, theta)[3] + 1e-3).any()
        for theta in _places(region, rng, 100, 4.0, 8.0)
    )


@pytest.mark.thorough
def test_the_mass_beyond_is_proved_to_be_little_among_many_data():
    model, features, region, _ = _problem(9.0, 40_000)
    bound, _ = within(softmax, model, features, region)
    precision = collapse(bound, model, features, bound.region.centre).precision + np.eye(K * D)
    assert mass_beyond(bound, precision) < 1e-4
    few, some, near, _ = _problem(9.0, 40)
    assert not mass_beyond(within(softmax, few, some, near)[0], np.eye(K * D)) < 1e-2
