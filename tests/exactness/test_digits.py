"""Numbers far from 0 beside a narrow posterior: constants that are differences of sums keep their digits, or
one line says that there are none."""

from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from flyrun.experiments.config.sampler.approximations import Ep, Weighted
from flyrun.experiments.models import gaussian_prior, laplace_prior, student_t
from flyrun.experiments.models.base_density import log_base
from flyrun.experiments.models.fits.newton_fit import find_newton_map
from flyrun.experiments.models.problem import Fit, Problem
from flyrun.experiments.samplers.chain.acceptance import delayed, thinned
from flyrun.experiments.samplers.chain.acceptance.austerity import austerity
from flyrun.experiments.samplers.chain.acceptance.rule import decide
from flyrun.experiments.samplers.chain.acceptance.sequential import target as reading_batches
from flyrun.experiments.samplers.chain.bounds import local
from flyrun.experiments.samplers.chain.setup import Setup
from flyrun.experiments.samplers.chain.targets.full_data import full_data
from flyrun.ground.errors import DataError, FlyrunError
from flyrun.ground.numerics.compiled import outer_jit
from tests.exactness.chains import begin
from tests.exactness.posteriors import library
from tests.exactness.stationarity import method_of

PRIORS = {"gaussian": gaussian_prior, "laplace": laplace_prior}


def _setup(offset, noise, n_data, prior="gaussian", scale=1e8):
    """y = offset + 2a − b + noise·t₄ at its mode."""
    rng, module = np.random.default_rng(1), PRIORS[prior]
    rows = np.c_[rng.normal(size=(n_data, 2)), np.ones(n_data)]
    y = rows @ [2.0, -1.0, offset] + noise * rng.standard_t(4, n_data)
    model, features = student_t.bind(rows, y, noise, 4.0)
    made = module.prior(scale)
    mode = find_newton_map(student_t, model, features, module.penalty(made), 0.0, np.zeros(0)).theta
    code = {"model": student_t, "prior": module}
    arm = SimpleNamespace(**{key: SimpleNamespace(code=value) for key, value in code.items()})
    arm.model.auxiliary = False
    arm.dataset = SimpleNamespace(name="table", standardize=False, shard=None)
    return Setup(arm, Problem(None, model, features, made, Fit(scale, noise, mode)))


@outer_jit
def _on_both_sides(base, theta):
    return log_base(base.beyond, theta, None) - log_base(base.within, theta, None)


def _exactly(bound, model, rows, theta):
    """Σ log B_n beyond less within at θ, from predictors without rounding.

    Of very many rows, whose numbers are small here, the rounding of theirs is some 10⁻⁷ of the sum.
    """
    number = Fraction if len(rows) <= 2000 else np.longdouble
    at = [number(value) for value in theta]
    eta = [sum(number(x) * t for x, t in zip(row, at, strict=True)) for row in rows.tolist()]
    r = np.array([float(number(y) - e) for y, e in zip(model.target, eta, strict=True)]) / model.scale
    away = np.array([float(e - number(tight)) for e, tight in zip(eta, bound.parabola[:, 0], strict=True)])
    tight, slope, bent = bound.parabola[:, 1:].T
    within = tight + (slope - 0.5 * bent * away) * away
    return float((bound.beyond.curve[:, 0] - bound.beyond.curve[:, 1] * r * r - within).sum())


WHERE = [
    (1e7, 1.0, 2000),
    (1e6, 1.0, 20_000),
    (1e9, 1.0, 500),
    (0.0, 1.0, 100_000),
    (1e3, 1e-4, 500),
    (0.0, 1e-6, 2000),
    (0.0, 1e-8, 500),
    (1e5, 1e-8, 500),
    (1e9, 1e-8, 500),
]


@pytest.mark.thorough(but="0.0-1e-06")
@pytest.mark.parametrize(("offset", "noise", "n_data"), WHERE)
def test_the_constant_between_two_levels_has_digits_or_is_refused(offset, noise, n_data):
    """Two levels whose difference decides where a chain goes: a thousandth off exact rationals at most."""
    setup = _setup(offset, noise, n_data)
    config = SimpleNamespace(mass_outside=0.5, slack=0.5)
    if offset * 1e-16 > 0.01 * noise:
        with pytest.raises(DataError, match=r"dataset=table: .* choose dataset.standardize=true"):
            local.build(config, setup, True)
        return
    bound, _ = local.build(config, setup, True)
    base = setup.collapse(bound)
    root = np.linalg.cholesky(np.linalg.inv(setup.curvature))
    for z in ([-3.0, 2.0, 3.0], [0.0, 0.0, 0.0], [1.0, -1.0, 1.0])[: 1 if n_data > 2000 else 3]:
        theta = bound.region.centre + root @ z
        wanted = _exactly(bound, setup.problem.model, setup.problem.features.rows, theta)
        assert _on_both_sides(base, theta) == pytest.approx(wanted, abs=1e-3)


def _rules(setup):
    """Every rule that has a polynomial in its ratio, with its target; all are exact."""
    problem, order = setup.problem, SimpleNamespace(order=3)
    for kind in (thinned.FACTORISED, thinned.POISSON, thinned.SPARED):
        rule = thinned.thinned(kind, setup.remainder(3), 1e-5)
        yield rule, thinned.target(order, setup, False)
    batches = SimpleNamespace(order=2, at_map=True)
    yield austerity(setup.n_data, 50, 0.0), reading_batches(batches, setup, False)
    full = full_data(problem.prior, problem.model, problem.features, setup.n_params, False)
    yield delayed.build(order, setup), full


@pytest.mark.thorough
def test_where_polynomials_have_no_digits_the_likelihood_alone_decides():
    """Steps of 10⁹ sds, as before tuning: none out there is accepted, and each back is.

    A cubic is 10²⁵ there: subtracted from what it was added to it left rounding of 10⁹, which decided.
    """
    setup, rng = _setup(0.0, 1e-8, 200), np.random.default_rng(3)
    mode, unit = setup.problem.fit.theta_map, 1e-8 / np.sqrt(200)
    for rule, target in _rules(setup):
        for _ in range(6):
            far = mode + 1e9 * unit * rng.standard_normal(3)
            at = mode.copy()
            begin(target, rng, at)
            assert decide(rule, rng, target, at, far, 0.0) == 0.0
            np.testing.assert_array_equal(at, mode)
            if isinstance(rule, delayed.Delayed):  # whose first stage may refuse the way back
                continue
            at = far.copy()
            begin(target, rng, at)
            assert decide(rule, rng, target, at, mode, 0.0) == 1.0
            np.testing.assert_array_equal(at, mode)


@pytest.mark.parametrize("sampler", [Ep(), Weighted(approximation="laplace")])
def test_sites_about_0_are_refused_where_their_sums_have_no_digits(sampler, tmp_path, monkeypatch):
    """Weights and evidence are differences of sums of 10¹⁵ nats there."""
    (far,) = (one for one in library() if one.name == "far target")

    def first_step():
        method = method_of(far, tmp_path, monkeypatch, bound=None, brightness=None, sampler=sampler)
        method.advance(method.init(0), 1)

    with pytest.raises(FlyrunError, match=r"no digits; choose dataset.standardize=true"):
        first_step()
