"""A formula a parameter: sigma, shape, phi and nu with columns of their own."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import flyrun
from flyrun.families.family import Normal, family
from flyrun.fitting import mode, weighted_draws
from flyrun.fitting.coefficient_prior import CoefficientPrior
from flyrun.fitting.column_scales import own_scales, to_sampled
from flyrun.fitting.finished import read
from flyrun.fitting.hmc_on_rows import Sampler
from flyrun.fitting.rows_posterior import Posterior
from flyrun.fitting.table_rows import Design, Rows
from flyrun.ground.errors import ConfigError, DataError

TARGETS = {
    "gaussian": lambda rng, eta: eta + rng.normal(size=len(eta)),
    "student_t": lambda rng, eta: eta + rng.standard_t(4, len(eta)),
    "gamma": lambda rng, eta: rng.gamma(2.0, np.exp(eta) / 2.0),
    "negative_binomial": lambda rng, eta: rng.poisson(rng.gamma(2.0, np.exp(eta) / 2.0)).astype(float),
    "beta": lambda rng, eta: np.clip(rng.beta(3.0, 2.0, len(eta)), 1e-3, 1.0 - 1e-3),
}


def posterior(name, designed=True, n=60, ones=False, seed=0):
    """Of n rows with an intercept and two columns, and one column of every further parameter."""
    rng = np.random.default_rng(seed)
    x = np.column_stack([rng.normal(size=(n, 2)), np.ones(n)])
    its = family(name)
    y = TARGETS[name](rng, 0.3 * x[:, 0])
    count = len(its.auxiliary(0, 1.0))
    own = np.column_stack([rng.normal(size=n), np.ones(n)])[:, int(ones) :]
    designs = (Design(own),) * count if designed else ()
    slopes = ((Normal(0.0, 1.0),) * (own.shape[1] - 1),) * count if designed else ()
    prior = CoefficientPrior(np.zeros(3), np.full(3, 2.5))
    weights = rng.integers(1, 4, n).astype(float)
    rows = Rows(x, y, 1.0, 0.1 * rng.normal(size=n), weights, designs)
    return Posterior(its.in_one_part(0) if designed else its, rows, prior, slopes=slopes)


@pytest.mark.parametrize("name", TARGETS)
def test_slopes_and_curvature_are_those_of_differences(name):
    post = posterior(name)
    x = mode.find(post)[0] + 0.05
    value, slope = post.value_and_slope(x[None])
    assert value[0] == pytest.approx(post.log_density(x[None])[0], rel=1e-12)
    steps = 1e-5 * np.eye(post.size)
    both = post.log_density(np.concatenate([x + steps, x - steps])).reshape(2, -1)
    np.testing.assert_allclose(slope[0], (both[0] - both[1]) / 2e-5, rtol=1e-5, atol=1e-5)
    whole = post.likelihood_at(x).curvature + post.prior_at(x).curvature
    slopes = post.value_and_slope(np.concatenate([x + steps, x - steps]))[1].reshape(2, post.size, -1)
    np.testing.assert_allclose(whole, -(slopes[0] - slopes[1]) / 2e-5, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(post.likelihood_at(x).slope + post.prior_at(x).slope, slope[0], rtol=1e-9)


@pytest.mark.parametrize("name", TARGETS)
def test_a_column_of_ones_is_the_number(name):
    plain, ones = posterior(name, designed=False), posterior(name, ones=True)
    x = np.random.default_rng(1).normal(0.0, 0.3, (5, plain.size))
    np.testing.assert_allclose(ones.log_density(x), plain.log_density(x), rtol=1e-12)
    np.testing.assert_allclose(ones.value_and_slope(x)[1], plain.value_and_slope(x)[1], rtol=1e-8)
    mine, its = ones.likelihood_at(x[0]), plain.likelihood_at(x[0])
    np.testing.assert_allclose(mine.curvature, its.curvature, rtol=1e-8, atol=1e-8)


def heteroscedastic(n=80, seed=3):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    return pd.DataFrame({"x": x, "y": 5.0 + np.exp(0.4 + 0.6 * x) * rng.normal(size=n)})


def by_quadrature(frame, log_p, reach=(1.5, 0.9, 0.7), points=41):
    """Means and sds of (mean, a0, a1) of y ~ N(mean, exp(a0 + a1 x)), by a grid about least squares."""
    start = np.array([np.average(frame.y, weights=np.exp(-1.2 * frame.x)), 0.4, 0.6])
    axes = [middle + width * np.linspace(-1, 1, points) for middle, width in zip(start, reach, strict=True)]
    grid = np.array(list(itertools.product(*axes)))
    sd = np.exp(grid[:, 1:2] + grid[:, 2:] * frame.x.to_numpy())
    density = stats.norm.logpdf(frame.y.to_numpy(), grid[:, :1], sd).sum(axis=1) + log_p(grid)
    weight = np.exp(density - density.max())
    weight /= weight.sum()
    assert weight.reshape((points,) * 3).max(axis=(1, 2))[[0, -1]].max() < 5e-3 * weight.max()
    mean = weight @ grid
    return mean, np.sqrt(weight @ (grid - mean) ** 2)


def test_the_posterior_is_that_of_quadrature():
    """Against SciPy's density and priors as the fit tells them, on a grid; a prior left out is noticed."""
    frame = heteroscedastic(25)
    fit = flyrun.fit(frame, ["y ~ 1", "sigma ~ x"], model="gaussian")
    sd_y, mean_x, sd_x = frame.y.std(ddof=0), frame.x.mean(), frame.x.std(ddof=0)

    def log_p(grid, slope_sd=1.0):
        log_sigma = grid[:, 1] + grid[:, 2] * mean_x  # where x is at its mean
        of_sigma = stats.expon.logpdf(np.exp(log_sigma), scale=sd_y) + log_sigma
        return (
            stats.norm.logpdf(grid[:, 0], frame.y.mean(), 10 * sd_y)
            + of_sigma
            + stats.norm.logpdf(grid[:, 2] * sd_x, 0.0, slope_sd)
        )

    summary = fit.summary()
    assert list(summary.index) == ["intercept", "sigma[intercept]", "sigma[x]"]
    mean, sd = by_quadrature(frame, log_p)
    np.testing.assert_allclose((summary["mean"] - mean) / sd, 0.0, atol=0.1)
    np.testing.assert_allclose(summary["sd"] / sd, 1.0, atol=0.05)
    broken, _ = by_quadrature(frame, lambda grid: log_p(grid, 0.1))
    assert np.abs((summary["mean"] - broken) / sd).max() > 0.5


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("name", [name for name in TARGETS if name != "student_t"])  # which runs HMC anyhow
def test_weighted_draws_are_those_of_hmc(name):
    post = posterior(name, n=200)
    drawn = weighted_draws.fit(post)
    assert not drawn.why, drawn.why
    mean, covariance = drawn.moments()
    sd = np.sqrt(np.diag(covariance))
    chains = Sampler(post, mean[None], np.linalg.cholesky(covariance), np.random.default_rng(2), 16)
    x = chains.draw(500).reshape(-1, post.size)
    np.testing.assert_allclose((x.mean(axis=0) - mean) / sd, 0.0, atol=0.1)
    np.testing.assert_allclose(x.std(axis=0) / sd, 1.0, atol=0.06)


