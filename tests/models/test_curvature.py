"""Curvatures of the likelihoods and expected L̃ at bounds tight at the MAP."""

import numpy as np
import pytest

from flyrun.experiments.models import clutter, logistic, probit, softmax, student_t
from tests.models.calls import log_bound, log_likelihood

N = 8
ROWS = np.random.default_rng(2).normal(size=(N, 2))
MODELS = {
    "logistic": (logistic, logistic.bind(ROWS, np.sign(ROWS[:, 0]))[0]),
    "probit": (probit, probit.bind(ROWS, np.sign(ROWS[:, 0]))[0]),
    "softmax": (softmax, softmax.bind(ROWS, np.arange(N) % 3)[0]),
    "clutter": (clutter, clutter.bind(ROWS, np.linspace(-3.0, 3.0, N))[0]),
    "student_t": (student_t, student_t.bind(ROWS, np.linspace(-3.0, 3.0, N), 0.7, 4.0)[0]),
}


@pytest.mark.thorough(but="logistic")
@pytest.mark.parametrize("name", MODELS)
def test_curvature_is_the_slopes_change(name):
    module, model = MODELS[name]
    k = model.n_predictors
    eta, step = np.random.default_rng(3).normal(size=(N, k)), 1e-6
    numeric = np.zeros((N, k, k))
    for m in range(k):
        there, back = np.zeros((N, k)), np.zeros((N, k))
        shift = step * np.eye(k)[m]
        log_likelihood(model, np.arange(N), eta + shift, np.zeros(N), there)
        log_likelihood(model, np.arange(N), eta - shift, np.zeros(N), back)
        numeric[:, :, m] = (back - there) / (2 * step)
    np.testing.assert_allclose(module.curvature(model, eta), numeric, rtol=1e-6, atol=1e-8)


@pytest.mark.thorough
@pytest.mark.parametrize("name", MODELS)
def test_expected_pseudo_likelihood_is_the_mean_over_small_variations(name):
    module, model = MODELS[name]
    k, n_draws = model.n_predictors, 20_000
    rng = np.random.default_rng(4)
    eta = rng.normal(size=(N, k))
    eta[0] = 0.0
    root = 0.1 * rng.normal(size=(N, k, k))
    variance = root @ root.swapaxes(1, 2)
    bound, total = module.map_bound(model, eta), np.zeros(N)
    log_l, log_b = np.zeros(N), np.zeros(N)
    for _ in range(n_draws // 2):
        away = np.einsum("nkm,nm->nk", root, rng.normal(size=(N, k)))
        for there in (eta + away, eta - away):
            log_likelihood(model, np.arange(N), there, log_l, None)
            log_bound(bound, model, np.arange(N), there, log_b, None)
            total += np.expm1(log_l - log_b)
    expected = module.expected_pseudo_likelihood(model, eta, variance)
    # second-order theory at small variance, and 20,000 draws: within a tenth
    np.testing.assert_allclose(total / n_draws, expected, rtol=0.1, atol=1e-12)
