"""Coefficients between bounds: their posterior against quadrature and rejection, wherever the mode lies."""

import numpy as np
import pandas as pd
import pytest

import flyrun
from flyrun.families.bounded_priors import Bounded
from flyrun.families.family import family
from flyrun.families.prior_densities import Laplace, Normal, StudentT
from flyrun.fitting import mode, weighted_draws
from flyrun.fitting.coefficient_prior import CoefficientPrior
from flyrun.fitting.rows_posterior import Posterior
from flyrun.fitting.table_rows import Rows
from flyrun.ground.errors import ConfigError

ENDS = [(0.0, np.inf), (-np.inf, 0.5), (-0.5, 1.5)]


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("base", [Normal(0.3, 1.2), StudentT(3.0, 0.0, 0.5), Laplace(0.2, 1.0)])
def test_its_derivatives_are_those_of_differences(base, ends):
    prior, a, step = Bounded(base, *ends), np.array([-3.0, -0.7, 0.4, 1.1]), 1e-4
    up, here, down = (prior.log_density(a + s) for s in (step, 0.0, -step))
    slope, curvature = prior.derivatives(a)
    pace, bend = prior.changes(a)
    assert prior.free(prior.number(a)) == pytest.approx(a, abs=1e-12)
    rise = (prior.number(a + step) - prior.number(a - step)) / (2.0 * step)
    assert pace == pytest.approx(rise, rel=1e-6)
    assert bend == pytest.approx(
        (prior.changes(a + step)[0] - prior.changes(a - step)[0]) / (2 * step), rel=1e-6
    )
    if not isinstance(base, Laplace):  # whose corner is rounded in slopes alone
        assert slope == pytest.approx((up - down) / (2.0 * step), abs=1e-6)
        assert curvature == pytest.approx(-(up - 2.0 * here + down) / step**2, abs=1e-5)
    rng = np.random.default_rng(0)
    drawn = prior.number(np.array([prior.draw(rng) for _ in range(200)]))
    assert (drawn > ends[0]).all()
    assert (drawn < ends[1]).all()
    scaled = prior.scaled(2.0, 1.0)
    shift = scaled.log_density(scaled.free(1.0 + 2.0 * prior.number(a))) - prior.log_density(a)
    of_pace = np.log(np.abs(scaled.changes(scaled.free(1.0 + 2.0 * prior.number(a)))[0] / (2.0 * pace)))
    assert shift - of_pace == pytest.approx(0.0, abs=1e-9)


