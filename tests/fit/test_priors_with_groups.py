"""Priors that are typed, beside groups: each reaches the posterior, against SciPy on a grid."""

import functools

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import flyrun
from flyrun.families.prior_densities import StudentT
from flyrun.ground.errors import ConfigError

ROWS = 4


@functools.cache
def frame(groups=7, seed=0):
    rng = np.random.default_rng(seed)
    g, x = np.repeat(np.arange(groups), ROWS), rng.normal(1.0, 2.0, groups * ROWS)
    effects = 1.5 * rng.normal(size=groups)
    y = 3.0 + 0.6 * x + effects[g] + 1.2 * rng.normal(size=len(x))
    return pd.DataFrame({"x": x, "g": [f"g{k}" for k in g], "y": y})


def grid(table, of_slope, of_sigma, of_sd):
    """Means and sds of slope, sigma and sd(g) of y ~ x + (1 | g), the intercept integrated out."""
    x, y, sd_y = table.x.to_numpy(), table.y.to_numpy(), table.y.std(ddof=0)
    axes = np.linspace(-0.6, 1.8, 41), np.linspace(-0.9, 1.3, 31), np.linspace(-7.0, 3.0, 81)
    slope, log_sigma, log_sd = (axis.ravel() for axis in np.meshgrid(*axes, indexing="ij"))
    sigma, sd = np.exp(log_sigma), np.exp(log_sd)
    left = (y - y.mean() - slope[:, None] * (x - x.mean())).reshape(len(slope), -1, ROWS)
    # compound symmetry: a group's mean has variance sigma²/rows + sd², all else sigma²
    means, variance = left.mean(axis=2), sigma**2 / ROWS + sd**2
    within = ((left - means[..., None]) ** 2).sum(axis=(1, 2))
    groups = means.shape[1]
    log_p = -groups * (ROWS - 1) * log_sigma - 0.5 * within / sigma**2 - 0.5 * groups * np.log(variance)
    precision = groups / variance + (10.0 * sd_y) ** -2
    total = means.sum(axis=1) / variance
    log_p += 0.5 * total**2 / precision - 0.5 * (means**2).sum(axis=1) / variance - 0.5 * np.log(precision)
    log_p += of_slope(slope) + of_sigma(sigma) + log_sigma + of_sd(sd) + log_sd
    weight = np.exp(log_p - log_p.max())
    weight /= weight.sum()
    numbers = np.stack([slope, sigma, sd])
    mean = numbers @ weight
    return mean, np.sqrt(((numbers - mean[:, None]) ** 2) @ weight)


def usual(table):
    sd_y, sd_x = table.y.std(ddof=0), table.x.std(ddof=0)
    return {
        "x": stats.norm(0.0, 2.5 * sd_y / sd_x).logpdf,
        "sigma": stats.expon(scale=sd_y).logpdf,
        "sd(g)": stats.t(3, 0.0, 2.5 * sd_y).logpdf,
    }


CASES = [
    ({"x": "student_t(3, 0, 0.1)"}, stats.t(3, 0, 0.1).logpdf),
    ({"x": "cauchy(0, 0.1)"}, stats.cauchy(0, 0.1).logpdf),
    ({"x": "laplace(0, 0.05)"}, stats.laplace(0, 0.05).logpdf),
    ({"x": "flat"}, lambda value: 0.0 * value),
    ({"sigma": "half_normal(0.3)"}, stats.halfnorm(scale=0.3).logpdf),
    ({"sigma": "inverse_gamma(40, 40)"}, stats.invgamma(40, scale=40).logpdf),
    ({"sd(g)": "half_normal(0.3)"}, stats.halfnorm(scale=0.3).logpdf),
    ({"sd(g)": "half_t(4, 0, 0.2)"}, stats.t(4, 0, 0.2).logpdf),
    ({"sd(g)": "half_cauchy(0.1)"}, stats.cauchy(0, 0.1).logpdf),
    ({"sd(g)": "exponential(4)"}, stats.expon(scale=0.25).logpdf),
    ({"sd(g)": "gamma(30, 10)"}, stats.gamma(30, scale=0.1).logpdf),
    ({"sd(g)": "inverse_gamma(20, 10)"}, stats.invgamma(20, scale=10).logpdf),
    ({"sd(g)": "lognormal(1, 0.2)"}, stats.lognorm(0.2, scale=np.e).logpdf),
]


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(("typed", "log_prior"), CASES, ids=[str(*case[0].items()) for case in CASES])
def test_a_prior_beside_groups_is_that_of_a_grid(typed, log_prior):
    agree(typed, log_prior, dict(typed))


