"""Parabolas that must hold only within reach: below, touching, no more bent than asked; both sides."""

import numpy as np
import pytest

from flyrun.experiments.models import gaussian_prior, logistic, student_t
from flyrun.experiments.models.collapse import collapse
from flyrun.experiments.models.fits.newton_fit import find_newton_map
from flyrun.experiments.models.likelihood import enter, log_bound
from flyrun.experiments.models.local_bounds import ellipsoid, inside, mass_beyond
from flyrun.experiments.models.passes import log_likelihoods, look, values_and_slopes
from flyrun.experiments.samplers.chain.bounds.local import within
from flyrun.ground.numerics.compiled import outer_jit

PLACES = np.array([0.0, 1e-6, 0.003, 0.4, 1.0, 1.9, 2.5, 3.4, 3.6, 6.0, 15.0, 40.0])
REACHES = (1e-6, 1e-4, 0.01, 0.3, 1.0, 3.0, 9.0, 50.0, 2000.0)


def _cases():
    """Model, places (n, 1): margins of either sign, residuals of t noise from tails to the middle."""
    yield pytest.param(logistic, logistic.Logistic(), np.append(PLACES, -PLACES)[:, None], id="logistic")
    yield pytest.param(logistic, logistic.Logistic(), np.array([[900.0], [-900.0]]), id="logistic, far out")
    for nu, scale in ((4.0, 1.0), (1.0, 0.02), (30.0, 5.0)):
        at = np.append(PLACES, -PLACES)
        model = student_t.bind(np.ones((len(at), 1)), scale * at, scale, nu)[0]
        yield pytest.param(student_t, model, np.zeros((len(at), 1)), id=f"student_t, {nu:g}")


CASES = list(_cases())


def _fall(model, at, step):
    """f + f'd − f(η + d): what a parabola has to take away by then."""
    here, slopes = values_and_slopes(model, at)
    there, _ = values_and_slopes(model, at + step[:, None])
    return here + slopes[:, 0] * step - there


@pytest.mark.parametrize(("module", "model", "at"), CASES)
@pytest.mark.parametrize("reach", REACHES)
def test_they_are_bounds_within_reach_and_bend_no_more_than_that_asks(module, model, at, reach):
    bent = module.local_curvature(model, at, np.full(len(at), reach))
    asked = np.full(len(at), -np.inf)
    near = np.geomspace(1e-7, 1.0, 200)
    for share in np.concatenate([np.linspace(-1.0, 1.0, 401), near, -near]):
        step = np.full(len(at), share * reach)
        rounding = (
            4e-15
            * getattr(model, "nu", 1.0)
            * (1.0 + np.abs(at[:, 0]) + np.abs(step) / getattr(model, "scale", 1.0))
        )
        fall = _fall(model, at, step)
        assert (0.5 * bent * step**2 >= fall - rounding).all()
        told = step**2 > 1e4 * rounding  # else this quotient is rounding
        asked[told] = np.maximum(asked, 2.0 * fall / np.where(step == 0.0, 1.0, step) ** 2)[told]
    told = np.isfinite(asked)
    bend = module.curvature(model, at)[:, 0, 0]
    largest = np.maximum(asked, bend)
    scale = np.abs(bend).max() + np.abs(largest)
    assert (bent[told] <= largest[told] + 0.02 * scale[told]).all()  # between the steps looked at


@pytest.mark.parametrize(("module", "model", "at"), CASES)
def test_from_the_curvature_itself_to_that_of_bounds_that_hold_everywhere(module, model, at):
    bend = module.curvature(model, at)[:, 0, 0]
    last = np.full(len(at), -np.inf)
    for reach in REACHES:
        bent = module.local_curvature(model, at, np.full(len(at), reach))
        assert (bent >= last - 1e-9 * np.abs(bent)).all()
        last = bent
    np.testing.assert_allclose(
        module.local_curvature(model, at, np.full(len(at), 1e-9)),
        bend,
        rtol=1e-5,
        atol=1e-6 * np.abs(bend).max(),
    )
    curve = module.map_bound(model, at)[0]
    everywhere = -2.0 * curve[:, 0] if module is logistic else 2.0 * curve[:, 1] / model.scale**2
    np.testing.assert_allclose(last, everywhere, rtol=1e-12)


@pytest.mark.parametrize(("module", "model", "at"), CASES)
def test_negative_control_half_the_reach_is_no_bound(module, model, at):
    bent = module.local_curvature(model, at, np.full(len(at), 0.4))
    below = [0.5 * bent * step**2 >= _fall(model, at, np.full(len(at), step)) for step in (-0.8, 0.8)]
    assert not np.all(below) or np.abs(at).min() > 100.0


@outer_jit
def _bounds_at(bound, model, theta, index, eta, values, slopes):
    enter(bound, theta)
    log_bound(bound, model, index, eta, values, slopes)


@outer_jit
def _inside(region, theta):
    return inside(region, theta)


