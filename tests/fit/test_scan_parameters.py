"""A scan of new families, formulas of their parameters, targets not seen whole and chosen priors: its draws
are weighted as by all rows of the same table in memory."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import flyrun
from flyrun.fitting import question
from flyrun.fitting.formula_sides import merged, parameters
from flyrun.fitting.priors import typed
from flyrun.fitting.request import Request
from flyrun.fitting.scan import many_files, mappers, row_weights, stages
from flyrun.fitting.scan.pilot import Inputs
from flyrun.fitting.scan.stages import Scan
from flyrun.ground.errors import ConfigError, DataError
from tests.fit.test_scan import against_all_rows, parquet, pyarrow, write

N = 2_500
FIRST, SECOND = "zero_inflated_poisson", "sigma ~ x"  # in the first tier

pytestmark = pytest.mark.usefixtures("_few_draws")


@pytest.fixture
def _few_draws(monkeypatch):
    monkeypatch.setattr(row_weights, "DRAWS", 4_000)
    monkeypatch.setattr(row_weights, "_BY_CHAINS", 2_000)


def columns(seed=3):
    """x and z, and a target of each kind."""
    rng = np.random.default_rng(seed)
    x, z = rng.normal(size=N), rng.normal(2.0, 3.0, size=N)
    mean = np.exp(0.8 + 0.4 * x - 0.1 * z)
    chance = mean / (1.0 + mean)
    time, until = mean * rng.weibull(2.0, N), 0.75 * np.exp(0.3 * rng.normal(size=N))
    number = 5.0 + 2.0 * (x + np.exp(0.3 * x) * rng.normal(size=N))
    return {
        "x": x,
        "z": z,
        "zeros": (rng.random(N) > 0.4) * rng.poisson(3.0 * mean),
        "time": np.minimum(time, until),
        "seen": (time <= until).astype(np.int8),
        "loss": np.array([rng.gamma(2.0, 0.5, k).sum() for k in rng.poisson(3.0 * mean)]),
        "tries": np.full(N, 12),
        "hits": rng.binomial(12, rng.beta(9.0 * chance, 9.0 - 9.0 * chance)),
        "size": mean * np.exp(0.5 * rng.normal(size=N)),
        "number": number,
        "low": number - rng.exponential(3.0, N),
        "yes": (rng.random(N) < chance).astype(np.int8),
    }


#: formulas, the model and priors
CASES = {
    FIRST: (["zeros ~ x + z"], "zero_inflated_poisson", {}),
    SECOND: (["number ~ x", "sigma ~ x + z"], "gaussian", {}),
    "weibull, censored": (["Surv(time, seen) ~ x + z"], "weibull", {}),
    "tweedie": (["loss ~ x + z"], "tweedie", {}),
    "beta_binomial": (["hits | tries ~ x + z"], "beta_binomial", {}),
    "lognormal": (["size ~ x + z"], "lognormal", {}),
    "zi ~ z": (["zeros ~ x", "zi ~ z"], "zero_inflated_poisson", {}),
    "shape ~ z, censored": (["Surv(time, seen) ~ x", "shape ~ bs(z, df=4)"], "weibull", {}),
    "truncated": (["number | trunc(low) ~ x"], "gaussian", {}),
    "laplace": (["yes ~ x + z"], "logistic", {"x": "laplace(0, 0.05)", "z": "cauchy(0, 0.01)"}),
    "flat, gaussian": (["number ~ x"], "gaussian", {"x": "flat", "sigma": "lognormal(0, 0.02)"}),
    "priors of a slope": (
        ["size ~ x", "sigma ~ x"],
        "lognormal",
        {"sigma[x]": "student_t(3, 0.1, 0.01)", "sigma[intercept]": "gamma(900, 1500)"},
    ),
}


def asked(file, formulas, model, priors):
    """A request as `flyrun.fit` makes it."""
    target, settings, _ = merged(formulas[0], {})
    given = tuple(typed(f"{term}: {prior}") for term, prior in priors.items())
    further, _ = parameters(formulas[1:], target)
    return Request(str(file), target, model=model, table=settings, priors=given, formulas=further)


def scanned(folder, *words, said=lambda line: None):
    """What a scan finds of a folder, in this process."""

    def in_turn(look, groups, words):
        return [mappers.run_group(look, group).result for group in groups]

    request = asked(folder, *words)
    shards, table, names = many_files._asked(request)
    scan = Scan(Inputs(request, shards, names, table, in_turn, said), 0)
    pilot = scan.pilot()
    task, family = many_files._model(request, table, pilot.y)
    return scan.run(pilot, scan.encoding(pilot, task, family), family)


def both(tmp_path, case):
    """A scan's find, and the posterior of the table in memory."""
    table = columns()
    found = scanned(write(tmp_path / "shards", table), *CASES[case])
    parquet.write_table(pyarrow.table(table), tmp_path / "one.parquet")
    post = question.of(asked(tmp_path / "one.parquet", *CASES[case])).posterior
    return found, post


