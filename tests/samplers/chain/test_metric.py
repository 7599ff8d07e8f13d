"""Metrics against plain matrices, and what a pseudo-prior has beyond its Gaussian part."""

from functools import cache

import numpy as np
import pytest

from flyrun.experiments.models import gaussian_prior, laplace_prior, softmax
from flyrun.experiments.models.base_density import dense, log_base, log_beyond
from flyrun.experiments.models.collapse import collapse
from flyrun.experiments.models.likelihood import quadratic
from flyrun.experiments.samplers.chain.metric import (
    IDENTITY,
    Foreign,
    Own,
    covariance_times,
    dense_metric,
    log_base_over,
    precision_times,
    reference_at,
    reference_of,
    scale_noise,
)
from flyrun.ground.numerics.compiled import outer_jit

RNG = np.random.default_rng(4)


def _bounds(n_classes):
    """Collapsed bounds: of logistic shape for one class, Böhning's for more."""
    rows = RNG.normal(size=(30, 5))
    if n_classes == 1:
        return quadratic(rows.T @ rows, RNG.normal(size=5), 0.0)
    model, features = softmax.bind(rows, np.arange(30) % n_classes)
    return collapse(softmax.untuned_bound(model, features, 1.0), model, features)


CASES = [(name, n_classes) for name in ("gaussian", "laplace") for n_classes in (1, 2, 3, 5)]


@cache
def _bases():
    """Name of a case -> pseudo-prior."""
    priors = {"gaussian": gaussian_prior, "laplace": laplace_prior}
    return {
        f"{name}, {n_classes} classes": priors[name].pseudo_prior(priors[name].prior(0.7), _bounds(n_classes))
        for name, n_classes in CASES
    }


@pytest.fixture(params=[f"{name}, {n_classes} classes" for name, n_classes in CASES])
def base(request):
    """The pseudo-prior of a case."""
    return _bases()[request.param]


@outer_jit
def _products(metric, vector):
    precision, covariance, coloured = np.zeros_like(vector), np.zeros_like(vector), np.zeros_like(vector)
    precision_times(metric, vector, precision)
    covariance_times(metric, vector, covariance)
    scale_noise(metric, vector, coloured)
    return precision, covariance, coloured


def _matrices(metric, size):
    return (np.array(matrix).T for matrix in zip(*(_products(metric, u) for u in np.eye(size)), strict=True))


@pytest.mark.thorough(but=1)
def test_products_are_those_of_the_whole_matrices(base):
    whole = dense(base)
    reference = reference_of(base, target=True)
    size = len(whole.linear)
    np.testing.assert_allclose(whole.precision @ reference.mean, whole.linear, rtol=1e-8, atol=1e-10)
    for metric in (reference.metric, dense_metric(whole.precision)):
        precision, covariance, root = _matrices(metric, size)
        np.testing.assert_allclose(precision, whole.precision, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(covariance @ whole.precision, np.eye(size), atol=1e-8)
        np.testing.assert_allclose(root @ root.T, covariance, rtol=1e-8, atol=1e-9)


@pytest.mark.thorough
def test_the_identity_changes_nothing():
    for matrix in _matrices(IDENTITY, 4):
        np.testing.assert_array_equal(matrix, np.eye(4))


@outer_jit
def _parts(kind, base, theta, away, pull, gradient, over):
    return log_base(base, theta, gradient), log_base_over(kind, base, theta, away, pull, over)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", [Own(), Foreign()])
def test_the_reference_and_what_is_over_it_make_the_base(base, kind):
    whole = dense(base)
    mean = np.linalg.solve(whole.precision, whole.linear)
    if isinstance(kind, Own):
        reference = reference_of(base, target=True)
    else:
        mean = mean + 0.3
        whole = whole._replace(precision=whole.precision + np.eye(len(mean)))
        reference = reference_at(mean, whole.precision)
    assert type(reference.kind) is type(kind)
    np.testing.assert_allclose(reference.mean, mean, atol=1e-10)
    differences = []
    for _ in range(5):
        theta = RNG.normal(size=len(mean))
        away = theta - mean
        pull = whole.precision @ away
        gradient, over = np.zeros(len(mean)), np.zeros(len(mean))
        value, rest = _parts(kind, base, theta, away, pull, gradient, over)
        differences.append(value - (rest - 0.5 * away @ pull))
        np.testing.assert_allclose(gradient, over - pull, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(differences, differences[0], rtol=1e-10, atol=1e-9)


def test_a_ridge_of_has_nothing_beyond():
    for name, base in _bases().items():
        gradient = np.zeros(len(dense(base).linear))
        value = log_beyond(base, gradient + 0.3, gradient)
        assert (value == 0.0 and not gradient.any()) == name.startswith("gaussian")