def _problem():
    rng = np.random.default_rng(4)
    x, t = rng.normal(size=(50, 3)), np.where(rng.random(50) < 0.6, 1.0, -1.0)
    return *logistic.bind(x, t), rng


@pytest.mark.thorough
def test_each_side_has_its_bounds():
    model, features, rng = _problem()
    centre, root = 0.3 * rng.normal(size=3), rng.normal(size=(3, 3))
    region = ellipsoid(centre, root @ root.T + 30.0 * np.eye(3), 1.5)
    bound, expected = within(logistic, model, features, region)
    assert (expected > 0).all()
    index, sides = np.arange(50), []
    for _ in range(400):
        theta = centre + 0.15 * rng.normal(size=3)
        away = theta - centre
        is_inside = away @ region.curvature @ away <= 1.5**2
        assert _inside(region, theta) == is_inside
        assert _inside(region, theta) == is_inside  # recalled
        eta, values, slopes = (features.rows @ theta)[:, None], np.zeros(50), np.zeros((50, 1))
        _bounds_at(bound, model, theta, index, eta, values, slopes)
        likelihoods, _ = values_and_slopes(model, eta)
        assert (values <= likelihoods + 1e-15).all()
        if not is_inside:
            other = np.zeros(50)
            _bounds_at(bound.beyond, model, theta, index, eta, other, None)
            np.testing.assert_array_equal(values, other)
        sides.append(is_inside)
    assert 50 < sum(sides) < 350


def test_negative_control_local_bounds_beyond_are_none():
    model, features, rng = _problem()
    centre = 0.3 * rng.normal(size=3)
    bound, _ = within(logistic, model, features, ellipsoid(centre, 30.0 * np.eye(3), 0.2))
    everywhere = bound._replace(region=bound.region._replace(square=np.inf))
    theta = centre + 2.0 * rng.normal(size=3)
    eta, values = (features.rows @ theta)[:, None], np.zeros(50)
    _bounds_at(everywhere, model, theta, np.arange(50), eta, values, None)
    assert (values > values_and_slopes(model, eta)[0] + 1e-3).any()


def _mass_beyond(n_data, separation, radius):
    """What is proved, what is claimed from the curvature at the mode alone, and what is by quadrature."""
    rng, ridge = np.random.default_rng(4), np.eye(2)
    x = rng.normal(size=(n_data, 2))
    labels = np.where(rng.random(n_data) < 1 / (1 + np.exp(-x @ [separation, 0.5])), 1.0, -1.0)
    model, features = logistic.bind(x, labels)
    prior = gaussian_prior.penalty(gaussian_prior.prior(1.0))
    mode = find_newton_map(logistic, model, features, prior, 0.0, np.zeros(2)).theta
    curvature = look(logistic, model, features, mode).curvature + ridge
    bound, _ = within(logistic, model, features, ellipsoid(mode, curvature, radius))
    precision = collapse(bound, model, features, bound.region.centre).precision + ridge
    root = np.linalg.inv(np.linalg.cholesky(curvature)).T
    reach = 14 if n_data < 100 else 9  # sds: of many data 1e-18 of the posterior lies beyond
    axis = np.linspace(-reach, reach, 40 * reach + 1)
    places = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    thetas = mode + places @ root.T
    log_p = log_likelihoods(logistic, model, features, thetas) - 0.5 * (thetas**2).sum(axis=1)
    p = np.exp(log_p - log_p.max())
    beyond = p[(places**2).sum(axis=1) > radius**2].sum() / p.sum()
    alone = bound._replace(least=curvature)
    return mass_beyond(bound, precision), mass_beyond(alone, precision), beyond


@pytest.mark.thorough
@pytest.mark.parametrize(("n_data", "loose"), [(300, 200.0), (10_000, 10.0)])
def test_no_more_of_the_posterior_lies_beyond_the_border_than_is_proved(n_data, loose):
    proved, _, beyond = _mass_beyond(n_data, 1.0, 4.0)
    assert beyond < proved < loose * beyond


def test_negative_control_the_curvature_at_the_mode_proves_nothing():
    proved, claimed, beyond = _mass_beyond(8, 4.0, 4.0)
    assert claimed < beyond
    assert not proved < beyond


@pytest.mark.parametrize(("least", "radius"), [(1.0, 9.4), (0.95, 9.7), (0.8, 10.9)])
def test_how_far_a_billionth_is_proved(least, radius):
    model, features = logistic.bind(np.zeros((1, 21)), np.ones(1))
    bound, _ = within(logistic, model, features, ellipsoid(np.zeros(21), np.eye(21), radius))
    bound = bound._replace(least=least * np.eye(21))
    assert mass_beyond(bound, np.eye(21)) < 1e-9
    nearer = bound._replace(region=bound.region._replace(square=(radius - 0.1) ** 2))
    assert mass_beyond(nearer, np.eye(21)) > 1e-9
