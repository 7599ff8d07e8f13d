"""Numbers in clutter: likelihood, derivatives, the bounds that EM climbs, and the data."""

import numpy as np
import pytest
from scipy.stats import norm

from flyrun.experiments.config.dataset.row_data import Clutter
from flyrun.experiments.data import toys as data
from flyrun.experiments.gold.reference import arm_of
from flyrun.experiments.models import clutter
from flyrun.experiments.models.collapse import collapse
from flyrun.experiments.models.problem import bind
from tests.models.calls import log_bound, log_likelihood

RNG = np.random.default_rng(0)
Y = 4.0 * RNG.standard_normal(60)
MODEL, FEATURES = clutter.bind(np.ones((60, 1)), Y, 0.3, 7.0)
EVERY = np.arange(60)


def _at(eta):
    values, slopes = np.zeros(60), np.zeros((60, 1))
    log_likelihood(MODEL, EVERY, np.ascontiguousarray(eta), values, slopes)
    return values, slopes


def _bound_at(bound, eta):
    values, slopes = np.zeros(60), np.zeros((60, 1))
    log_bound(bound, MODEL, EVERY, np.ascontiguousarray(eta), values, slopes)
    return values, slopes


@pytest.mark.thorough
def test_likelihood_slopes_and_curvature():
    eta = 2.0 * RNG.standard_normal((60, 1))
    values, slopes = _at(eta)
    density = 0.7 * norm.pdf(Y, eta[:, 0]) + 0.3 * norm.pdf(Y, 0, 7**0.5)
    np.testing.assert_allclose(values, np.log(density), rtol=1e-12)
    (low, low_slope), (high, high_slope) = _at(eta - 1e-5), _at(eta + 1e-5)
    np.testing.assert_allclose(slopes[:, 0], (high - low) / 2e-5, atol=1e-8)
    bend = clutter.curvature(MODEL, eta)
    np.testing.assert_allclose(-bend[:, :, 0], (high_slope - low_slope) / 2e-5, atol=1e-8)
    assert bend.min() < -0.1  # where a number may be either


def test_far_away_it_is_finite_and_nan_stays_nan():
    values, slopes = _at(np.geomspace(1, 1e200, 60)[:, None])
    assert np.isfinite(values).all()
    assert np.isfinite(slopes).all()
    assert np.isnan(_at(np.full((60, 1), np.nan))[0]).all()


def test_bounds_are_below_and_touch():
    at, eta = 3.0 * RNG.standard_normal((2, 60, 1))
    bound = clutter.map_bound(MODEL, at)
    assert (_bound_at(bound, eta)[0] <= _at(eta)[0] + 1e-12).all()
    for have, wanted in zip(_bound_at(bound, at), _at(at), strict=True):
        np.testing.assert_allclose(have, wanted, atol=1e-12)
    np.testing.assert_allclose(
        clutter.untuned_bound(MODEL, FEATURES, 1.5).curve,
        clutter.map_bound(MODEL, Y[:, None] - 1.5).curve,
        rtol=1e-12,
    )
    # negative control: as high, with another share, it is none
    other = bound._replace(curve=bound.curve * [1.0, 0.8])
    assert (_bound_at(other, eta)[0] > _at(eta)[0] + 1e-3).any()
    clutter.lower(bound, np.full(60, 0.25))
    np.testing.assert_allclose(_bound_at(bound, at)[0], _at(at)[0] - 0.25, atol=1e-12)


def test_collapsed_bounds_are_the_sum_of_the_bounds():
    rows, theta = RNG.standard_normal((60, 3)), RNG.standard_normal(3)
    model, features = clutter.bind(rows, Y, 0.3, 7.0)
    bound = clutter.map_bound(model, rows[:, :1])
    found = collapse(bound, model, features)
    value = found.constant[0] + found.linear @ theta - 0.5 * theta @ found.precision @ theta
    assert value == pytest.approx(_bound_at(bound, rows @ theta[:, None])[0].sum(), rel=1e-12)


def test_labels_make_the_best_bound():
    """E_q log p(y, z | η) + H(z) is highest where q(z) is as given; what it leaves of η is T and ν."""
    mean, variance = RNG.standard_normal((60, 1)), RNG.uniform(0.1, 2.0, (60, 1, 1))
    precision, linear, value = clutter.augmented(MODEL, mean, variance)
    own = np.log(0.7) + norm.logpdf(Y, mean[:, 0]) - 0.5 * variance[:, 0, 0]
    other = np.log(0.3) + norm.logpdf(Y, 0, 7**0.5)

    def bound(share):
        return share * (own - np.log(share)) + (1 - share) * (other - np.log1p(-share))

    share = np.clip(clutter.responsibility(MODEL, mean, variance), 1e-12, 1 - 1e-12)
    np.testing.assert_allclose(value, bound(share), atol=1e-9)
    assert (value >= bound(0.99 * share)).all()
    assert (value >= bound(0.99 * share + 0.01)).all()
    np.testing.assert_allclose(precision[:, 0, 0], share, atol=1e-12)
    np.testing.assert_allclose(linear[:, 0], share * Y, atol=1e-11)


def test_data_are_sets_that_share_nothing():
    config = Clutter(n_data=4_000, n_sets=3)
    found = data.load(config)
    assert found.features.shape == (12_000, 3)
    assert found.feature_names == ("theta_0", "theta_1", "theta_2")
    np.testing.assert_array_equal(found.features.sum(axis=0), 4_000)
    np.testing.assert_array_equal(found.features.sum(axis=1), 1)
    # mean 1, variance ½(1 + 4 + 10) − 1: four standard errors
    assert found.target.mean() == pytest.approx(1.0, abs=4 * np.sqrt(6.5 / 12_000))
    assert found.target.var() == pytest.approx(6.5, rel=0.06)
    assert data.load(Clutter(seed=1)).sha256 != data.load(Clutter()).sha256


def test_its_mode_is_found(tmp_path):
    """EM's steps and Newton's end where the slope is 0."""
    words = ["dataset=clutter", "model=clutter", "prior=gaussian", "prior.scale=10"]
    problem = bind(arm_of(words), tmp_path, needs_map=True)
    at = problem.fit.theta_map
    model, features = problem.model, problem.features
    slope = np.zeros((100, 1))
    log_likelihood(model, np.arange(100), features.rows @ at[:, None], np.zeros(100), slope)
    assert slope.sum() - at[0] / 100 == pytest.approx(0.0, abs=1e-6)
    assert at[0] == pytest.approx(2.0, abs=0.6)