@pytest.mark.thorough
@pytest.mark.parametrize(
    "typed", [{"sigma": "half_normal(0.3)"}, {"sd(g)": "inverse_gamma(20, 10)"}], ids=str
)
def test_chains_take_the_same_priors(typed):
    """Which a flat prior of the slope asks for."""
    agree(typed, next(log_prior for each, log_prior in CASES if each == typed), typed | {"x": "flat"})


def agree(typed, log_prior, priors):
    table, ((term, prior),) = frame(), typed.items()
    of = usual(table)
    if "x" in priors:  # flat, unless it is the one that is looked at
        of["x"] = lambda value: 0.0 * value
    mean, sd = grid(table, *(of | {term: log_prior}).values())
    fit = flyrun.fit(table, "y ~ x + (1 | g)", model="gaussian", priors=priors)
    assert fit.priors["prior"][term] == prior
    posterior = fit.posterior["posterior"]
    draws = [posterior["beta"].to_numpy()[..., 0]]
    draws += [posterior[name].to_numpy() for name in ("sigma", "sd(g)")]
    for values, its_mean, its_sd in zip(draws, mean, sd, strict=True):
        assert (values.mean() - its_mean) / its_sd == pytest.approx(0.0, abs=0.12)
        assert values.std() / its_sd == pytest.approx(1.0, abs=0.1)
    if prior != "flat":  # a prior that is not read would be seen
        plain = grid(table, *usual(table).values())[0]
        assert np.abs((plain - mean) / sd).max() > 0.25


def test_a_prior_of_half_the_weight_would_be_seen(monkeypatch):
    table = frame()
    mean, sd = grid(table, *(usual(table) | {"x": stats.t(3, 0, 0.1).logpdf}).values())
    density, derivatives = StudentT.log_density, StudentT.derivatives
    monkeypatch.setattr(StudentT, "log_density", lambda self, a: 0.5 * density(self, a))
    monkeypatch.setattr(
        StudentT, "derivatives", lambda self, a: [0.5 * each for each in derivatives(self, a)]
    )
    fit = flyrun.fit(table, "y ~ x + (1 | g)", model="gaussian", priors={"x": "student_t(3, 0, 0.1)"})
    assert abs(fit.summary()["mean"]["x"] - mean[0]) > 0.12 * sd[0]


def test_flat_beside_groups_is_refused_where_rows_do_not_bound_it():
    table = frame().assign(z=lambda d: 2.0 * d.x)
    with pytest.raises(ConfigError, match=r"flat.*no posterior.*normal"):
        flyrun.fit(table, "y ~ x + z + (1 | g)", model="gaussian", priors={"x": "flat", "z": "flat"})


def test_bounds_beside_groups_are_refused_with_a_prior_that_works():
    with pytest.raises(ConfigError, match=r"groups or smooths takes no bounds; write .x: normal\(0, 1\)"):
        flyrun.fit(frame(), "y ~ x + (1 | g)", model="gaussian", priors={"x": "normal(0, 1, lower=0)"})
    assert (
        flyrun.fit(frame(), "y ~ x + (1 | g)", model="gaussian", priors={"x": "normal(0, 1)"}).priors
        is not None
    )