def labels(slope, n=60, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    y = rng.random(n) < 1.0 / (1.0 + np.exp(-slope * x))
    return pd.DataFrame({"x": x, "y": np.where(y, "b", "a")})


def quadrature(frame, log_prior, ends):
    """Mean and sd of the slope between its ends, of y ~ x, on a grid; normal(0, 10) of the intercept."""
    x, sign = frame.x.to_numpy() - frame.x.mean(), np.where(frame.y == "b", 1.0, -1.0)
    at_mean, slope = np.linspace(-4.0, 4.0, 161), np.linspace(*ends, 2_001)
    slope = 0.5 * (slope[1:] + slope[:-1])
    log_p = log_prior(slope) - 0.5 * (at_mean[:, None] / 10.0) ** 2
    for each, s in zip(x, sign, strict=True):
        log_p = log_p - np.logaddexp(0.0, -s * (at_mean[:, None] + slope * each))
    weight = np.exp(log_p - log_p.max()).sum(axis=0)
    mean = np.average(slope, weights=weight)
    return mean, np.sqrt(np.average((slope - mean) ** 2, weights=weight))


@pytest.mark.thorough(but=4)
@pytest.mark.parametrize("slope", [-2.0, 0.0, 3.0])  # the mode far below the bound, at it, and above
@pytest.mark.parametrize(
    ("prior", "log_prior", "ends"),
    [
        ("normal(0, 1, lower=0)", lambda b: -0.5 * b**2, (0.0, 8.0)),
        ("normal(0.5, 1, upper=0.7)", lambda b: -0.5 * (b - 0.5) ** 2, (-8.0, 0.7)),
        ("student_t(4, 0, 1, lower=-0.2, upper=1)", lambda b: -2.5 * np.log1p(b**2 / 4.0), (-0.2, 1.0)),
        ("laplace(0, 0.5, lower=-0.1)", lambda b: -2.0 * np.abs(b), (-0.1, 8.0)),
    ],
)
def test_a_coefficient_stays_within_bounds_and_is_that_of_quadrature(slope, prior, log_prior, ends):
    frame = labels(slope)
    fit = flyrun.fit(frame, "y ~ x", priors={"x": prior})
    row = fit.summary().loc["x"]
    mean, sd = quadrature(frame, log_prior, ends)
    assert fit.priors["prior"]["x"] == prior
    draws = fit.posterior["posterior"]["beta"].to_numpy()[..., 0]
    assert ends[0] < draws.min()
    assert draws.max() < ends[1]
    assert (row["mean"] - mean) / sd == pytest.approx(0.0, abs=0.07)
    assert row["sd"] / sd == pytest.approx(1.0, abs=0.06)


def test_without_the_jacobian_it_would_be_seen(monkeypatch):
    frame = labels(0.0)
    whole = Bounded.log_density
    monkeypatch.setattr(
        Bounded, "log_density", lambda self, a: whole(self, a) + np.log(np.abs(self.changes(a)[0]))
    )
    row = flyrun.fit(frame, "y ~ x", priors={"x": "normal(0, 1, lower=-0.05)"}).summary().loc["x"]
    mean, sd = quadrature(frame, lambda b: -0.5 * b**2, (-0.05, 8.0))
    assert abs(row["mean"] - mean) > 0.1 * sd


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("model", ["poisson", "gaussian", "student_t", "negative_binomial"])
def test_every_family_agrees_with_rejection_of_its_unbounded_draws(model):
    rng = np.random.default_rng(3)
    x, z = rng.normal(size=(2, 300))
    eta = 0.8 + 0.05 * x + 0.5 * z
    counts = model in ("poisson", "negative_binomial")
    frame = pd.DataFrame(
        {"x": x, "z": z, "y": rng.poisson(np.exp(eta)) if counts else 3.0 * eta + rng.standard_t(5, 300)}
    )
    free = flyrun.fit(frame, "y ~ x + z", model=model, priors={"x": "normal(0, 1)"})
    draws = free.posterior["posterior"]["beta"].to_numpy().reshape(-1, 3)
    kept = draws[draws[:, 0] > 0.08]
    assert len(kept) > 300
    within = flyrun.fit(frame, "y ~ x + z", model=model, priors={"x": "normal(0, 1, lower=0.08)"})
    rows = within.summary()
    for d, name in enumerate(("x", "z", "intercept")):
        sd = kept[:, d].std()
        assert (rows["mean"][name] - kept[:, d].mean()) / sd == pytest.approx(
            0.0, abs=5.0 / np.sqrt(len(kept)) + 0.05
        )
        assert rows["sd"][name] / sd == pytest.approx(1.0, abs=0.15)
    assert np.isfinite(within.loo().elpd)
    assert abs(within.loo().elpd - free.loo().elpd) < 3.0


def test_few_rows_a_draw_read_the_bounded_number():
    """The second order is that of the coefficient, not of what is free of its bounds."""
    rng = np.random.default_rng(0)
    frame = labels(0.3, 4_000)
    features = np.column_stack([frame.x, np.ones(len(frame))]) * np.where(frame.y == "b", 1.0, -1.0)[:, None]
    prior = CoefficientPrior(
        np.zeros(2), np.array([np.inf, 10.0]), others=((0, Bounded(Normal(0.0, 1.0), 0.33)),)
    )
    posterior = Posterior(family("logistic"), Rows(features, np.ones(len(frame))), prior, 2)
    at, likelihood = mode.find(posterior)
    x = at + 0.3 * rng.normal(size=(5, posterior.size))
    plain = Posterior(posterior.family, posterior.rows, posterior.prior, posterior.levels)
    plain.bounds = []
    assert likelihood.change(x) == pytest.approx(
        plain.likelihood_at(posterior.natural(at)).change(posterior.natural(x)), rel=1e-6
    )
    shape = mode.covariance(likelihood.curvature + posterior.prior_at(at).curvature)
    proposal = weighted_draws.Mixture.of(at, shape, 0.0, 0.0)
    few = weighted_draws.by_few_rows(posterior, proposal, likelihood, rng, 20_000)
    every = weighted_draws.by_all_rows(posterior, weighted_draws.Mixture.of(at, shape), rng, 20_000)
    assert not every.why
    (mean, covariance), (other, _) = every.moments(), few.moments()
    assert (other - mean) / np.sqrt(np.diag(covariance)) == pytest.approx(0.0, abs=0.08)


def test_a_parameters_column_has_bounds_too():
    rng = np.random.default_rng(1)
    x = rng.normal(size=200)
    frame = pd.DataFrame({"x": x, "y": np.exp(-0.3 * x) * rng.normal(size=200)})
    fit = flyrun.fit(
        frame, ["y ~ x", "sigma ~ x"], model="gaussian", priors={"sigma[x]": "normal(0, 1, lower=-0.2)"}
    )
    draws = fit.posterior["posterior"]["sigma"].to_numpy()
    assert fit.priors["prior"]["sigma[x]"] == "normal(0, 1, lower=-0.2)"
    assert draws[..., 0].min() > -0.2
    assert fit.summary()["mean"]["sigma[x]"] < -0.1


@pytest.mark.parametrize(
    ("priors", "message"),
    [
        ({"x": "normal(0, 1, lower=2, upper=1)"}, "A below B"),
        ({"x": "normal(0, 1, lower=0, lower=1)"}, "A below B"),
        ({"x": "flat(lower=0)"}, "bounds go with normal, student_t, cauchy and laplace; write flat"),
        ({"sigma": "half_normal(1, upper=2)"}, r"write half_normal\(SD\) without"),
    ],
)
def test_bounds_of_what_takes_none_are_refused(priors, message):
    frame = labels(0.5).assign(y=lambda d: d.x + 1.0)
    with pytest.raises(ConfigError, match=message):
        flyrun.fit(frame, "y ~ x", model="gaussian", priors=priors)
