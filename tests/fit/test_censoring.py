"""Targets that are not seen whole: densities beside SciPy's, truth by quadrature, and what is refused."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp

import flyrun
from flyrun.cli.main import main
from flyrun.families import censoring
from flyrun.families.family import family, names
from flyrun.fitting import finished, loo, mode, weighted_draws
from flyrun.fitting.rows_posterior import CoefficientPrior, Posterior, Rows
from flyrun.tables import frames
from tests.fit.test_families import CASES, ETA, SCIPY, SURVIVAL, inverse, of_people

KINDS = np.array([censoring.SEEN, censoring.BEYOND, censoring.BELOW, censoring.SEEN])


def case(name):
    """Targets at a middle and rows that were watched late, of which one is seen and one beyond."""
    own, p = family(name), [ETA, *map(np.array, CASES[name][1])]
    frozen = SCIPY[name](inverse(own, ETA), *of_people(own, p))
    y = frozen.ppf([0.3, 0.6, 0.4, 0.9])
    entry = np.where([False, True, False, True], frozen.ppf(0.2), -np.inf)
    return censoring.censored(own), y, np.stack([KINDS, entry], axis=1), p, frozen


@pytest.mark.parametrize("name", SURVIVAL)
def test_a_density_is_of_what_was_seen(name):
    own, y, trials, p, frozen = case(name)
    found = own.log_density(y, trials, p) + own.constant(y, trials)
    each = np.select([KINDS == 0.0, KINDS == 1.0], [frozen.logpdf(y), frozen.logsf(y)], frozen.logcdf(y))
    late = np.array([False, True, False, True])
    np.testing.assert_allclose(found, each - np.where(late, np.log(0.8), 0.0), rtol=1e-9)
    columns = [one[:, None] + np.zeros(3) for one in p]
    many = own.log_density(y[:, None], trials[:, None], columns)
    np.testing.assert_allclose(many, np.repeat(own.log_density(y, trials, p)[:, None], 3, axis=1))


@pytest.mark.parametrize("name", SURVIVAL)
def test_its_derivatives_are_those_by_differences(name):
    own, y, trials, p, _ = case(name)
    slopes, curvatures = own.derivatives(y, trials, p)
    for k in range(len(p)):
        up, down = ([one + way * 1e-5 * (j == k) for j, one in enumerate(p)] for way in (1.0, -1.0))
        rise = (own.log_density(y, trials, up) - own.log_density(y, trials, down)) / 2e-5
        np.testing.assert_allclose(slopes[k], rise, rtol=1e-6, atol=1e-7)
        above, below = (own.derivatives(y, trials, q)[0] for q in (up, down))
        for j in range(len(p)):
            bend = (below[j] - above[j]) / 2e-5
            np.testing.assert_allclose(curvatures[j][k], bend, rtol=1e-6, atol=1e-7)


def grid(made):
    """Positions about the mode of a posterior of two numbers, (G, 2), and their weights, (G,)."""
    at, likelihood = mode.find(made)
    root = np.linalg.cholesky(mode.covariance(likelihood.curvature + made.prior_at(at).curvature))
    line = np.linspace(-12, 12, 301)
    x = at + np.stack(np.meshgrid(line, line, indexing="ij"), -1).reshape(-1, 2) @ root.T
    log = made.log_density(x)
    return x, np.exp(log - logsumexp(log))


def small(seen, kinds=None):
    """A Weibull posterior of twelve times of which so many were seen."""
    rng = np.random.default_rng(3)
    y, own = 2.0 * rng.weibull(1.5, 12), family("weibull")
    kinds = np.where(np.arange(12) < seen, censoring.SEEN, censoring.BEYOND) if kinds is None else kinds
    rows = Rows(np.ones((12, 1)), y, censoring.columns(kinds, None, 12))
    return Posterior(censoring.censored(own), rows, CoefficientPrior(np.zeros(1), np.full(1, 2.0)))


@pytest.mark.parametrize("seen", [1, 4, 12])
def test_answers_are_of_the_posterior_by_quadrature(seen):
    """All but one censored, most, none."""
    x, weight = grid(small(seen))
    mean = weight @ x
    sd = np.sqrt(weight @ (x - mean) ** 2)
    found = weighted_draws.fit(small(seen))
    assert not found.why
    got, covariance = found.moments()
    error = 4.5 / np.sqrt(found.effective)
    assert np.abs((got - mean) / sd).max() < error
    assert np.abs(np.sqrt(np.diag(covariance)) / sd - 1.0).max() < 1.5 * error
    if seen < 12:  # censored times as if they were seen: the control
        wrong, _ = weighted_draws.fit(small(seen, np.zeros(12))).moments()
        assert np.abs((wrong - mean) / sd).max() > error


@pytest.fixture
def table(tmp_path, monkeypatch):
    """Times that x moves, of which about half are censored, and a delay before each row was watched."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(5)
    x = rng.normal(size=800)
    whole, watched = np.exp(1.0 + 0.5 * x) * rng.weibull(1.6, 800), rng.exponential(3.0, 800)
    made = pd.DataFrame({"x": x, "start": rng.uniform(0.0, 1.5, 800), "event": whole <= watched})
    made = made.assign(time=np.minimum(whole, watched), event=made.event.astype(int))
    made.to_csv("t.csv", index=False)
    return made


