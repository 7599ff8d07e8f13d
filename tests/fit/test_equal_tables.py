"""Tables that say the same in other words have one posterior: weights, exposures, trials; and rare events."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from flyrun.cli.verbs.fit import parse
from flyrun.families.family import family
from flyrun.fitting import engine, question
from flyrun.fitting.coefficient_prior import CoefficientPrior
from flyrun.fitting.column_scales import Scales


@pytest.fixture(autouse=True)
def apart(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLYRUN_CACHE", str(tmp_path / "cache"))


def posterior(table, name, *words):
    """What a fit of the table would draw from."""
    table.to_csv("mine.csv", index=False)
    task = f"dataset.task={family(name).target}"
    asked = question.of(parse(["mine.csv", "--target", "y", "--model", name, *words, task]))
    return asked.posterior, asked.layout


def answer(made):
    """Weighted draws and their means and sds."""
    found = engine.draw(made)
    assert not found.why
    mean, covariance = found.moments()
    return mean, np.sqrt(np.diag(covariance))


def people(n=120):
    rng = np.random.default_rng(3)
    x, z = rng.normal(40, 9, n).round(2), rng.integers(0, 2, n)
    years = rng.uniform(0.5, 6, n).round(3)
    rate = np.exp(0.4 + 0.03 * (x - 40) - 0.4 * z)
    return pd.DataFrame({"x": x, "z": z, "years": years, "y": rng.poisson(years * rate)})


def same(one, other, points=5):
    """Whether two posteriors are one density up to a constant, to rounding."""
    rng = np.random.default_rng(0)
    x = 0.3 * rng.standard_normal((points, one.size))
    values = one.log_density(x) - other.log_density(x)
    return np.ptp(values) < 1e-9 * abs(one.log_density(x)).max()


@pytest.mark.parametrize("name", ["poisson", "negative_binomial"])
def test_a_weight_of_two_is_the_file_twice(name):
    table = people()
    written = pd.concat([table, table], ignore_index=True)
    heavy, _ = posterior(table.assign(w=2), name, "--weights", "w", "--exposure", "years")
    twice, _ = posterior(written, name, "--exposure", "years")
    assert same(heavy, twice)
    np.testing.assert_allclose(answer(heavy), answer(twice), rtol=1e-6, atol=1e-8)  # the same random numbers
    assert not same(heavy, posterior(table, name, "--exposure", "years")[0])


def of(name, table, rng):
    """A target of a family, which depends on x."""
    eta = 0.08 * (table.x - 40)
    if name == "student_t":
        return (100 + 30 * eta + 9 * rng.standard_t(4, len(table))).round(3)
    noisy = eta + rng.logistic(size=len(table))
    return np.digitize(noisy, [-0.5, 0.5] if name == "softmax" else [0.0])


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("name", ["logistic", "probit", "softmax", "student_t"])
def test_rows_count_as_often_and_begin_where_they_are_said_to(name):
    table = people().assign(w=np.arange(120) % 4)
    table["y"] = of(name, table, np.random.default_rng(1))
    beside = [] if name == "softmax" else ["--exposure", "years"]
    written = table.loc[table.index.repeat(table.w)].drop(columns="w")
    heavy, _ = posterior(table, name, "--weights", "w", *beside)
    assert same(heavy, posterior(written, name, *beside)[0])
    assert not same(heavy, posterior(table.drop(columns="w"), name, *beside)[0])
    if beside:
        logs = table.assign(years=np.log(table.years))
        assert same(heavy, posterior(logs, name, "--weights", "w", "--offset", "years")[0])
        assert not same(heavy, posterior(table, name, "--weights", "w", "--offset", "years")[0])


def test_an_offset_of_numbers_is_in_their_unit():
    """It is what taking it off the target is, whatever the target's sd; sampled and in closed form."""
    rng = np.random.default_rng(2)
    table = people(400).drop(columns=["years"]).assign(o=30.0 * rng.standard_normal(400))
    table["y"] = of("student_t", table, rng) + table.o

    def told(table, *words):
        made, layout = posterior(table, "gaussian", *words)
        draws = Scales.of(layout).apply(engine.draw(made).x[:, : made.n_coefficients])
        return draws.mean(axis=0), draws.std(axis=0)

    (mean, sd), (off, _) = told(table, "--offset", "o"), told(table, "--features", "x,z")
    known, its = told(table.assign(y=table.y - table.o), "--features", "x,z")
    assert np.abs(mean - known).max() < 0.1 * its.min()
    np.testing.assert_allclose(sd, its, rtol=0.05)
    assert np.abs(off - known).max() > its.min()  # the control: the offset matters


def test_weights_of_several_sizes_are_rows_written_out():
    table = people().assign(w=np.arange(120) % 4)
    written = table.loc[table.index.repeat(table.w)].drop(columns="w")
    heavy, _ = posterior(table, "poisson", "--weights", "w", "--exposure", "years")
    assert same(heavy, posterior(written, "poisson", "--exposure", "years")[0])


def test_an_offset_is_the_log_of_an_exposure():
    table = people()
    logs = table.assign(years=np.log(table.years))
    one, _ = posterior(table, "poisson", "--exposure", "years")
    other, _ = posterior(logs, "poisson", "--offset", "years")
    assert same(one, other)
    assert not same(one, posterior(table, "poisson", "--offset", "years")[0])
    mean, sd = answer(one)
    np.testing.assert_allclose(mean[0] / sd[0], answer(other)[0][0] / answer(other)[1][0], rtol=1e-6)


def test_trials_are_rows_written_out():
    """n trials with y successes are y rows of 1 and n - y rows of 0, whatever n is in each row."""
    rng = np.random.default_rng(5)
    table = people(60).drop(columns="years")
    table["n"] = rng.integers(1, 7, 60)
    table["y"] = rng.binomial(table.n, expit(0.05 * (table.x - 40)))
    rows = [(x, z, int(k < y)) for x, z, y, n in table.itertuples(index=False) for k in range(n)]
    written = pd.DataFrame(rows, columns=["x", "z", "y"])
    assert same(posterior(table, "binomial", "--trials", "n")[0], posterior(written, "logistic")[0])
    fewer = table.assign(n=table.n + 1)
    assert not same(posterior(fewer, "binomial", "--trials", "n")[0], posterior(written, "logistic")[0])


@pytest.mark.parametrize(("n", "events"), [(1_000, 6), (200_000, 22)])
def test_rare_events_stay_rare(n, events):
    """Mean predicted over observed, within 3 %; a prior N(0, 2.5²) on the intercept would predict more."""
    rng = np.random.default_rng(0)
    x = (2.0 * rng.standard_normal((n, 2))).round() / 2.0
    chance = np.exp(0.5 * x[:, 0])
    table = pd.DataFrame(x, columns=["a", "b"]).assign(y=0)
    table.loc[rng.choice(n, events, replace=False, p=chance / chance.sum()), "y"] = 1
    short = table.groupby(["a", "b", "y"]).size().rename("w").reset_index()  # rows that are alike, as one
    made, _ = posterior(short, "logistic", "--weights", "w")

    def ratio():
        found = engine.draw(made)
        assert not found.why
        chances = expit(made.rows.features @ found.x.T) @ found.weights
        return made.rows.weights @ chances / events

    assert abs(ratio() - 1.0) < 0.03
    made.prior = CoefficientPrior(made.prior.mean, np.full(3, 2.5))  # the control
    assert ratio() > 1.04
