"""Modes by Newton's method: those that the other optimisers find, from anywhere, whatever the threads."""

import numpy as np
import pytest

from flyrun.experiments.config.compose import compose_job
from flyrun.experiments.models import gaussian_prior, laplace_prior, logistic, passes, student_t
from flyrun.experiments.models import problem as setup
from flyrun.experiments.models.base_density import Penalty
from flyrun.experiments.models.collapse import collapse
from flyrun.experiments.models.fits import newton_fit
from flyrun.experiments.models.fits.lasso_fit import find_lasso_map
from flyrun.experiments.models.fits.map_fit import find_map
from flyrun.experiments.models.fits.newton_fit import find_newton_map
from flyrun.experiments.samplers.chain.targets.full_data import full_data
from tests.densities import log_density

CLOSE_SDS = 1e-3
"""Posterior sds that two optimisers' modes may differ by: what L-BFGS leaves."""


def _regression(n_data=3000, seed=2, dtype=np.float64):
    rng = np.random.default_rng(seed)
    x = (rng.normal(size=(n_data, 7)) @ rng.normal(size=(7, 7))).astype(dtype)
    return x, x @ [1.0, -0.5, 0.0, 0.0, 0.0, 0.2, 0.0] + 0.5 * rng.standard_t(4, n_data)


def _case(name, n_data=3000, dtype=np.float64):
    x, y = _regression(n_data, dtype=dtype)
    if name == "logistic":
        return logistic, *logistic.bind(x, np.where(y > 0, 1.0, -1.0))
    return student_t, *student_t.bind(x, y, 0.5)


def _sds(module, model, features, theta, other):
    """Root mean square distance in posterior sds, as the data give them."""
    move = theta - other
    curvature = passes.look(module, model, features, theta).curvature
    return np.sqrt(move @ curvature @ move / len(move))


def _fit(case, prior_module, scale, first=None, find=find_newton_map):
    module, model, features = case
    prior = prior_module.prior(scale)
    normaliser = setup._log_prior(prior, np.zeros(features.rows.shape[1]))
    first = np.zeros(0) if first is None else first
    return find(module, model, features, prior_module.penalty(prior), normaliser, first)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["logistic", "student_t"])
def test_mode_under_a_ridge_of_is_that_of_l_bfgs(name):
    case = _case(name)
    _, model, features = case
    target = full_data(gaussian_prior.prior(0.7), model, features, 7)
    found, other = _fit(case, gaussian_prior, 0.7), _fit(case, gaussian_prior, 0.7, np.zeros(7), find_map)
    assert _sds(*case, found.theta, other.theta) < CLOSE_SDS
    value, gradient = log_density(target, found.theta)
    assert found.log_posterior == pytest.approx(value, rel=1e-11)
    assert found.log_posterior >= other.log_posterior - 1e-9 * abs(value)
    assert np.abs(gradient).max() < 1e-6
    assert found.queries < 0.6 * other.queries
    assert found.queries % len(features.rows) == 0


@pytest.mark.parametrize("scale", [0.003, 1.0])
@pytest.mark.parametrize("name", ["logistic", "student_t"])
def test_mode_under_a_laplace_prior_is_that_of_the_bounds(name, scale):
    case = _case(name)
    module, model, features = case

    def touching(theta):
        return collapse(passes.touching_bound(module, model, features, theta), model, features)

    found, other = _fit(case, laplace_prior, scale), find_lasso_map(touching, 3000, scale, np.zeros(7))
    assert _sds(*case, found.theta, other.theta) < 1e-6
    assert found.log_posterior == pytest.approx(other.log_posterior, rel=1e-11)
    assert np.array_equal(found.theta == 0.0, other.theta == 0.0)
    assert found.queries < other.queries


@pytest.mark.parametrize("name", ["logistic", "student_t"])
def test_a_start_far_off_does_not_matter(name):
    case = _case(name)
    found = _fit(case, gaussian_prior, 1.0)
    far = _fit(case, gaussian_prior, 1.0, np.linspace(-300.0, 200.0, 7))
    assert _sds(*case, found.theta, far.theta) < 1e-6


