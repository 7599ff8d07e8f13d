"""Default priors of shapes: data decide over six decades, and Poisson's counts keep their errors."""

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats

import flyrun
from flyrun.families.family import family
from flyrun.families.prior_densities import LogGamma

N = 200


def table(model, value, seed=0):
    """Rows of a family at one auxiliary number; no column matters."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=N)
    y = {
        "gamma": lambda: rng.gamma(value, 3.0 / value, N),
        "negative_binomial": lambda: rng.poisson(rng.gamma(value, 50.0 / value, N)).astype(float),
        "beta": lambda: rng.beta(0.4 * value, 0.6 * value, N),
    }[model]()
    return pd.DataFrame({"x": x, "y": np.clip(y, 1e-290, 1.0 - 1e-12) if model == "beta" else y})


def by_likelihood(model, y):
    """Estimate and standard error of the log of the number, by SciPy's densities at the best mean."""
    log_p = {
        "gamma": lambda m, a: stats.gamma.logpdf(y, np.exp(a), scale=np.exp(m - a)),
        "negative_binomial": lambda m, a: stats.nbinom.logpmf(y, np.exp(a), 1.0 / (1.0 + np.exp(m - a))),
        "beta": lambda m, a: stats.beta.logpdf(y, np.exp(a) / (1 + np.exp(-m)), np.exp(a) / (1 + np.exp(m))),
    }[model]
    mean = y.mean()
    start = [np.log(mean / (1.0 - mean)) if model == "beta" else np.log(mean), 1.0]

    def loss(p):
        return -log_p(*p).sum()

    ends = [optimize.minimize(loss, [start[0], a], method="Nelder-Mead") for a in (-4.0, 0.0, 4.0, 9.0)]
    m, a = min(ends, key=lambda end: end.fun).x
    h = 0.02 / np.sqrt(max(1.0, np.exp(-a)))

    def profiled(b):
        return optimize.minimize_scalar(lambda at: loss([at, b]), bracket=(m - 0.01, m + 0.01)).fun

    below, here, above = map(profiled, (a - h, a, a + h))
    return a, ((below - 2.0 * here + above) / h**2) ** -0.5


CASES = [
    *(("gamma", value) for value in (1e-1, 1.0, 282.0, 1e5)),
    *(("negative_binomial", value) for value in (1e-1, 1.0, 30.0)),
    *(("beta", value) for value in (0.5, 100.0, 1e5)),
]  # fmt: skip


@pytest.mark.parametrize(("model", "value"), CASES)
def test_data_decide_over_decades(model, value):
    """The posterior of the log is within a third of its sd of the likelihood's, and as wide."""
    frame = table(model, value)
    estimate, se = by_likelihood(model, frame.y.to_numpy())
    name = family(model).auxiliary(0, 1.0)[0].name
    fit = flyrun.fit(frame, "y ~ 1", model=model)
    log = np.log(fit.posterior["posterior"][name].to_numpy().ravel())
    assert (log.mean() - estimate) / se == pytest.approx(0.0, abs=1 / 3)
    assert log.std() / se == pytest.approx(1.0, abs=0.15)


def test_the_prior_that_was_there_overruled_data():
    """exponential(0.5) on a shape of 282: what this file is for would be seen."""
    frame = table("gamma", 282.0)
    estimate, se = by_likelihood("gamma", frame.y.to_numpy())
    assert str(LogGamma(1.0, 0.5)) == "exponential(0.5)"
    fit = flyrun.fit(frame, "y ~ 1", model="gamma", priors={"shape": "exponential(0.5)"})
    log = np.log(fit.posterior["posterior"]["shape"].to_numpy().ravel())
    assert (log.mean() - estimate) / se < -3.0


def test_counts_that_are_poissons_get_poissons_errors_and_no_absurd_mean():
    rng = np.random.default_rng(3)
    x = rng.normal(size=N)
    frame = pd.DataFrame({"x": x, "k": rng.poisson(1_000.0 * np.exp(0.1 * x))})
    fit = flyrun.fit(frame, "k ~ x", model="negative_binomial")
    poisson = flyrun.fit(frame, "k ~ x", model="poisson")
    assert fit.summary()["sd"]["x"] / poisson.summary()["sd"]["x"] == pytest.approx(1.0, abs=0.12)
    told = fit.summary().loc["phi"]
    assert np.isnan(told["mean"]) or told["q03"] <= told["mean"] <= told["q97"]
    assert np.isnan(told["mean"]) == any("no mean to tell" in line for line in fit.checks()["caveats"])
    assert "nan" not in fit.report.read_text(encoding="utf-8").split("Coefficients")[1][:4_000]
