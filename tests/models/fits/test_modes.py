"""Modes beside the first: found from any of them, weighed, paid for; a posterior of one keeps its bits."""

import numpy as np
import pytest

from flyrun.experiments.models import gaussian_prior, laplace_prior, passes, student_t
from flyrun.experiments.models import problem as setup
from flyrun.experiments.models.fits import modes
from flyrun.experiments.models.fits.map_fit import MapFit
from flyrun.experiments.models.fits.modes import find_modes
from flyrun.experiments.models.fits.newton_fit import Climb, find_newton_map

PLANE = np.array([1.0, 0.5, 10.0])


def _planes(n_upper, n_lower):
    """Rows of a plane, and of the same one upside down."""
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.normal(size=(n_upper, 2)), np.ones(n_upper)])
    y = x @ PLANE + rng.normal(size=n_upper)
    return student_t.bind(np.r_[x, x[:n_lower]], np.r_[y, -y[:n_lower]], 1.0)


def _found(model, features, prior_module=gaussian_prior, first=None):
    prior = prior_module.prior(10.0)
    penalty, normaliser = prior_module.penalty(prior), setup._log_prior(prior, np.zeros(3))
    if first is None:
        found = find_newton_map(student_t, model, features, penalty, normaliser, np.zeros(0))
    else:
        climb = Climb(student_t, model, features, penalty)
        theta, value = climb.to_mode(np.array(first), 0)
        found = MapFit(theta, value + normaliser, 0)
    return found, find_modes(student_t, model, features, penalty, normaliser, found)


@pytest.mark.thorough
@pytest.mark.parametrize("prior_module", [gaussian_prior, laplace_prior])
@pytest.mark.parametrize("side", [1, -1])
def test_two_planes_are_two_modes_from_whichever_is_first(side, prior_module):
    first, found = _found(*_planes(40, 40), prior_module, side * PLANE)
    assert first.theta[2] * side > 9.0
    np.testing.assert_allclose(found.theta[0], -found.theta[1], atol=1e-6)
    np.testing.assert_allclose(np.abs(found.theta[0]), PLANE, atol=0.6)
    np.testing.assert_allclose(found.shares, 0.5, atol=1e-3)
    assert found.queries % 80 == 0


def test_shares_are_those_of_the_density():
    """Heights and widths against a sum over a grid, of one coefficient."""
    rng = np.random.default_rng(6)
    y = np.r_[rng.normal(-10, 0.5, 40), rng.normal(10, 0.9, 41)]
    model, features = student_t.bind(np.ones((81, 1)), y, 1.0)
    prior = gaussian_prior.prior(10.0)
    penalty = gaussian_prior.penalty(prior)
    first = find_newton_map(student_t, model, features, penalty, 0.0, np.zeros(0))
    found = find_modes(student_t, model, features, penalty, 0.0, first)
    grid = np.arange(-15.0, 15.0, 0.01)
    square = (y[:, None] - grid) ** 2
    density = -2.5 * np.log1p(square / 4.0).sum(0) - 0.5 * penalty.ridge * grid**2
    weight = np.exp(density - density.max())
    below = weight[grid < 0].sum() / weight.sum()
    assert 0.01 < below < 0.99
    np.testing.assert_allclose(found.shares[found.theta[:, 0] < 0], [below], atol=0.03)
    assert found.log_posterior >= first.log_posterior


@pytest.mark.parametrize("n_data", [500, 9000])
def test_one_mode_keeps_the_bits_of_the_first(n_data):
    first, found = _found(*_planes(n_data * 4 // 5, n_data // 5))
    assert np.array_equal(found.theta, first.theta[None])
    assert found.log_posterior == first.log_posterior
    assert found.shares.tolist() == [1.0]
    # on tall tables all that is done with a part of the rows
    assert found.queries < 60 * modes.EXPLORED * (1 + modes.SUBSETS)
    if n_data > modes.EXPLORED:
        assert found.queries % modes.EXPLORED == 0


@pytest.mark.thorough
def test_on_tall_tables_a_mode_that_may_matter_is_climbed_on_all_rows():
    model, features = _planes(5000, 5000)
    _, found = _found(model, features)
    np.testing.assert_allclose(found.theta[0], -found.theta[1], atol=1e-6)
    np.testing.assert_allclose(found.shares, 0.5, atol=1e-3)
    for theta in found.theta:
        slope = passes.look(student_t, model, features, theta).gradient - 0.01 * theta
        assert np.abs(slope).max() < 1e-3


@pytest.mark.parametrize("controls", [900, 20_000])
def test_a_column_of_few_rows_that_disagree_has_a_mode_for_each_side(controls):
    """Some thousand rows drawn at random hold none of four; the control: four that agree."""
    rng = np.random.default_rng(0)
    x = np.column_stack([np.repeat([0.0, 1.0], [controls, 4]), np.ones(controls + 4)])
    noise = rng.standard_t(4, controls)
    found = []
    for few in ([8.0, 8.0, -8.1, -8.1], [8.0, 8.0, 8.2, 7.9]):
        model, features = student_t.bind(x, np.append(noise, few), 1.0)
        prior = gaussian_prior.prior(10.0)
        penalty, normaliser = gaussian_prior.penalty(prior), setup._log_prior(prior, np.zeros(2))
        first = find_newton_map(student_t, model, features, penalty, normaliser, np.zeros(0))
        found.append(find_modes(student_t, model, features, penalty, normaliser, first))
    two, one = found
    np.testing.assert_allclose(np.sort(two.theta[:, 0]), [-8.0, 8.0], atol=0.7)
    np.testing.assert_allclose(two.shares, 0.5, atol=0.15)
    assert len(one.theta) == 1
