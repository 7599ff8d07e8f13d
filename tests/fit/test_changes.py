"""`flyrun compare` of two fits of other rows: which coefficients moved, and what changed in the data."""

import csv
import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from flyrun.cli.main import main
from flyrun.fitting import changes

pytestmark = pytest.mark.usefixtures("no_figures")


def month(seed, n=500, slope=0.5, regions=("north", "south", "west"), high=1.0, share=0.33):
    """A table of a month: a number that explains with a slope, and a category."""
    rng = np.random.default_rng(seed)
    region = rng.choice(list(regions), n, p=[share, *[(1 - share) / (len(regions) - 1)] * (len(regions) - 1)])
    x = rng.uniform(-1.0, high, n)
    y = 2.0 + slope * x + 0.3 * (region == "south") + rng.normal(size=n)
    return pd.DataFrame({"y": y.round(4), "x": x.round(4), "region": region})


def fitted(name, frame, *words):
    frame.to_csv(f"{name}.csv", index=False)
    assert main(["fit", f"{name}.csv", "y ~ x + region", "--quiet", *words]) == 0


def compared(*words):
    code = main(["compare", *words, "--out", "c.csv"])
    rows = list(csv.DictReader(Path("c.csv").read_text("utf-8").splitlines()))
    return code, {row["coefficient"] or (row["column"], row["what"]): row for row in rows}


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.thorough
def test_a_slope_that_moved_is_named_and_one_that_did_not_is_not(here, capsys):
    fitted("last", month(1))
    fitted("this", month(2, slope=1.5, high=2.0))
    fitted("alike", month(3))
    code, rows = compared("last", "this", "--fail-on", "moved")
    assert (code, rows["x"]["verdict"]) == (1, "moved")
    a, b = (json.loads(Path(f"results/runs/{name}/fit.json").read_text("utf-8")) for name in ("last", "this"))
    sds = [next(row for row in fit["coefficients"] if row["coefficient"] == "x") for fit in (a, b)]
    off = (sds[1]["mean"] - sds[0]["mean"]) / math.hypot(sds[0]["sd"], sds[1]["sd"])
    assert float(rows["x"]["sds"]) == pytest.approx(off)
    assert rows["region[south]"]["verdict"] == ""
    assert rows["x", "range"]["change"].startswith("up to")
    assert rows["x", "mean ± sd"]["changed"] == "True"
    assert rows["region", "levels"]["changed"] == "False"
    said = capsys.readouterr().out
    assert "! 1 of 6 moved" in said
    assert "independent fits" in said
    code, rows = compared("last", "alike", "--fail-on", "moved")  # the control: nothing moved
    assert code == 0
    assert not [row for row in rows.values() if row["verdict"] or row["changed"] == "True"]


@pytest.mark.thorough
def test_levels_missing_values_and_shares_are_compared(here):
    frame = month(1)
    fitted("last", frame)
    other = month(2, regions=("north", "south", "east", "far"), share=0.6)
    fitted("this", other.assign(x=other.x.where(np.arange(500) % 5 > 0)), "--missing", "drop")
    _, rows = compared("last", "this", "--all")
    assert rows["region", "levels"]["change"] == "came east and far; went west"
    assert rows["x", "missing"]["b"] == "100 (20.00%)"
    assert rows["", "left out for a missing value"]["b"] == "100 (20.00%)"
    assert rows["", "rows"]["change"] == "-20.0%"
    count = int((other.region[np.arange(500) % 5 > 0] == "far").sum())
    assert rows["region", "far"]["b"].startswith(f"{count} (")
    # the reference was north, and is east: its coefficients are differences from something else
    assert {rows[name]["verdict"] for name in ("region[south]", "intercept")} == {"not compared"}
    assert rows["x"]["verdict"] == ""


@pytest.mark.thorough
def test_the_remedy_for_another_reference_works_as_it_is_printed(here, capsys):
    fitted("last", month(1, regions=("b", "south", "west")))
    fitted("this", month(2, regions=("a", "b", "south")))
    assert compared("last", "this")[1]["region[south]"]["verdict"] == "not compared"
    said = capsys.readouterr().out
    remedy = said.partition("fit both with ")[2].split("\n")[0].split()
    assert remedy == ["--reference", "region=b"]
    fitted("last", month(1, regions=("b", "south", "west")), *remedy, "--fresh")
    fitted("this", month(2, regions=("a", "b", "south")), *remedy, "--fresh")
    assert compared("last", "this")[1]["region[south]"]["sds"]


