"""Numbers taken for normal: likelihood, derivatives, sums without a pass, Taylor polynomials; the data."""

import numpy as np
import pytest
from scipy.stats import norm

from flyrun.experiments.config.dataset.row_data import GaussianToy
from flyrun.experiments.data import toys
from flyrun.experiments.models import normal, passes
from flyrun.experiments.models.taylor import subtract_expansion
from tests.models.calls import log_likelihood, reach

NUMBERS = 2.0 * np.random.default_rng(0).standard_normal(60)
MODEL, FEATURES = normal.bind(np.ones((60, 1)), NUMBERS)


def _at(eta):
    values, slopes = np.zeros(60), np.zeros((60, 2))
    log_likelihood(MODEL, np.arange(60), eta, values, slopes)
    return values, slopes


@pytest.mark.thorough
def test_likelihood_slopes_and_curvature():
    eta = 0.5 * np.random.default_rng(1).standard_normal((60, 2))
    values, slopes = _at(eta)
    np.testing.assert_allclose(values, norm.logpdf(NUMBERS, eta[:, 0], np.exp(eta[:, 1])), rtol=1e-12)
    for k in range(2):
        step = 1e-5 * (np.arange(2) == k)
        (low, low_slope), (high, high_slope) = _at(eta - step), _at(eta + step)
        np.testing.assert_allclose(slopes[:, k], (high - low) / 2e-5, atol=1e-6)
        bend = (high_slope - low_slope) / 2e-5
        np.testing.assert_allclose(-normal.curvature(MODEL, eta)[:, :, k], bend, atol=1e-6)


def test_sums_need_no_pass():
    thetas = np.random.default_rng(2).standard_normal((5, 2))
    each = [_at(np.tile(theta, (60, 1)))[0].sum() for theta in thetas]
    np.testing.assert_allclose(passes.log_likelihoods(normal, MODEL, FEATURES, thetas), each, rtol=1e-12)


@pytest.mark.parametrize("order", [0, 1, 2])
def test_what_polynomials_leave_out_is_of_the_next_order(order):
    centre, index = np.tile([0.3, 0.5], (60, 1)), np.arange(60)
    at_centre, left = _at(centre)[0], []
    for scale in (1e-2, 1e-3):
        eta = centre + scale * np.array([1.0, -0.7])
        values = _at(eta)[0]
        subtract_expansion(MODEL, index, centre, eta, order, values)
        left.append(np.abs(values - at_centre).max())
    assert left[0] / left[1] == pytest.approx(10.0 ** (order + 1), rel=0.1)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("order", [0, 1, 2])
def test_what_polynomials_leave_out_stays_within_its_bounds_and_nearly_reaches_them(order):
    centre, index, rng, used = np.array([0.3, 0.5]), np.arange(60), np.random.default_rng(3), 0.0
    bounds, weights = normal.data_bounds(MODEL, centre, order)
    for _ in range(200):
        here, there = centre + 0.3 * rng.standard_normal((2, 2))
        changes = np.zeros(60)
        for theta, sign in ((here, -1.0), (there, 1.0)):
            eta = np.tile(theta, (60, 1))
            values = _at(eta)[0]
            subtract_expansion(MODEL, index, np.tile(centre, (60, 1)), eta, order, values)
            changes += sign * values
        room = weights * reach(bounds, here, there, here, there)
        assert np.all(np.abs(changes) <= room * (1 + 1e-9) + 1e-12)
        assert reach(bounds, here, there, here, there) == reach(bounds, there, here, there, here)
        used = max(used, np.max(np.abs(changes) / room))
    assert used > 0.5


def test_numbers_of_both_laws_are_of_one_draw():
    plain, other = (toys.load(GaussianToy(n_data=50, law=law)) for law in ("gaussian", "lognormal"))
    np.testing.assert_allclose(np.log(other.target), plain.target, rtol=1e-12)
    assert plain.sha256 != other.sha256
