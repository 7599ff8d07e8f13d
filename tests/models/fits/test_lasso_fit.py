"""The mode under a Laplace prior: the lasso step against its optimality conditions, and the whole fit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from flyrun.experiments.models import laplace_prior, logistic, softmax, student_t
from flyrun.experiments.models.base_density import dense
from flyrun.experiments.models.collapse import collapse
from flyrun.experiments.models.fits.lasso_fit import find_lasso_map, lasso
from flyrun.experiments.samplers.chain.targets.full_data import full_data
from tests.densities import log_density


def _check_optimal(pull, theta, rate, tolerance):
    """Where θ_d is not 0 the smooth slope balances rate·sign; where it is, it is no steeper than rate."""
    moving = theta != 0.0
    np.testing.assert_allclose(pull[moving], rate * np.sign(theta[moving]), atol=tolerance)
    assert np.all(np.abs(pull[~moving]) <= rate + tolerance)


@pytest.mark.thorough
@settings(max_examples=100)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 3, 12]), st.floats(-2.0, 3.0))
def test_lasso_meets_its_optimality_conditions(seed, size, log_rate):
    rng = np.random.default_rng(seed)
    rate = 10.0**log_rate
    root = rng.normal(size=(size + 2, size)) * 10.0 ** rng.uniform(-1.5, 1.5, size)
    precision, linear = root.T @ root + 1e-6 * np.eye(size), rng.normal(size=size) * 30.0
    first = rng.normal(size=size) * (rng.random(size) < 0.5)
    theta = lasso(precision, linear, rate, first)
    scale = rate + np.abs(linear).max() + np.abs(precision).max() * np.abs(theta).max()
    _check_optimal(linear - precision @ theta, theta, rate, 1e-9 * scale)


def test_a_large_rate_puts_everything_at_zero():
    assert np.all(lasso(np.eye(3), np.array([1.0, -2.0, 0.5]), 2.5, np.ones(3)) == 0.0)


def _regression(seed, n_data=300):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_data, 6)) @ rng.normal(size=(6, 6))  # correlated
    return x, x @ [1.0, -0.5, 0.0, 0.0, 0.0, 0.2] + 0.5 * rng.standard_t(4, n_data), rng


CASES = {
    "student_t": lambda x, y: (student_t, *student_t.bind(x, y, 0.5)),
    "logistic": lambda x, y: (logistic, *logistic.bind(x, np.where(y > 0, 1.0, -1.0))),
    "softmax": lambda x, y: (softmax, *softmax.bind(x[:, :3], np.digitize(y, [-0.5, 0.8]))),
}


@pytest.mark.thorough
@pytest.mark.parametrize("scale", [0.02, 1.0])
@pytest.mark.parametrize("name", CASES)
def test_the_mode_meets_its_optimality_conditions(name, scale):
    x, y, rng = _regression(5)
    module, model, features = CASES[name](x, y)
    size = features.rows.shape[1] * model.n_predictors

    def touching(theta):
        predictors = features.rows @ theta.reshape(model.n_predictors, -1).T
        return dense(collapse(module.map_bound(model, predictors), model, features))

    fit = find_lasso_map(touching, len(y), scale, np.zeros(size))
    assert fit.queries % len(y) == 0
    full = full_data(laplace_prior.prior(scale), model, features, size)
    value, gradient = log_density(full, fit.theta)
    assert fit.log_posterior == pytest.approx(value, rel=1e-9)
    slack = 1e-3 * np.sqrt(len(y))  # the slope that a posterior sd's thousandth would leave
    _check_optimal(gradient + np.sign(fit.theta) / scale, fit.theta, 1.0 / scale, slack)
    for _ in range(20):  # and no point beside it is higher
        beside = fit.theta + rng.normal(size=size) * 10.0 ** rng.uniform(-4, -1)
        assert log_density(full, beside)[0] < value + 1e-9
    smooth = minimize(lambda t: -log_density(full, t)[0], fit.theta, method="Powell").fun
    assert -smooth <= value + 1e-6
