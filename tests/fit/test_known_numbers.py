"""`--prior 'power: constant(1.5)'`: a family's number that is known, at each door, against grids."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import gammaln, logsumexp

import flyrun
from flyrun.cli.main import main
from flyrun.families.family import family, names
from flyrun.families.known_numbers import known
from flyrun.fitting.chosen_priors import with_constants
from flyrun.fitting.estimators import FlyrunRegressor
from flyrun.fitting.priors import typed
from flyrun.ground.errors import ConfigError
from tests.fit.test_fit_tables import apart, refused  # noqa: F401  (a fixture)
from tests.models.test_families import N, derivatives, rows, whole

PAIRS = [
    (name, k)
    for name in names()
    if family(name).intercept
    for k in range(len(family(name).auxiliary(0, 1.0)))
]


@pytest.mark.parametrize(("name", "k"), PAIRS)
def test_what_is_known_stands_in_its_place(name, k):
    inner = family(name)
    y, trials, p = rows(inner)
    place, number = inner.linear(0) + k, inner.auxiliary(0, 1.0)[k].name
    a = np.zeros(len(inner.auxiliary(0, 1.0)))
    its = known(inner, {number: float(inner.read(a + 0.3)[k])})
    assert family(its.name).name == its.name
    assert [each.name for each in its.auxiliary(0, 1.0)] == [
        each.name for each in inner.auxiliary(0, 1.0) if each.name != number
    ]
    at, left = [*p], [*p]
    at[place] = np.full(N, 0.3)
    del left[place]
    np.testing.assert_allclose(whole(its, y, trials, left), whole(inner, y, trials, at), rtol=1e-12)
    slopes, curvatures = derivatives(inner, y, trials, at)
    ours = derivatives(its, y, trials, left)
    np.testing.assert_allclose(ours[0], np.delete(slopes, place, 0), atol=1e-12)
    np.testing.assert_allclose(ours[1], np.delete(np.delete(curvatures, place, 0), place, 1), atol=1e-12)
    if inner.mean is not None:
        np.testing.assert_allclose(its.mean(trials, left), inner.mean(trials, at), rtol=1e-12)
    drawn = [
        np.asarray(each.draw(np.random.default_rng(1), trials.astype(int), q), float)
        for each, q in ((its, left), (inner, at))
    ]
    np.testing.assert_allclose(*drawn)
    others = np.delete(a + 0.7, k)[None]
    np.testing.assert_allclose(its.unread(its.read(others)), others, atol=1e-9)


def claims(n=80):
    rng = np.random.default_rng(5)
    x = rng.normal(size=n)
    y = [rng.gamma(2.0, 0.5, count).sum() for count in rng.poisson(np.exp(0.3 + 0.5 * x))]
    return pd.DataFrame({"x": x, "g": rng.choice(list("abcdef"), n), "y": y})


def times_t(n=120):
    rng = np.random.default_rng(6)
    x = rng.normal(size=n)
    table = pd.DataFrame({"x": x, "g": rng.choice(list("abcdef"), n)})
    return table.assign(y=500.0 + 30.0 * x + 25.0 * rng.standard_t(3.0, n))


def tweedie(y, eta, phi, power, most=60):
    """A compound Poisson's density by its definition: Poisson many gamma variables, log, (S, N)."""
    rate = np.exp(eta * (2.0 - power)) / (phi * (2.0 - power))
    scale, shape = phi * (power - 1.0) * np.exp(eta * (power - 1.0)), (2.0 - power) / (power - 1.0)
    log_z = np.log(rate) + shape * np.log(np.where(y > 0, y, 1.0) / scale)
    j = np.arange(1.0, most)
    terms = logsumexp(j[:, None, None] * log_z - (gammaln(j + 1) + gammaln(shape * j))[:, None, None], axis=0)
    return -rate + np.where(y > 0, terms - y / scale - np.log(np.where(y > 0, y, 1.0)), 0.0)


def moments(log_p, points):
    weight = np.exp(log_p - log_p.max())
    weight /= weight.sum()
    mean = weight @ points
    return mean, np.sqrt(weight @ (points - mean) ** 2)


def of_tweedie(table, power):
    """Mean and sd of intercept, slope and log phi on a grid, under `flyrun fit`'s priors."""
    axes = np.linspace(-0.6, 0.9, 21), np.linspace(-0.4, 1.4, 21), np.linspace(-0.9, 0.8, 17)
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
    eta = points[:, :1] + points[:, 1:2] * table.x.to_numpy()
    likelihood = np.concatenate(
        [tweedie(table.y.to_numpy(), eta[k : k + 500], np.exp(points[k : k + 500, 2:]), power).sum(axis=1)
         for k in range(0, len(points), 500)]
    )  # fmt: skip
    sd, centre = table.x.std(ddof=0), points[:, 0] + points[:, 1] * table.x.mean()
    prior = stats.norm.logpdf(centre, 0, 10) + stats.norm.logpdf(points[:, 1], 0, 2.5 / sd)
    return moments(likelihood + prior + stats.norm.logpdf(points[:, 2], 0, 5), points)


@pytest.mark.thorough
def test_a_tweedie_of_known_power_is_a_grids():
    table = claims(40)
    fit = flyrun.fit(table, "y ~ x", model="tweedie", priors={"power": "constant(1.3)"})
    found = fit.summary()
    assert "power" not in found.index
    draws = np.log(fit.posterior["posterior"]["phi"].to_numpy().ravel())
    ours = [(found["mean"][k], found["sd"][k]) for k in ("intercept", "x")] + [(draws.mean(), draws.std())]
    off = {}
    for power in (1.3, 1.7):
        mean, sd = of_tweedie(table, power)
        off[power] = max(abs(m - mean[k]) / sd[k] + abs(s / sd[k] - 1.0) for k, (m, s) in enumerate(ours))
    assert off[1.3] < 0.08
    assert off[1.7] > 0.3  # the control: of another power