def apart(found, post):
    """By how much more than chance a scan's weights differ from those by all rows: 1 is as chance may have
    it. Where all rows came, weights are even, and both densities are one."""
    if found.answer.travelled:
        return against_all_rows(found, post)[0].max() / 3.5
    x = found.answer.found.x
    return (post.log_density(x) - found.posterior.log_density(x)).std() / 1e-4


@pytest.mark.thorough(but=(FIRST, SECOND))
@pytest.mark.parametrize("case", CASES)
def test_weights_are_those_of_the_table_in_memory(tmp_path, case):
    found, post = both(tmp_path, case)
    x = found.answer.found.x
    assert found.posterior.size == post.size
    np.testing.assert_allclose(post.log_prior(x), found.posterior.log_prior(x), rtol=1e-6, atol=1e-5)
    assert apart(found, post) < 1.0
    if found.answer.travelled:
        variance = against_all_rows(found, post)[1]
        assert found.answer.variance == pytest.approx(variance, rel=0.35, abs=0.003)


def all_seen(post):
    """Each target taken for seen, and each row for watched from the start."""
    trials = post.rows.trials.copy()
    trials[:, 0], trials[:, 3] = 0.0, -np.inf
    return replace(post.rows, trials=trials)


def other_rows_columns(post):
    """A parameter's columns of other rows."""
    designs = [its and its.take(np.arange(N)[::-1]) for its in post.rows.designs]
    return replace(post.rows, designs=tuple(designs))


@pytest.mark.thorough(but=SECOND)
@pytest.mark.parametrize(
    ("case", "wrong"),
    [(SECOND, other_rows_columns), ("weibull, censored", all_seen), ("truncated", all_seen)],
)
def test_another_likelihood_is_seen(tmp_path, case, wrong):
    found, post = both(tmp_path, case)
    post.rows = wrong(post)
    assert apart(found, post) > 2.0


@pytest.mark.thorough
def test_usual_priors_in_place_of_chosen_ones_are_seen(tmp_path):
    found, post = both(tmp_path, "priors of a slope")
    formulas, model, _ = CASES["priors of a slope"]
    usual = question.of(asked(tmp_path / "one.parquet", formulas, model, {})).posterior
    assert apart(found, usual) > 2.0
    assert apart(found, post) < 1.0


@pytest.mark.thorough
def test_a_fit_of_many_files_is_read_predicted_and_summarised_as_that_of_one(tmp_path):
    table = columns()
    folder, one = str(write(tmp_path / "shards", table)), pd.DataFrame(table)
    formulas, chosen = ["zeros ~ x", "zi ~ z"], {"zi[z]": "laplace(0, 0.1)"}
    many = flyrun.fit(folder, formulas, model="zero_inflated_poisson", priors=chosen)
    few = flyrun.fit(one, formulas, model="zero_inflated_poisson", priors=chosen)
    assert many.priors["prior"].to_dict() == few.priors["prior"].to_dict()
    found, known = many.summary(), few.summary()
    assert found.index.tolist() == known.index.tolist()
    assert ((found["mean"] - known["mean"]) / known["sd"]).abs().max() < 0.12
    new = one.head(5)[["x", "z"]]
    assert many.predict(new)["mean"].to_numpy() == pytest.approx(few.predict(new)["mean"], rel=0.02)


