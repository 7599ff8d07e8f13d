"""Priors that are typed: each reaches the posterior, in the table's units, against SciPy on a grid."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import expit

import flyrun
from flyrun.families.cutpoint_priors import Dirichlet, OfCutpoints
from flyrun.families.prior_densities import Lkj, Normal, StudentT
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


def ordered(n=80, seed=0):
    frame = numbers(n, seed)
    return frame.assign(y=np.digitize(frame.y, [5.0, 8.0]))


def of_cutpoints(frame, log_prior):
    """Means and sds of slope and cutpoints of y ~ x on a grid, normal(0, 2.5) per sd of x."""
    x, y = frame.x.to_numpy(), frame.y.to_numpy()

    def log_p(slope, first, second):
        eta = slope[:, None] * (x - x.mean())
        below = [0.0 * eta, expit(first[:, None] - eta), expit(second[:, None] - eta), 0.0 * eta + 1.0]
        rows = np.log(np.maximum(np.choose(y, below[1:]) - np.choose(y, below[:-1]), 1e-300))
        slopes = stats.norm(0.0, 2.5 / x.std()).logpdf(slope)
        with np.errstate(all="ignore"):  # where cutpoints are in no order
            return np.where(second > first, rows.sum(axis=1) + slopes + log_prior(first, second), -np.inf)

    return moments(log_p, np.linspace(-0.6, 1.4, 41), np.linspace(-4.0, 2.0, 61), np.linspace(-1.5, 5.0, 66))


@pytest.mark.thorough(but=1)
@pytest.mark.thorough(but=2)
@pytest.mark.parametrize(
    ("typed", "log_prior"),
    [
        ({"cut_2": "normal(3, 0.3)"},
         lambda a, b: stats.norm(0, 5).logpdf(a) + stats.norm(3, 0.3).logpdf(b)),
        ({"cutpoints": "normal(0, 0.5)"},
         lambda a, b: stats.norm(0, 0.5).logpdf(a) + stats.norm(0, 0.5).logpdf(b)),
        ({"cut_1": "student_t(3, 0, 0.3)", "cut_2": "laplace(0.5, 0.3)"},
         lambda a, b: stats.t(3, 0, 0.3).logpdf(a) + stats.laplace(0.5, 0.3).logpdf(b)),
        ({"cutpoints": "dirichlet(20, 2, 5)"},
         lambda a, b: 19 * np.log(expit(a)) + np.log(expit(b) - expit(a)) + 4 * np.log(expit(-b))
         + stats.logistic.logpdf(a) + stats.logistic.logpdf(b)),
        ({"cutpoints": "dirichlet(9)"},
         lambda a, b: 8 * np.log(expit(a) * (expit(b) - expit(a)) * expit(-b))
         + stats.logistic.logpdf(a) + stats.logistic.logpdf(b)),
        ({"cut_1": "normal(-1, 0.2)"},
         lambda a, b: stats.norm(-1, 0.2).logpdf(a) + stats.lognorm(1.5).logpdf(b - a)),
    ],
    ids=lambda value: " ".join(value.values()) if isinstance(value, dict) else "",
)  # fmt: skip
def test_priors_of_cutpoints_are_those_of_a_grid(typed, log_prior):
    frame = ordered()
    fit = flyrun.fit(frame, "y ~ x", model="ordinal", priors=typed)
    mean, sd = of_cutpoints(frame, log_prior)
    draws = {name: fit.posterior["posterior"][name].to_numpy().ravel() for name in ("cut_1", "cut_2")}
    slope = fit.posterior["posterior"]["beta"].to_numpy().ravel()
    at_means = [slope, *(values - slope * frame.x.mean() for values in draws.values())]
    for values, its_mean, its_sd in zip(at_means, mean, sd, strict=True):
        assert (values.mean() - its_mean) / its_sd == pytest.approx(0.0, abs=0.1)
        assert values.std() / its_sd == pytest.approx(1.0, abs=0.07)
    usual = of_cutpoints(frame, lambda a, b: stats.norm(0, 5).logpdf(a))[0]
    assert np.abs((usual - mean) / sd).max() > 0.3  # a prior that is not read would be seen
    for term, prior in typed.items():
        told = fit.priors["prior"]["cut_1" if term == "cutpoints" else term]
        assert told.startswith(f"{prior} ")
        assert told.endswith("where numbers are at their means")


@pytest.mark.parametrize("alpha", [(2.0,), (0.5, 3.0, 1.0, 4.0)])
def test_a_dirichlet_of_cutpoints_is_that_of_the_chances(alpha):
    prior, rng = OfCutpoints(dict.fromkeys(range(3), Dirichlet(alpha)), {}), np.random.default_rng(0)

    def chances(a):
        c = np.cumsum(np.append(a[0], np.exp(a[1:])))
        return np.diff(np.concatenate([[0.0], expit(c), [1.0]]))

    points, steps, level = rng.normal(size=(6, 3)), 1e-6 * np.eye(3), []
    for a in points:
        jacobian = [(chances(a + step) - chances(a - step))[:-1] / 2e-6 for step in steps]
        right = stats.dirichlet(np.resize(alpha, 4)).logpdf(chances(a))
        level.append(prior.log_density(a) - right - np.log(np.abs(np.linalg.det(jacobian))))
    assert np.ptp(level) < 1e-6


@pytest.mark.parametrize(
    "prior",
    [
        OfCutpoints(dict.fromkeys(range(4), Dirichlet((2.0, 0.7, 1.0, 3.0, 1.5))), {}),
        OfCutpoints(
            {1: Normal(0.3, 0.8), 2: StudentT(3.0, 0.0, 1.0)}, {0: Normal(0.0, 5.0), 3: Normal(0.0, 1.5)}
        ),
    ],
    ids=["dirichlet", "of each"],
)
def test_derivatives_of_cutpoint_priors_are_those_of_differences(prior):
    points, size, step = np.random.default_rng(1).normal(size=(5, 4)), 4, 1e-5
    slope, curvature = prior.derivatives(points)
    for d in range(size):
        ends = [points + sign * step * np.eye(size)[d] for sign in (1.0, -1.0)]
        rise = (prior.log_density(ends[0]) - prior.log_density(ends[1])) / (2.0 * step)
        turn = (prior.derivatives(ends[0])[0] - prior.derivatives(ends[1])[0]) / (2.0 * step)
        assert slope[:, d] == pytest.approx(rise, abs=1e-6)
        assert -curvature[:, d] == pytest.approx(turn, abs=1e-5)


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (
            {"cut_2": "gamma(2, 1)"},
            "a cutpoint may be below 0; choose one of normal, student_t, cauchy and laplace",
        ),
        ({"cut_2": "dirichlet(1)"}, "choose one of normal"),
        (
            {"cutpoints": "dirichlet(1, 2)"},
            r"3 classes; write one number for all, as .cutpoints: dirichlet\(1\)",
        ),
        ({"cutpoints": "normal(0, 1)", "cut_1": "normal(0, 1)"}, "is of that too; keep one"),
        ({"cutpoint": "normal(0, 1)"}, "did you mean cutpoints"),
        ({"cut_1": "normal(0, 1, lower=0)"}, r"a cutpoint takes no bounds; write .cut_1: normal\(0, 1\)"),
        ({"x": "dirichlet(1)"}, "choose one of normal"),
        ({"cutpoints": "dirichlet()"}, "must be dirichlet"),
        ({"cutpoints": "dirichlet(1, 0, 1)"}, "above 0"),
    ],
)
def test_a_prior_that_cutpoints_do_not_take_is_refused(typed, message):
    with pytest.raises(ConfigError, match=message):
        flyrun.fit(ordered(), "y ~ x", model="ordinal", priors=typed)


def test_classes_take_normal_priors_and_the_refusal_says_so():
    frame = numbers(90).assign(y=lambda d: np.where(d.y < 5.0, "a", np.where(d.y < 7.0, "b", "c")))
    for prior in ("cauchy(0, 1)", "normal(0, 1, lower=0)", "laplace(0, 2)"):
        with pytest.raises(ConfigError, match=r"differences between classes.*write normal\(MEAN, SD\)"):
            flyrun.fit(frame, "y ~ x", model="softmax", priors={"x": prior})
    fit = flyrun.fit(frame, "y ~ x", model="softmax", priors={"x": "normal(0, 0.01)"})
    assert fit.summary().filter(like="x", axis="index")["mean"].abs().max() < 0.02


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