@pytest.mark.parametrize("name", ["logistic", "student_t"])
def test_a_subsample_first_gives_the_same_mode_for_fewer_queries(name, monkeypatch):
    case = _case(name, 20_000, np.float32)
    assert case[2].rows.dtype == np.float32
    whole = _fit(case, laplace_prior, 0.1)
    monkeypatch.setattr(newton_fit, "SUBSAMPLE", 1000)
    found = _fit(case, laplace_prior, 0.1)
    assert _sds(*case, found.theta, whole.theta) < 1e-6
    assert found.queries < whole.queries
    assert found.queries % 1000 == 0


def test_the_number_of_threads_leaves_every_bit_as_it_is(monkeypatch):
    case = _case("student_t", 12_000, np.float32)
    module, model, features = case
    theta, results = np.linspace(-1.0, 1.0, 7), []
    for cores in (1, 2, 5):
        monkeypatch.setattr(passes, "cores", lambda cores=cores: cores)
        bound = passes.touching_bound(module, model, features, theta)
        collapsed = collapse(bound, model, features)
        found = _fit(case, laplace_prior, 0.1)
        results.append([*passes.look(*case, theta), bound.curve, *collapsed, found.theta])
    for other in results[1:]:
        for ours, theirs in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.thorough
def test_a_look_is_the_density_and_its_derivatives():
    for name in ("logistic", "student_t"):
        module, model, features = _case(name, 9000)
        theta = np.linspace(-0.5, 1.0, 7)
        target = full_data(gaussian_prior.prior(1e6), model, features, 7)
        value, gradient = log_density(target, theta)
        seen = passes.look(module, model, features, theta)
        offset = setup._log_prior(target.base, theta)
        assert seen.value == pytest.approx(value - offset, rel=1e-11)
        np.testing.assert_allclose(seen.gradient, gradient, rtol=1e-8, atol=1e-6)
        step = 1e-5
        for d in range(7):
            aside = step * np.eye(7)[d]
            slopes = log_density(target, theta + aside)[1] - log_density(target, theta - aside)[1]
            np.testing.assert_allclose(seen.curvature[d], -slopes / (2 * step), rtol=1e-5, atol=1e-2)


def test_a_direction_without_data_is_no_trouble():
    x, y = _regression(500)
    x[:, 3] = 0.0
    case = student_t, *student_t.bind(x, y, 0.5)
    assert _fit(case, laplace_prior, 1.0).theta[3] == 0.0
    assert _fit(case, gaussian_prior, 1.0).theta[3] == 0.0
    penalty = Penalty(ridge=0.0, rate=0.0)
    assert np.isfinite(find_newton_map(*case, penalty, 0.0, np.zeros(0)).theta).all()


@pytest.mark.slow
@pytest.mark.parametrize("experiment", ["mnist_logreg", "opv_robust"])
def test_modes_of_the_published_problems_are_those_of_the_other_optimisers(experiment, tmp_path):
    (arm,) = compose_job([f"experiment={experiment}", "only=map_tuned"]).arms
    problem = setup.bind(arm, tmp_path, needs_map=True)
    module, model, features = setup.model_module(arm.model.name), problem.model, problem.features
    size = features.rows.shape[1]
    if experiment == "mnist_logreg":
        other = _fit((module, model, features), gaussian_prior, problem.fit.scale, np.zeros(size), find_map)
    else:

        def touching(theta):
            return collapse(passes.touching_bound(module, model, features, theta), model, features)

        other = find_lasso_map(touching, len(features.rows), problem.fit.scale, np.zeros(size))
    assert _sds(module, model, features, problem.fit.theta_map, other.theta) < CLOSE_SDS
    assert problem.fit.log_posterior == pytest.approx(other.log_posterior, rel=1e-10)