@pytest.mark.parametrize(
    ("formulas", "model", "priors", "message"),
    [
        (["zeros ~ x", "sigma ~ z"], "zero_inflated_poisson", {}, "no parameter of this name.*there are zi"),
        (["zeros", "zi ~ z"], "zero_inflated_poisson", {}, "beside a formula of the target"),
        (["zeros ~ x", "zi ~ z + offset(z)"], "zero_inflated_poisson", {}, "its offset is not for a scan"),
        (["zeros ~ C(tries)", "zi ~ tries"], "zero_inflated_poisson", {}, "category in one formula and"),
        (["zeros ~ x", "zi ~ q"], "zero_inflated_poisson", {}, "names q, which is no column"),
        (["Surv(time, seen) ~ x"], "tweedie", {}, "choose model="),
        (["number | trunc(low, x) ~ z"], "gaussian", {}, "the upper end in trunc.*write them as one file"),
        (["zeros ~ x"], "zero_inflated_poisson", {"zi": "gamma(1, 1)"}, "zi is a chance; choose one of"),
        (["zeros ~ x"], "zero_inflated_poisson", {"z": "normal(0, 1)"}, "nothing is called 'z'"),
    ],
)
def test_what_a_scan_does_not_take_is_refused(tmp_path, formulas, model, priors, message):
    folder = str(write(tmp_path / "shards", columns()))
    with pytest.raises(ConfigError, match=message):
        flyrun.fit(folder, formulas, model=model, priors=priors)


def test_rows_that_would_not_be_there_are_refused(tmp_path):
    table = columns()
    table["low"] = np.where(np.arange(N) == N - 1, table["number"] + 1.0, table["low"])
    with pytest.raises(DataError, match="low is not below number"):
        flyrun.fit(str(write(tmp_path / "shards", table)), "number | trunc(low) ~ x", model="gaussian")


@pytest.mark.thorough
def test_flat_is_refused_where_rows_do_not_bound_the_coefficient(tmp_path):
    table = columns()
    table["yes"] = (table["x"] > 0.1).astype(np.int8)
    with pytest.raises(ConfigError, match=r"x: flat.*no posterior"):
        flyrun.fit(
            str(write(tmp_path / "shards", table)), "yes ~ x", priors={"x": "flat", "intercept": "flat"}
        )


@pytest.mark.slow
def test_a_skewed_posterior_is_of_all_rows(tmp_path, monkeypatch):
    """Second order knows no tail of a chance that few rows tell; without the bound an sd is wrong."""
    rng = np.random.default_rng(1)
    x, z = rng.normal(size=4_000), rng.normal(2.0, 3.0, size=4_000)
    mean = np.exp(0.3 + 0.4 * x - 0.1 * z) * rng.gamma(2.0, 0.5, 4_000)
    table = {"x": x, "z": z, "y": (rng.random(4_000) > 0.3) * rng.poisson(mean)}
    words = ["y ~ x", "zi ~ z"], "zero_inflated_negative_binomial", {}
    folder = write(tmp_path / "shards", table)
    found = scanned(folder, *words)
    monkeypatch.setattr(stages, "_SKEWED", 1.0)
    other = scanned(folder, *words)
    assert other.answer.core < 4_000
    sds = [np.sqrt(np.diag(one.answer.found.moments()[1])) for one in (found, other)]
    assert found.answer.core == 4_000
    assert np.abs(sds[1] / sds[0] - 1.0).max() > 0.06


def test_groups_of_a_parameter_are_refused_in_a_scan_with_what_helps(tmp_path):
    folder = write(
        tmp_path / "t", {"x": np.arange(8.0), "y": np.arange(8.0) ** 2, "g": np.array(["a", "b"] * 4)}
    )
    with pytest.raises(ConfigError, match=r"sigma ~ \(1 \| g\): groups .* write C\(g\)"):
        flyrun.fit(str(folder), ["y ~ x", "sigma ~ (1 | g)"], model="gaussian")