def test_rows_that_both_fits_have_make_differences_smaller():
    """Means of months that share rows: their difference's sd, over tables, is as it is told."""
    rng, n, shared = np.random.default_rng(4), 60, 40
    y = rng.normal(size=(20_000, 2 * n - shared))
    a, b = y[:, :n].mean(axis=1), y[:, n - shared :].mean(axis=1)
    sides = [{("", "intercept"): {"mean": 0.0, "sd": 1.0 / math.sqrt(n)}}] * 2
    (row,) = changes._coefficients(sides, shared / n, ())
    assert row["sd"] == pytest.approx((b - a).std(), rel=0.03)
    (alone,) = changes._coefficients(sides, 0.0, ())  # the control
    assert alone["sd"] > 1.5 * (b - a).std()


def test_months_of_files_say_what_they_share(here, capsys):
    pytest.importorskip("pyarrow")
    for k in range(4):
        frame = month(k, 400)
        frame = frame.assign(x=frame.x.where(np.arange(400) % 50 > 0)) if k == 3 else frame
        frame.to_parquet(f"m{k}.parquet", index=False)
    for name, files in (("last", "m[012].parquet"), ("this", "m[123].parquet"), ("alone", "m[3].parquet")):
        words = ["y ~ x + region", "--model", "gaussian", "--missing", "drop", "--name", name, "--quiet"]
        assert main(["fit", files, *words]) == 0
    _, rows = compared("last", "this", "--all")
    said = capsys.readouterr().out
    assert "800 rows, of files that are in both" in said
    assert "correlation to be 0.67" in said
    assert rows["x", "missing"]["b"] == "8 (0.67%)"
    frames = [pd.read_parquet(f"m{k}.parquet") for k in range(3)]
    count = int((pd.concat(frames).region == "south").sum())
    assert rows["region", "south"]["a"].startswith(f"{count} (")
    assert rows["x", "range"]["a"].startswith(f"{min(frame.x.min() for frame in frames):.3f}")
    assert compared("last", "alone")[0] == 0
    assert "no file is in both" in capsys.readouterr().out
    _, rows = compared("last", "last")
    assert "both are of the same rows" in capsys.readouterr().out
    assert not rows["x"]["sds"]


@pytest.mark.thorough
def test_what_does_not_compare_is_refused(here, capsys):
    frame = month(1)
    fitted("last", frame)
    frame.assign(y=frame.y**2 + 0.1).to_csv("u.csv", index=False)
    assert main(["fit", "u.csv", "log(y) ~ x + region", "--quiet"]) == 0
    for words, why in (
        (["last", "u"], "has the target y"),
        (["last", "u", "--by", "region"], "--by leaves out rows of one file"),
        (["last", "u", "--fail-on", "worse"], "write --fail-on moved"),
        (["last", "last", "--out", "c.csv"], "both fits are of one file"),
    ):
        assert main(["compare", *words]) == 2
        error = capsys.readouterr().err
        assert why in error
        assert error.count("\n") == 1


@pytest.mark.thorough
def test_parts_of_one_file_are_compared(here):
    month(1, slope=0.0).assign(y=lambda rows: rows.y + 2.0 * rows.x.clip(0)).to_csv("t.csv", index=False)
    for name, where in (("low", "x < 0"), ("high", "x >= 0")):
        assert main(["fit", "t.csv", "y ~ x", "--quiet", "--name", name, "--where", where]) == 0
    _, rows = compared("low", "high", "--all")
    assert rows["x"]["verdict"] == "moved"
    assert int(rows["", "rows"]["a"]) + int(rows["", "rows"]["b"]) == 500


def test_groups_that_moved_are_named_and_others_are_not(here, capsys):
    """All effects and coefficients are one family of tests."""
    rng, g = np.random.default_rng(5), np.repeat(np.arange(30), 40)
    effects = rng.normal(size=30)
    for name, moved in (("last", 0.0), ("this", 2.5)):
        effects[7] += moved
        y = effects[g] + rng.normal(size=len(g))
        pd.DataFrame({"y": y.round(4), "g": [f"g{k}" for k in g]}).to_csv(f"{name}.csv", index=False)
        assert main(["fit", f"{name}.csv", "y ~ 1 + (1 | g)", "--quiet"]) == 0
    _, rows = compared("last", "this", "--all")
    assert [name for name, row in rows.items() if row["verdict"] == "moved"] == ["intercept of g g7"]
    tested = [row for row in rows.values() if row["sds"]]
    assert len(tested) == 33  # intercept, sigma, sd(g) and 30 effects
    assert f"1 of {len(tested)} moved" in capsys.readouterr().out
    assert all(abs(float(row["sds"])) < 3.0 for row in tested if row["coefficient"] != "intercept of g g7")
