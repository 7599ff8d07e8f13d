"""Columns that are no features: offsets, exposures, trials and weights, from a file to a dataset."""

import re

import numpy as np
import pandas as pd
import pytest

from flyrun.cli.main import main
from flyrun.cli.verbs.fit import parse
from flyrun.experiments import data
from flyrun.ground.errors import ConfigError, DataError
from flyrun.tables import loader
from flyrun.tables import pieces as table_files

N = 40


@pytest.fixture(autouse=True)
def apart(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLYRUN_CACHE", str(tmp_path / "cache"))


def frame(**columns):
    rng = np.random.default_rng(0)
    found = pd.DataFrame({"x": rng.normal(size=N).round(3), "g": rng.choice(list("abc"), N)})
    found = found.assign(y=rng.integers(0, 2, N), w=rng.integers(0, 4, N), years=rng.uniform(0.5, 9, N))
    return found.assign(**columns)


def loaded(table, *words):
    """What `flyrun fit` reads of the table."""
    table.to_csv("mine.csv", index=False)
    return data.load(parse(["mine.csv", "--target", "y", *words]).typed_table)


def refused(table, *words):
    with pytest.raises((DataError, ConfigError)) as error:
        loaded(table, *words)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("mapped", [False, True])
def test_they_are_no_features_and_come_with_their_rows(mapped, monkeypatch):
    """In pieces, mapped from the cache, and from the cache again."""
    monkeypatch.setattr(table_files, "_CELLS", 1)
    if mapped:
        monkeypatch.setattr(loader, "IN_MEMORY", 0)
    table = frame(w=np.r_[np.nan, np.arange(1, N)])
    for _ in range(2):
        rows = loaded(table, "--weights", "w", "--exposure", "years", "--missing", "drop")
        assert rows.feature_names == ("x", "g[b]", "g[c]", "intercept")
        np.testing.assert_array_equal(rows.weights, table.w[1:])
        np.testing.assert_allclose(rows.offset, np.log(table.years[1:]), rtol=1e-15)
        np.testing.assert_array_equal(rows.target, 2.0 * table.y[1:] - 1.0)
        assert rows.trials is None
    assert loaded(table[1:], "--weights", "w", "--rows", "7").weights.tolist() == [1, 2, 3, 4, 5, 6, 7]


def test_their_names_are_part_of_what_is_kept(monkeypatch):
    """Another column of the same file is another dataset; no role leaves old keys as they were."""
    monkeypatch.setattr(loader, "IN_MEMORY", 0)
    table = frame(v=np.arange(N) % 5)
    one, other = (loaded(table, "--weights", name) for name in "wv")
    assert (one.weights != other.weights).any()
    assert "v" in one.feature_names
    settings = parse(["mine.csv", "--target", "y"]).typed_table.key_settings()
    assert not {"offset", "exposure", "trials", "weights"} & settings.keys()


def test_moments_are_those_of_the_rows_written_out():
    """A row of weight w is w rows: columns are standardised as in the long table; of weight 0 it is none."""
    table = frame(y=np.arange(N) ** 1.5)
    long = table.loc[table.index.repeat(table.w)].reset_index(drop=True)
    assert len(long) != N
    short, written = loaded(table, "--weights", "w"), loaded(long, "--drop", "w")
    np.testing.assert_allclose(
        np.repeat(short.features, table.w, axis=0), written.features, rtol=1e-12, atol=1e-12
    )
    np.testing.assert_allclose(np.repeat(short.target, table.w), written.target, rtol=1e-12, atol=1e-12)
    assert (short.info["layout"]["copies"], short.info["rows"]) == (len(long), N)
    plain = loaded(table, "--drop", "w")  # the control: rows that count once each have others
    assert abs(np.repeat(plain.features, table.w, axis=0) - written.features).max() > 1e-3


def test_trials_make_successes_of_the_target():
    rows = loaded(frame(y=np.arange(N) % 3, w=2 + np.arange(N) % 5), "--trials", "w")
    assert rows.task == "successes"
    np.testing.assert_array_equal(rows.trials, 2 + np.arange(N) % 5)
    np.testing.assert_array_equal(rows.target, np.arange(N) % 3)


def at(row, value, column=None):
    """w, or another column, with one value replaced."""
    values = frame()[column or "w"].astype(float) + 1.0
    values[row] = value
    return values


@pytest.mark.parametrize(
    ("columns", "words", "said"),
    [
        ({"w": at(7, -1)}, ["--weights", "w"], r"row 7 \(line 9 .*weights w is -1, but weights are whole n"),
        ({"w": at(7, 0.5)}, ["--weights", "w"], r"w is 0\.5.*precision weights.* leave --weights out"),
        ({"w": 0}, ["--weights", "w"], r"weights w is 0 in every row, .*name another column with --weights"),
        ({"w": "many"}, ["--weights", "w"], r"weights w holds text, 'many' in row 0 .*with --weights$"),
        ({"w": at(3, np.inf)}, ["--offset", "w"], r"row 3 .*column w is inf; mend it"),
        ({"w": at(3, np.nan)}, ["--offset", "w"], r"row 3 .*w has no value.* with --offset, or leave such"),
        ({"years": at(2, 0, "years")}, ["--exposure", "years"], r"exposure years is 0, but .* above 0; mend"),
        ({"w": at(2, -3)}, ["--trials", "w"], r"trials w is -3, but trials are whole numbers from 0"),
        ({"w": at(2, 0)}, ["--trials", "w"], r"row 2 .*target y is 1, but successes are at most the trials"),
        ({}, ["--weights", "wt"], r"--weights: mine.csv has no column 'wt' \(did you mean w\?\)"),
        ({}, ["--weights", "w", "--drop", "w"], r"--drop: w is the weights; leave it out there"),
        ({}, ["--weights", "w", "--features", "x,w"], r"--features: w is the weights; leave it out there"),
        ({}, ["--weights", "y"], r"--weights: y is the target; name another column with --weights"),
        ({}, ["--trials", "w", "--weights", "w"], r"--weights: w is the trials; name another column"),
        ({}, ["--offset", "w", "--exposure", "years"], r"--exposure: its log is an offset, as --offset is"),
        ({}, ["--trials", "w", "--model", "logistic"], r"choose --model binomial, or leave --trials out"),
        ({}, ["--trials", "w", "--model", "probit"], r"choose --model binomial, or leave --trials out"),
        ({"y": ["a", "b"] * 20}, ["--trials", "w", "--model", "softmax"], r"has them; leave --trials out"),
        ({}, ["--offset", "w", "--model", "softmax"], r"which take no offset; leave --offset out"),
    ],
)  # fmt: skip
def test_what_they_cannot_be_is_refused_in_one_line(columns, words, said):
    table = frame(**columns)
    if "--trials" in words and "w" in columns:
        table["y"] = np.minimum(table.y, 1) | (np.arange(N) == 2)
        table["w"] = np.maximum(table.w, 1).where(np.arange(N) != 2, table.w)
    assert re.search(said, refused(table, *words)), refused(table, *words)


def test_a_model_without_them_does_not_fit_as_if_they_were_not_there(capsys):
    frame().to_csv("mine.csv", index=False)
    words = ["dataset=table", "dataset.path=mine.csv", "dataset.target=y", "dataset.weights=w", "name=none"]
    assert main([*words, "model=probit", "sampler=mala", "bound=none", "protocol=smoke"]) == 2
    said = capsys.readouterr().err
    assert "dataset.weights: model=probit takes no weights; leave it out: `flyrun fit` takes it\n" in said


@pytest.mark.parametrize(("role", "of"), [("offset", np.array), ("exposure", np.log)])
def test_an_offset_is_in_the_unit_of_a_standardised_target(role, of):
    rows = loaded(frame(y=np.arange(N) ** 1.5), "--drop", "w", f"--{role}", "years")
    sd = rows.info["layout"]["target"]["sd"]
    assert sd > 10.0
    np.testing.assert_allclose(rows.offset * sd, of(frame().years), rtol=1e-12)


def test_check_says_what_they_are(capsys):
    frame().to_csv("mine.csv", index=False)
    assert main(["fit", "mine.csv", "--target", "y", "--weights", "w", "--exposure", "years", "--check"]) == 0
    said = capsys.readouterr().out
    assert "40 rows, standing for 70, 2 columns" in said
    assert "  w: number 0 … 3 (the weights, no feature)\n" in said
    assert re.search(r"  years: number 0\.\d+ … 8\.\d+ \(the exposure, no feature\)\n", said)
