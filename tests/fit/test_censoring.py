"""Targets that are not seen whole: densities beside SciPy's, truth by quadrature, and what is refused."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp

import flyrun
from flyrun.cli.main import main
from flyrun.families import censoring
from flyrun.families.family import family, names
from flyrun.fitting import finished, loo, mode, weighted_draws
from flyrun.fitting.coefficient_prior import CoefficientPrior
from flyrun.fitting.rows_posterior import Posterior
from flyrun.fitting.table_rows import Rows
from flyrun.tables import frames
from tests.fit.test_families import BY_DIFFERENCES, CASES, ETA, SCIPY, SURVIVAL, inverse, of_people

SEEN, BEYOND, BELOW, BETWEEN = censoring.SEEN, censoring.BEYOND, censoring.BELOW, censoring.BETWEEN
#: how targets are known, then the chances below them: of each and its upper end, its entry, and the most
ROWS = [
    (SEEN, 0.3, 1.0, 0.0, 1.0),
    (BEYOND, 0.6, 1.0, 0.2, 1.0),
    (BELOW, 0.4, 1.0, 0.0, 1.0),
    (SEEN, 0.9, 1.0, 0.2, 1.0),
    (BETWEEN, 0.4, 0.7, 0.0, 1.0),
    (BETWEEN, 0.15, 0.85, 0.05, 0.95),
    (BEYOND, 0.6, 1.0, 0.0, 0.95),
    (BELOW, 0.4, 1.0, 0.1, 0.95),
    (SEEN, 0.5, 1.0, 0.0, 0.8),
]


def case(name):
    """Rows at a middle of each family of which some are there between two targets alone."""
    own, repeat = family(name), lambda values: np.resize(np.array(values), len(ROWS))
    p = [repeat(ETA), *map(repeat, CASES[name][1])]
    frozen = SCIPY[name](inverse(own, p[0]), *of_people(own, p))
    kinds, *shares = map(np.array, zip(*ROWS, strict=True))
    y, high, entry, most = map(frozen.ppf, shares)
    entry, most = np.where(shares[2] > 0.0, entry, -np.inf), np.where(shares[3] < 1.0, most, np.inf)
    trials = censoring.columns(own, y, kinds, entry, np.where(kinds == BETWEEN, high, y), most)
    return censoring.censored(own.in_one_part(0)), y, trials, p, (frozen, kinds, high, entry, most)


@pytest.mark.parametrize("name", SURVIVAL)
def test_a_density_is_of_what_was_seen(name):
    own, y, trials, p, (frozen, kinds, high, entry, most) = case(name)
    whole = 1.0 if own.domain.whole else 0.0
    log_f, cdf = (frozen.logpmf if whole else frozen.logpdf), frozen.cdf
    found = own.log_density(y, trials, p) + own.constant(y, trials)
    low = np.where(kinds == BELOW, -np.inf, y)
    end = np.select([kinds == BETWEEN, kinds == BELOW], [high, y], np.inf)
    known = cdf(np.minimum(end, most)) - cdf(np.maximum(low, entry - whole))
    each = np.where(kinds == SEEN, log_f(y), np.log(known)) - np.log(cdf(most) - cdf(entry - whole))
    np.testing.assert_allclose(found, each, rtol=1e-9)
    columns = [one[:, None] + np.zeros(3) for one in p]
    many = own.log_density(y[:, None], trials[:, None], columns)
    np.testing.assert_allclose(many, np.repeat(own.log_density(y, trials, p)[:, None], 3, axis=1))


@pytest.mark.parametrize("name", [name for name in SURVIVAL if family(name).events])
def test_events_that_come_later_are_worked_out_with_those_seen(name):
    """As with each kind for itself; one that is between two times has both ends, not the first alone."""
    own, p = family(name), [ETA, *map(np.array, CASES[name][1])]
    y, kinds = np.array([0.3, 2.0, 0.7, 4.0]), np.array([SEEN, BEYOND, BEYOND, SEEN])
    quick, each = censoring.censored(own), censoring.censored(replace(own, events=False))
    for high, alike in ((y, True), (np.array([0.3, 2.0, 0.9, 4.0]), False)):
        trials = censoring.columns(own, y, np.where(high > y, BETWEEN, kinds), high=high)
        assert (censoring._events(own, trials) is not None) == alike
        (value, of_value), (truth, of_truth) = (one.to_second_order(y, trials, p) for one in (quick, each))
        np.testing.assert_allclose(value, truth, rtol=1e-12)
        np.testing.assert_allclose(quick.log_density(y, trials, p), truth, rtol=1e-12)
        for got, expected in zip(of_value, of_truth, strict=True):
            np.testing.assert_allclose(np.array(got), np.array(expected), rtol=1e-11, atol=1e-13)
    assert own.log_density(y, 0.0, p)[2] > truth[2] + 0.1  # what the row would have as one of the first kind


@pytest.mark.parametrize("name", SURVIVAL)
def test_its_derivatives_are_those_by_differences(name):
    own, y, trials, p, _ = case(name)
    slopes, curvatures = own.derivatives(y, trials, p)
    near = {"rtol": 1e-4, "atol": 1e-5} if name in BY_DIFFERENCES else {"rtol": 1e-6, "atol": 1e-7}
    for k in range(len(p)):
        up, down = ([one + way * 1e-5 * (j == k) for j, one in enumerate(p)] for way in (1.0, -1.0))
        rise = (own.log_density(y, trials, up) - own.log_density(y, trials, down)) / 2e-5
        np.testing.assert_allclose(slopes[k], rise, **near)
        above, below = (own.derivatives(y, trials, q)[0] for q in (up, down))
        for j in range(len(p)):
            bend = (below[j] - above[j]) / 2e-5
            np.testing.assert_allclose(curvatures[j][k], bend, **near)


@pytest.mark.parametrize("name", SURVIVAL)
def test_no_predictor_makes_rows_likely_without_bound(name):
    """The density of a row that is there between two targets alone is at most about one over their width."""
    own = family(name)
    one, y = censoring.censored(own.in_one_part(0)), np.array([2.0])
    trials = censoring.columns(own, y, entry=np.array([1.0]), most=np.array([4.0]))
    grid = np.meshgrid(np.linspace(-60.0, 60.0, 61), *[np.linspace(-6.0, 40.0, 24)] * (len(CASES[name][1])))
    p = [each.ravel() for each in grid]
    with np.errstate(all="ignore"):
        found = one.log_density(y, trials, p) + one.constant(y, trials)
    peak = p[1] > 0.0 if own.link == "log" and len(p) > 1 else np.zeros(len(found), bool)
    narrow = p[1] < 0.0 if own.link == "identity" or name == "lognormal" else peak
    assert not np.isposinf(found).any()
    assert found[~narrow].max() < 6.0


@pytest.mark.parametrize("name", SURVIVAL)
def test_an_end_that_there_cannot_be_is_none(name):
    """From 0 on, or from below all, is everywhere; an interval without a width was seen."""
    own = family(name)
    p = [np.full(2, 0.3), *(np.full(2, one[0]) for one in CASES[name][1])]
    y, one = np.array([1.0, 2.0]), censoring.censored(own.in_one_part(0))
    nothing = -1e30 if own.domain.standardized else 0.0
    for columns in (
        censoring.columns(own, y),
        censoring.columns(own, y, entry=np.full(2, nothing)),
        censoring.columns(own, y, high=y.copy()),
        censoring.columns(own, y, high=np.nextafter(y, 9.0)),
    ):
        for found in (one.log_density(y, columns, p), one.derivatives(y, columns, p)[0][0]):
            plain = one.log_density(y, censoring.columns(own, y), p)
            assert np.isfinite(found).all()
        np.testing.assert_allclose(one.log_density(y, columns, p), plain)
    narrow = one.log_density(y, censoring.columns(own, y, high=y + 1e-6), p) - np.log(1e-6)
    if not own.domain.whole:
        np.testing.assert_allclose(narrow, plain + one.constant(y, censoring.columns(own, y)), atol=1e-5)


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
    rows = Rows(np.ones((12, 1)), y, censoring.columns(own, y, kinds))
    return Posterior(censoring.censored(own), rows, CoefficientPrior(np.zeros(1), np.full(1, 2.0)))


@pytest.mark.thorough(but=1)
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
        (["Surv(time, event) ~ x", "--model", "inverse_gaussian"], "choose --model student_t, "),
        (["Surv(time, x) ~ start"], "but events are 1 where it was seen"),
        (["Surv(start, time, event) ~ x"], "not below time"),
        (["time | cens(x) ~ start", "--model", "weibull"], "1 where it is beyond, -1 where it is below"),
        (["Surv(time) ~ x"], "'Surv(time, event) ~ age'"),
        (["Surv(time, event) ~ x", "Surv(time, event) ~ x"], "second one for time"),
        (['Surv(time, start, type="interval") ~ x'], "so that nothing is between them; mend it"),
        (['Surv(start, time, type="counting") ~ x'], 'type is "interval", or leave it out'),
        (["time | cens(event, start) ~ x", "--model", "poisson"], "but counts are whole numbers from 0"),
        (["time | trunc(start, x) ~ event", "--model", "gamma"], "below time"),
    ],
)
def test_what_is_no_such_target_is_refused(table, words, said, capsys):
    assert main(["fit", "t.csv", *words, "--quiet"]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.thorough
def test_intervals_tell_of_the_times_in_them(table):
    """Visits at whole times between which each time is known to lie; the control takes visits for times."""
    rng = np.random.default_rng(7)
    x = table["x"].to_numpy()
    whole = np.exp(1.0 + 0.5 * x) * rng.weibull(1.6, 800)
    visits = pd.DataFrame({"x": x, "low": np.floor(whole), "high": np.floor(whole) + 1.0})
    assert off(flyrun.fit(visits, 'Surv(low, high, type="interval") ~ x')) < 3.5
    last = visits["high"] > 6.0  # after which there were no visits
    cut = visits.assign(low=np.minimum(visits["low"], 6.0), high=visits["high"].where(~last))
    cut.to_csv("cut.csv", index=False)
    known = flyrun.fit("cut.csv", 'Surv(low, high, type="interval") ~ x')
    assert off(known) < 3.5
    same = flyrun.fit(cut.fillna(np.inf), 'Surv(low, high, type="interval") ~ x')
    pd.testing.assert_frame_equal(same.summary(), known.summary())
    assert known.loo().rows == 800
    later = visits[["x", "high"]]
    assert off(flyrun.fit(later, "high ~ x", model="weibull")) > 5.0
    how = np.select([rng.random(800) < 0.3, whole > 6.0, whole < 1.0], [1, 0, 2], 3)  # R's codes
    ends = [whole, np.full(800, 6.0), np.full(800, 1.0)]  # seen, beyond, below; else between
    low = np.select([how == 1, how == 0, how == 2], ends, visits["low"])
    coded = visits.assign(low=low, how=how)
    assert off(flyrun.fit(coded, "Surv(low, high, how, type='interval') ~ x")) < 3.5


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["gamma", pytest.param("student_t", marks=pytest.mark.slow), "poisson"])
def test_what_is_cut_off_and_what_is_not_seen_agree_with_the_whole(name, table):
    rng = np.random.default_rng(8)
    x = table["x"].to_numpy()[:400]
    own, truth = family(name), {"gamma": [3.0], "student_t": [1.0, 8.0], "poisson": []}[name]
    eta = 1.0 + 0.5 * x
    p = [eta, *(np.full(400, np.log(one)) for one in truth)]
    y = np.asarray(own.draw(rng, 1.0, p), np.float64)
    low, high = (float(np.rint(np.quantile(y, at))) for at in (0.15, 0.85))
    whole = flyrun.fit(pd.DataFrame({"x": x, "y": y}), "y ~ x", model=name).summary()
    how = np.select([y > high, y <= low, np.arange(400) % 2 == 0], [1, -1, 2], 0)
    ends = np.floor(y) - (1.0 if own.domain.whole else 0.0), np.floor(y) + 1.0
    at = np.select([how == 1, how == -1, how == 2], [np.full(400, high), np.full(400, low), ends[0]], y)
    frame = pd.DataFrame({"x": x, "y": at, "how": how, "end": ends[1], "low": low, "high": high})
    cut = (y >= low) & (y <= high)
    some = {"y | cens(how, end) ~ x": frame, "y | trunc(low, high) ~ x": frame.assign(y=y)[cut]}
    for formula, rows in list(some.items())[: 1 if name == "student_t" else 2]:
        found = flyrun.fit(rows, formula, model=name).summary()
        assert np.abs((found["mean"] - whole["mean"]) / found["sd"])["x"] < 4.0
        assert abs(found["mean"]["x"] - 0.5) < 3.5 * found["sd"]["x"]
        blind = flyrun.fit(rows[["x", "y"]], "y ~ x", model=name).summary()  # the control
        assert abs(blind["mean"]["x"] - 0.5) > 3.5 * blind["sd"]["x"]


def test_nearly_all_rows_may_be_censored(table):
    last = table[["time", "x"]].assign(time=np.maximum(table["time"], 0.1), event=[1] + [0] * 799)
    found = flyrun.fit(last, "Surv(time, event) ~ x").summary()
    assert np.isfinite(found["mean"]).all()
    assert found["mean"]["intercept"] > np.log(last["time"].max())


def test_a_remedy_for_numbers_below_0_works(table, capsys):
    table.assign(time=table["time"] - 1.0).to_csv("t.csv", index=False)
    assert main(["fit", "t.csv", "Surv(time, event) ~ x", "--quiet"]) == 2
    error = capsys.readouterr().err
    assert "choose --model student_t or --model gaussian" in error
    for model in ("student_t", "gaussian"):
        assert main(["fit", "t.csv", "Surv(time, event) ~ x", "--model", model, "--quiet", "--fresh"]) == 0


@pytest.mark.thorough
@pytest.mark.parametrize("ends", ["low, high", "low"])
def test_groups_of_truncated_targets_are_for_chains(table, ends):
    """Whose density may not be concave by the predictor; that of rows seen or censored alone is."""
    held = table.assign(g=[f"g{k % 5}" for k in range(800)], high=99.0, low=0.5)[table.time > 0.5][:150]
    whole = flyrun.fit(held, "Surv(time, event) ~ x + (1 | g)", name="whole", model="log_logistic")
    cut = flyrun.fit(held, f"time | trunc({ends}) ~ x + (1 | g)", name="cut", model="log_logistic")
    assert "weighted draws" in told(whole)["how"]
    assert told(cut)["how"].startswith("8 chains")


def told(made):
    """What fit.json says."""
    return json.loads((made.folder / "fit.json").read_text("utf-8"))


def test_only_families_with_a_survival_function_are_censored():
    assert set(SURVIVAL) < set(names())
    with pytest.raises(AssertionError):
        censoring.censored(family("beta"))


@pytest.mark.parametrize("name", ["weibull", "gamma"])
def test_rows_of_any_shape_are_worked_out_alike(name):
    """Draws beside rows, rows beside draws, one row of many draws: as one number at a time."""
    y, draws = np.array([1.0, 2.0, 0.5, 3.0]), np.linspace(-0.5, 0.5, 3)
    kinds, entry = np.array([0.0, 1.0, 0.0, -1.0]), np.array([0.2, -np.inf, 0.1, -np.inf])
    its = censoring.censored(family(name).in_one_part(0))
    trials = censoring.columns(its, y, kinds, entry)
    eta = 0.3 * y[:, None] + draws

    def by_one(n, s):
        args = y[n : n + 1], trials[n : n + 1], [eta[n : n + 1, s], draws[s]]
        slopes, curvatures = its.derivatives(*args)
        return np.ravel([its.log_density(*args), *slopes, *curvatures[0], *curvatures[1]])

    truth = np.array([[by_one(n, s) for s in range(3)] for n in range(4)], float)
    for rows in (slice(None), slice(1)):
        for turned in (False, True):
            args = y[rows, None], trials[rows, None], [eta[rows], draws]
            if turned:
                args = y[rows], trials[rows], [eta[rows].T, draws[:, None]]
            slopes, curvatures = its.derivatives(*args)
            each = np.array([its.log_density(*args), *slopes, *curvatures[0], *curvatures[1]])
            np.testing.assert_allclose(
                np.moveaxis(each.swapaxes(1, 2) if turned else each, 0, -1), truth[rows]
            )