def of_t(table, nu, sigma):
    axes = np.linspace(485, 515, 121), np.linspace(15, 45, 121)
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    away = table.y.to_numpy() - points[:, :1] - points[:, 1:] * table.x.to_numpy()
    sd_x, sd_y = table.x.std(ddof=0), table.y.std(ddof=0)
    log_p = (
        stats.t.logpdf(away / sigma, nu).sum(axis=1) if nu else stats.norm.logpdf(away / sigma).sum(axis=1)
    )
    centre = points[:, 0] + points[:, 1] * table.x.mean()
    log_p += stats.norm.logpdf(centre, table.y.mean(), 10 * sd_y)
    return moments(log_p + stats.norm.logpdf(points[:, 1], 0, 2.5 * sd_y / sd_x), points)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("nu", [3.0, None])
def test_known_noise_is_in_units_of_the_target(nu):
    table = times_t()
    model = {"model": "student_t"} if nu else {"model": "gaussian"}
    priors = {"sigma": "constant(25)"} | ({"nu": f"constant({nu})"} if nu else {})
    found = flyrun.fit(table, "y ~ x", priors=priors, **model).summary()
    assert [*found.index] == ["intercept", "x"]
    for sigma, right in ((25.0, True), (40.0, False)):
        mean, sd = of_t(table, nu, sigma)
        off = np.abs(found["mean"] - mean) / sd + np.abs(found["sd"] / sd - 1.0)
        assert (off.max() < 0.1) == right, off


@pytest.mark.parametrize(
    ("model", "table", "prior", "unit"),
    [("student_t", times_t(), "sigma: constant(25)", 25.0),
     ("gaussian", times_t(), "sigma: constant(25)", 25.0),
     ("tweedie", claims(400), "power: constant(1.5)", 1.0)],
)  # fmt: skip
@pytest.mark.thorough(but=1)
def test_every_door_knows_it(model, table, prior, unit, capsys):
    pytest.importorskip("pyarrow")
    number = prior.partition(":")[0]
    table.to_csv("t.csv", index=False)
    (many := Path("many")).mkdir()
    for k in range(3):
        table.iloc[k::3].to_parquet(many / f"{k}.parquet", index=False)
    words = ["--model", model, "--prior", prior]
    assert main(["fit", "t.csv", "y ~ x", *words]) == 0
    assert number in capsys.readouterr().out
    whole = flyrun.load("results/runs/t")
    assert main(["fit", "many", "y ~ x", *words]) == 0
    scanned = flyrun.load("results/runs/many")
    close = {"atol": 0.2 * whole.summary()["sd"].min(), "rtol": 0.02}
    np.testing.assert_allclose(scanned.summary()["mean"], whole.summary()["mean"], **close)
    np.testing.assert_allclose(scanned.summary()["sd"], whole.summary()["sd"], rtol=0.1)
    new = table[:5]
    ends = [fit.predict(new, kind="response", seed=1) for fit in (whole, scanned)]
    width = [its["high"] - its["low"] for its in ends]
    np.testing.assert_allclose(*width, rtol=0.2)
    if model == "gaussian":
        np.testing.assert_allclose(width[0], 2.0 * stats.norm.ppf(0.95) * unit, rtol=0.15)
        elpd = (
            -0.5 * np.log(2 * np.pi * unit**2) - 0.5 * ((table.y - whole.predict(table)["mean"]) / unit) ** 2
        )
        assert abs(whole.loo().elpd - elpd.sum()) < 5.0
    priors = {number: prior.partition(": ")[2]}
    estimator = FlyrunRegressor(model, priors=priors).fit(table[["x"]], table.y)
    np.testing.assert_allclose(estimator.predict(new[["x"]]), whole.predict(new)["mean"], **close)
    grouped = flyrun.fit(table, "y ~ x + (1 | g)", model=model, priors=priors)
    assert "sd(g)" in grouped.summary().index
    assert number not in grouped.summary().index


@pytest.mark.parametrize(
    ("formulas", "prior", "remedy"),
    [
        (["y ~ x"], "power: constant(2.5)", "power: constant(1.5)"),
        (["y ~ x"], "phi: constant(-1)", "phi: constant(1)"),
        (["y ~ x"], "x: constant(1)", "normal"),
        (["y ~ x + (1 | g)"], "sd(g): constant(1)", "half_normal"),
        (["y ~ x", "phi ~ x"], "phi: constant(1)", "lognormal"),
        (["y ~ x"], "pwer: constant(1.5)", "did you mean power"),
        (["y ~ x"], "power: constant(1, 2)", "constant(NUMBER)"),
    ],
)
def test_what_is_no_constant_is_refused_with_what_helps(formulas, prior, remedy, capsys):
    claims().to_csv("t.csv", index=False)
    error = refused(capsys, "fit", "t.csv", *formulas, "--model", "tweedie", "--prior", prior)
    assert prior.partition(":")[0] in error
    assert remedy in error


def test_what_is_known_has_no_second_prior_and_no_weights():
    table = times_t()
    twice = [typed("phi: constant(1)"), typed("phi: lognormal(0, 1)")]
    with pytest.raises(ConfigError, match="keep one"):
        with_constants(family("tweedie"), twice, [])
    with pytest.raises(ConfigError, match="leave one of these out"):
        flyrun.fit(
            table.assign(w=2.0),
            "y ~ x",
            model="gaussian",
            precision_weights="w",
            priors={"sigma": "constant(1)"},
        )