def test_few_rows_a_draw_serve_tall_tables():
    post = posterior("gaussian", n=12_000)
    drawn = weighted_draws.fit(post)
    assert not drawn.why
    assert drawn.rate < 1_000
    at, likelihood = mode.find(post)
    mean, covariance = drawn.moments()
    np.testing.assert_allclose((mean - at) / np.sqrt(np.diag(covariance)), 0.0, atol=0.1)
    exact = mode.covariance(likelihood.curvature + post.prior_at(at).curvature)
    np.testing.assert_allclose(np.diag(covariance) / np.diag(exact), 1.0, atol=0.1)


@pytest.fixture(scope="module")
def fit(tmp_path_factory):
    frame = heteroscedastic(300)
    frame["z"] = np.where(np.arange(300) % 3 == 0, "b", "a")
    path = tmp_path_factory.mktemp("parameters") / "t.csv"
    frame.to_csv(path, index=False)
    folder = path.parent / "results"
    model = {"y": "x + z", "sigma": "x * z"}
    return flyrun.fit(str(path), model, model="gaussian", name="t", results_dir=str(folder)), frame


def test_a_finished_fit_is_read_again(fit):
    its, frame = fit
    again = read(its.folder)
    assert again.layout.parameters["sigma"].names == ["x", "z[b]", "x:z[b]", "intercept"]
    told = own_scales(again.posterior, again.x, again.layout)
    np.testing.assert_allclose(to_sampled(again.posterior, again.layout, told), again.x, atol=1e-10)
    beta, gamma = told["beta"][:50], told["sigma"][:50]
    z = (frame.z == "b").to_numpy(float)
    x = frame.x.to_numpy()
    sigma = np.exp(gamma @ np.array([x, z, x * z, np.ones(300)]))
    means = beta @ np.array([x, z, np.ones(300)])
    level = 300 * np.log(again.layout.target.sd) + 150 * np.log(2 * np.pi)  # left out of the likelihood
    by_hand = stats.norm.logpdf(frame.y.to_numpy(), means, sigma).sum(axis=1) + level
    np.testing.assert_allclose(again.posterior.log_likelihood(again.x[:50]), by_hand, rtol=1e-9)
    assert its.loo().elpd == pytest.approx(by_hand.mean() - level - 3, abs=6)