def off(made):
    """By how many sds the coefficients are from what made the times."""
    found = made.summary()
    truth = pd.Series({"intercept": 1.0, "x": 0.5, "shape": 1.6})
    return ((found["mean"] - truth) / found["sd"]).abs().max()


def test_what_made_censored_times_is_recovered(table):
    assert off(flyrun.fit(table, "Surv(time, event) ~ x", name="seen")) < 3.5
    assert off(flyrun.fit(table, "time ~ x", model="weibull", name="blind")) > 10.0  # the control


@pytest.mark.thorough
def test_rows_watched_late_are_those_that_lasted(table):
    late = table[table.start < table.time]
    assert off(flyrun.fit(late, "Surv(start, time, event) ~ x", name="late")) < 3.5
    assert off(flyrun.fit(late, "Surv(time, event) ~ x", name="blind")) > 4.0  # the control


@pytest.mark.thorough
def test_a_gaussian_is_censored_on_both_sides_and_truncated(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(6)
    x = rng.normal(size=600)
    y = 1.0 + 2.0 * x + rng.normal(size=600)
    kinds = np.where(y > 3.0, 1, np.where(y < 0.0, -1, 0))
    cut = pd.DataFrame({"x": x, "y": np.clip(y, 0.0, 3.0), "c": kinds})
    truth = pd.Series({"intercept": 1.0, "x": 2.0, "sigma": 1.0})
    for frame, formula in (
        (cut, "y | cens(c) ~ x"),
        (pd.DataFrame({"x": x, "y": y, "low": 0.0})[y > 0.0].assign(low=0.0), "y | trunc(low) ~ x"),
    ):
        for left, far in ((formula, False), ("y ~ x", True)):
            found = flyrun.fit(frame, left, model="gaussian", name=f"{len(frame)}_{far}").summary()
            apart = ((found["mean"] - truth) / found["sd"]).abs().max()
            assert (apart > 5.0) == far


@pytest.mark.thorough
def test_groups_predictions_and_leaving_out_know_of_it(table):
    few = table[:60].assign(g=[f"g{k}" for k in np.arange(60) % 6])
    made = flyrun.fit(few[["time", "event"]], "Surv(time, event) ~ 1", name="few")
    with frames.held(few[["time", "event"]]) as name:
        one = finished.read(made.folder, path=name)
    x, weight = grid(one.posterior)
    x, weight = x[weight > 1e-20], weight[weight > 1e-20]
    each = loo.pointwise(one, np.arange(60), x)
    np.testing.assert_allclose(made.loo().each, -logsumexp(-each, b=weight, axis=1), atol=0.03)
    grouped = flyrun.fit(few, "Surv(time, event) ~ x + (1 | g)", name="grouped")
    assert "sd(g)" in grouped.summary().index
    mean = made.predict(few.drop(columns=["time", "event"]))["mean"]  # of whole times
    assert mean.iloc[0] > few.time.mean()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["Surv(time, event) ~ x", "--model", "gamma"], "choose --model gaussian, "),
        (["Surv(time, x) ~ start"], "but events are 1 where it was seen"),
        (["Surv(start, time, event) ~ x"], "not below time"),
        (["time | cens(x) ~ start", "--model", "weibull"], "1 where it is beyond, -1 where it is below"),
        (["Surv(time) ~ x"], "'Surv(time, event) ~ age'"),
        (["Surv(time, event) ~ x", "Surv(time, event) ~ x"], "second one for time"),
    ],
)
def test_what_is_no_such_target_is_refused(table, words, said, capsys):
    assert main(["fit", "t.csv", *words, "--quiet"]) == 2
    assert said in capsys.readouterr().err


def test_only_families_with_a_survival_function_are_censored():
    assert set(SURVIVAL) < set(names())
    with pytest.raises(AssertionError):
        censoring.censored(family("gamma"))
