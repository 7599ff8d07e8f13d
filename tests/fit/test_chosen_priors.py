"""Priors that are typed: each reaches the posterior, in the table's units, against SciPy on a grid."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import flyrun
from flyrun.families.prior_densities import Lkj
from flyrun.ground.errors import ConfigError


def numbers(n=12, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(3.0, 2.0, n)
    return pd.DataFrame({"x": x, "y": 5.0 + 0.5 * x + 2.0 * rng.normal(size=n)})


def moments(log_p, *axes):
    """Means and sds by a density, up to a constant, on a grid."""
    grid = np.array(list(itertools.product(*axes)))
    log_w = log_p(*grid.T)
    weight = np.exp(log_w - log_w.max())
    weight /= weight.sum()
    mean = weight @ grid
    return mean, np.sqrt(weight @ (grid - mean) ** 2)


def regression(frame, of_slope, of_sigma):
    """Means and sds of slope and sigma of y ~ x, the intercept integrated out on the grid."""
    x, y = frame.x.to_numpy(), frame.y.to_numpy()
    sd_y = y.std()

    def log_p(at_mean, slope, log_sigma):
        sigma = np.exp(log_sigma)
        rows = stats.norm.logpdf(y, at_mean[:, None] + slope[:, None] * (x - x.mean()), sigma[:, None])
        prior = stats.norm.logpdf(at_mean, y.mean(), 10.0 * sd_y) + of_slope(slope) + of_sigma(sigma)
        return rows.sum(axis=1) + prior + log_sigma

    axes = (
        np.linspace(y.mean() - 4, y.mean() + 4, 41),
        np.linspace(-2.5, 3.0, 91),
        np.linspace(-1.2, 2.2, 61),
    )
    return log_p, axes


@pytest.mark.thorough(but=2)
@pytest.mark.parametrize(
    ("typed", "of_slope", "of_sigma"),
    [
        ({"x": "student_t(3, 0, 0.1)"}, stats.t(3, 0, 0.1).logpdf, None),
        ({"x": "cauchy(0.2, 0.1)"}, stats.cauchy(0.2, 0.1).logpdf, None),
        ({"x": "laplace(0, 0.1)"}, stats.laplace(0, 0.1).logpdf, None),
        ({"x": "flat"}, lambda slope: 0.0 * slope, None),
        ({"sigma": "half_normal(0.5)"}, None, stats.halfnorm(scale=0.5).logpdf),
        ({"sigma": "half_cauchy(0.5)"}, None, stats.halfcauchy(scale=0.5).logpdf),
        ({"sigma": "inverse_gamma(30, 30)"}, None, stats.invgamma(30, scale=30).logpdf),
        ({"sigma": "lognormal(0, 0.1)"}, None, stats.lognorm(0.1).logpdf),
        ({"sigma": "gamma(40, 40)"}, None, stats.gamma(40, scale=1 / 40).logpdf),
        ({"sigma": "exponential(3)", "x": "normal(0, 1)"}, stats.norm().logpdf, stats.expon(0, 1 / 3).logpdf)
    ],
    ids=lambda value: " ".join(value.values()) if isinstance(value, dict) else "",
)  # fmt: skip
def test_a_typed_prior_is_that_of_scipy(typed, of_slope, of_sigma):
    frame = numbers()
    usual_slope = stats.norm(0.0, 2.5 * frame.y.std(ddof=0) / frame.x.std(ddof=0)).logpdf
    usual_sigma = stats.expon(scale=frame.y.std(ddof=0)).logpdf
    fit = flyrun.fit(frame, "y ~ x", model="gaussian", priors=typed)
    for term, prior in typed.items():
        assert fit.priors["prior"][term] == prior
    log_p, axes = regression(frame, of_slope or usual_slope, of_sigma or usual_sigma)
    mean, sd = moments(log_p, *axes)
    found = fit.summary().loc["x"]
    assert (found["mean"] - mean[1]) / sd[1] == pytest.approx(0.0, abs=0.1)
    assert found["sd"] / sd[1] == pytest.approx(1.0, abs=0.06)
    log_sigma = np.log(fit.posterior["posterior"]["sigma"].to_numpy().ravel())
    assert (log_sigma.mean() - mean[2]) / sd[2] == pytest.approx(0.0, abs=0.1)
    usual = moments(regression(frame, usual_slope, usual_sigma)[0], *axes)[0]
    if typed != {"x": "flat"}:  # which is nearly the usual one: a prior that is not read would be seen
        assert np.abs((usual - mean) / sd)[1:].max() > 0.12


@pytest.mark.thorough
def test_priors_of_a_parameters_columns_are_per_unit():
    frame = numbers(40)
    model = ["y ~ x", "sigma ~ x"]
    chosen = {"sigma[x]": "normal(0.4, 0.001)", "sigma[intercept]": "lognormal(1, 0.01)"}
    fit = flyrun.fit(frame, model, model="gaussian", priors=chosen)
    assert fit.summary()["mean"]["sigma[x]"] == pytest.approx(0.4, abs=0.003)
    at_means = fit.summary()["mean"]["sigma[intercept]"] + 0.4 * frame.x.mean()
    assert at_means == pytest.approx(1.0, abs=0.03)
    assert fit.priors["prior"]["sigma[x]"] == "normal(0.4, 0.001)"
    assert fit.priors["prior"]["sigma[intercept]"] == "lognormal(1, 0.01) of sigma"
    with_t = flyrun.fit(frame, model, model="gaussian", priors={"sigma[x]": "student_t(4, 0.4, 0.001)"})
    assert with_t.summary()["mean"]["sigma[x]"] == pytest.approx(0.4, abs=0.003)


def test_priors_of_groups_sds_and_correlation():
    rng = np.random.default_rng(1)
    g = np.repeat(np.arange(8), 12)
    x = rng.normal(size=96)
    frame = pd.DataFrame({"x": x, "g": [f"g{k}" for k in g]})
    frame["y"] = 3.0 * (rng.normal(size=8)[g] + rng.normal(size=8)[g] * x + rng.normal(size=96))
    chosen = {"sd(g)": "lognormal(0, 0.01)", "sd(x by g)": "gamma(10000, 5000)", "cor(x by g)": "lkj(400)"}
    fit = flyrun.fit(frame, "y ~ x + (1 + x | g)", model="gaussian", priors=chosen)
    told = fit.priors["prior"]
    assert told["sd(g)"].startswith("lognormal(0, 0.01) where x is")
    found = fit.summary()
    assert found["mean"]["sd(g)"] == pytest.approx(1.0, abs=0.15)
    assert found["mean"]["sd(x by g)"] == pytest.approx(2.0, abs=0.05)
    assert found["sd"]["cor(x by g)"] < 0.2
    usual = flyrun.fit(frame, "y ~ x + (1 + x | g)", model="gaussian")
    assert usual.summary()["mean"]["sd(g)"] > 1.5
    assert usual.priors["prior"]["cor(x by g)"].startswith("lkj(1) where")


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ({"x": "gamma(2, 1)"}, "may be below 0; choose one of normal, student_t"),
        ({"sigma": "normal(0, 1)"}, "sigma is above 0; choose one of half_normal"),
        ({"sigm": "half_normal(1)"}, "did you mean sigma"),
        ({"sigma[x]": "normal(0, 1)"}, "there are x, intercept and sigma"),
        ({"sd(g)": "half_normal(1)"}, "nothing is called 'sd"),
        ({"sigma": "half_normal"}, r"must be half_normal\(SD\)"),
        ({"x": "wild(2)"}, "no prior is called wild"),
    ],
)
def test_a_prior_that_does_not_fit_is_refused(typed, message):
    with pytest.raises(ConfigError, match=message):
        flyrun.fit(numbers(), "y ~ x", model="gaussian", priors=typed)


def test_a_prior_of_a_cutpoint_is_not_taken_for_one_of_a_distance():
    frame = numbers(60).assign(y=lambda d: np.digitize(d.y, [5.0, 8.0]))
    with pytest.raises(
        ConfigError, match=r"cut_2 has normal\(0, 1.5\) of log\(cut_2 - cut_1\).*that of cut_1"
    ):
        flyrun.fit(frame, "y ~ x", model="ordinal", priors={"cut_2": "normal(1, 0.1)"})
    fit = flyrun.fit(frame, "y ~ x", model="ordinal", priors={"cut_1": "normal(-1, 0.01)"})  # which works
    found = fit.summary()["mean"]
    assert found["cut_1"] - found["x"] * frame.x.mean() == pytest.approx(-1.0, abs=0.1)


def test_flat_is_refused_where_rows_do_not_bound_the_coefficient():
    rng = np.random.default_rng(0)
    x = rng.normal(size=80)
    apart = pd.DataFrame({"x": x, "y": np.where(x > 0.1, "b", "a")})
    with pytest.raises(ConfigError, match=r"x: flat.*no posterior.*normal\(0, 2.5\)"):
        flyrun.fit(apart, "y ~ x", priors={"x": "flat"})
    level = pd.DataFrame({"g": np.where(np.arange(80) < 10, "u", "v")})
    level["y"] = np.where((level.g == "u") | (rng.random(80) < 0.4), "b", "a")  # all of u are b
    with pytest.raises(ConfigError, match="flat"):
        flyrun.fit(level, "y ~ g", priors={"g[v]": "flat", "intercept": "flat"})
    twice = numbers(30).assign(z=lambda d: 2.0 * d.x)
    with pytest.raises(ConfigError, match="flat"):
        flyrun.fit(twice, "y ~ x + z", model="gaussian", priors={"x": "flat", "z": "flat"})
    mixed = pd.DataFrame({"x": x, "y": np.where(x + rng.logistic(size=80) > 0, "b", "a")})
    fit = flyrun.fit(mixed, "y ~ x", priors={"x": "flat", "intercept": "flat"})
    assert fit.priors["prior"]["x"] == "flat"


@pytest.mark.parametrize("eta", [0.7, 3.0])
def test_a_correlations_prior_is_a_stretched_beta(eta):
    prior, a, step = Lkj(eta), np.linspace(-2.0, 2.0, 9), 1e-4
    right = stats.beta(eta, eta, -1.0, 2.0)
    density = right.logpdf(np.tanh(a)) + np.log1p(-(np.tanh(a) ** 2))
    assert np.ptp(prior.log_density(a) - density) < 1e-12
    slope, curvature = prior.derivatives(a)
    up, down = prior.log_density(a + step), prior.log_density(a - step)
    assert slope == pytest.approx((up - down) / (2.0 * step), abs=1e-6)
    assert -curvature == pytest.approx((up - 2.0 * prior.log_density(a) + down) / step**2, abs=1e-5)
    rng = np.random.default_rng(0)
    drawn = np.tanh([prior.draw(rng) for _ in range(2_000)])
    assert stats.kstest(drawn, right.cdf).pvalue > 1e-3
    assert stats.kstest(drawn, stats.beta(1.5 * eta, 1.5 * eta, -1.0, 2.0).cdf).pvalue < 1e-3  # the control