def test_new_targets_spread_as_their_parameter_says(fit):
    its, _ = fit
    new = pd.DataFrame({"x": [-1.5, 1.5], "z": ["a", "a"]})
    told = its.predict(new, kind="response")
    assert told["sd"].to_numpy() == pytest.approx(np.exp(0.4 + 0.6 * np.array([-1.5, 1.5])), rel=0.3)
    with pytest.raises(DataError, match="has no column 'z'"):
        its.predict(new[["x"]])


def test_priors_are_told_of_every_column(fit):
    told = fit[0].priors["prior"]
    assert told["sigma[intercept]"].startswith("exponential(")
    assert told["sigma[x]"].startswith("normal(0, ")
    assert told["sigma[z[b]]"] == "normal(0, 1)"


def test_rows_that_lack_a_value_in_any_formula_are_left_out():
    frame = heteroscedastic(200)
    frame["v"] = np.where(np.arange(200) % 10 == 0, np.nan, np.random.default_rng(0).normal(size=200))
    frame["w"] = np.where(np.arange(200) % 10 == 1, np.nan, np.random.default_rng(1).normal(size=200))
    formulas = ["y ~ x + v", "sigma ~ x + w"]
    with pytest.raises(DataError, match="column v has no value"):
        flyrun.fit(frame, formulas, model="gaussian")
    its = flyrun.fit(frame, formulas, model="gaussian", missing="drop")
    complete = flyrun.fit(frame.dropna(), formulas, model="gaussian")
    pd.testing.assert_frame_equal(its.summary(), complete.summary())
    assert its.loo().rows == 160


def test_an_offset_is_on_the_scale_of_the_parameter():
    """A known log factor of sigma takes the place of a column whose coefficient is 1."""
    frame = heteroscedastic(400)
    frame["log_factor"] = 0.6 * frame.x
    its = flyrun.fit(frame, ["y ~ 1", "sigma ~ offset(log_factor) + x"], model="gaussian").summary()
    free = flyrun.fit(frame, ["y ~ 1", "sigma ~ x"], model="gaussian").summary()
    assert its["mean"]["sigma[x]"] == pytest.approx(free["mean"]["sigma[x]"] - 0.6, abs=0.02)


@pytest.mark.parametrize(
    ("formulas", "model", "message"),
    [
        (["y ~ x", "sgma ~ x"], "gaussian", r"did you mean sigma.*there are sigma"),
        (["k ~ x", "phi ~ x"], "poisson", "poisson has no parameter"),
        (
            ["k ~ x", "phi ~ x"],
            "poisson",
            "choose model='negative_binomial', zero_inflated_negative_binomial",
        ),
        (["share ~ x", "phi ~ x"], "student_t", "are sigma and nu, or choose model='beta' or tweedie for it"),
        (["y ~ x", "phi ~ x"], "student_t", "are sigma and nu$"),  # no model that has it takes numbers
        (["y ~ 1", "sigma ~ s(g)"], "gaussian", r"sigma ~ s\(g\): g is a category"),
        (["y ~ x", "sigma ~ x", "sigma ~ 1"], "gaussian", "second one for sigma"),
        (["y ~ x", "log(sigma) ~ x"], "gaussian", "write sigma ~"),
        (["y ~ x", "sigma ~ C(x)"], "gaussian", r"write C\(x\) in both"),
    ],
)
def test_what_is_not_fitted_is_refused(formulas, model, message):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 5, 60).astype(float)
    frame = pd.DataFrame({"x": x, "y": rng.normal(size=60), "k": rng.poisson(2, 60)})
    frame["g"] = np.where(np.arange(60) % 2, "a", "b")
    frame["share"] = rng.uniform(0.1, 0.9, 60)
    with pytest.raises(ConfigError, match=message):
        flyrun.fit(frame, formulas, model=model)
