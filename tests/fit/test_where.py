"""`--where`: which rows are used, of one table, of a scan and of predictions; what is refused."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from flyrun.cli.main import main
from flyrun.fitting.scan import row_groups, table_files
from flyrun.ground.errors import ConfigError, DataError
from flyrun.tables import row_filter

pytestmark = pytest.mark.usefixtures("no_figures")
ROWS = "year >= 2023 and region in ('north', 'west')"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def table(n=400):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"x": rng.normal(size=n).round(4), "region": rng.choice(["north", "south", "west"], n)}
    )
    frame["year"] = rng.integers(2021, 2025, n)
    return frame.assign(y=(frame.x + rng.normal(size=n)).round(4))


def coefficients(name):
    fit = json.loads(Path(f"results/runs/{name}/fit.json").read_text("utf-8"))
    return {row["coefficient"]: (row["mean"], row["sd"]) for row in fit["coefficients"]}, fit


@pytest.mark.parametrize(
    ("text", "python"),
    [
        (ROWS, lambda f: (f.year >= 2023) & f.region.isin(["north", "west"])),
        (
            'year == 2022 or x<-1.5e-1 and region != "north"',
            lambda f: (f.year == 2022) | ((f.x < -0.15) & (f.region != "north")),
        ),
        (
            "(year == 2022 or x < 0) and region not in ('north', 'none')",
            lambda f: ((f.year == 2022) | (f.x < 0)) & (f.region != "north"),
        ),
        ("`region` == 'south'", lambda f: f.region == "south"),
        ("region=south", lambda f: f.region == "south"),
        ("year == '2022'", lambda f: f.year == 2022),
        ("day >= '2024-02-01' and day < '2024-03-01'", lambda f: f.day.str.startswith("2024-02")),
        ("when > '2024-02-28 23:00'", lambda f: f.when > pd.Timestamp("2024-02-28 23:00")),
        ("when == '2024-02-28'", lambda f: f.when.dt.strftime("%Y-%m-%d") == "2024-02-28"),
    ],
)
def test_rows_are_those_of_pandas(text, python):
    frame = table()
    when = pd.Timestamp("2024-01-15") + pd.to_timedelta(np.arange(400) * 6, "h")
    frame = frame.assign(when=when, day=when.strftime("%Y-%m-%d"))
    kept = row_filter.read(text).mask(frame, "t")
    assert 0 < kept.sum() < 400
    np.testing.assert_array_equal(kept, python(frame))


def test_a_row_that_lacks_a_value_is_none_of_a_comparison():
    frame = pd.DataFrame({"a": [1.0, np.nan, 3.0], "w": ["u", None, "v"]})
    for text in ("a != 1", "a > 1", "a not in (1, 2)", "w != 'u'"):
        assert row_filter.read(text).mask(frame, "t").tolist() == [False, False, True]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("year >= x", "write 'x'"),
        ("year = 2022 or x > 1", "compares with =; write =="),
        ("year", "ends where a comparison"),
        ("year > 3 x", "goes on with 'x'"),
        ("2022 < year", "write the column first"),
        ("year in 2022", "write year in (2022, 2023)"),
        ("(year > 3", "lacks a closing bracket"),
        ("year in (2022, 'x')", "numbers and words"),
        ("__import__('os')", "compare with =="),
        ("year > 3; x", "no part of a comparison"),
        ("", "ends where a column"),
    ],
)
def test_what_is_no_comparison_is_refused(text, fault):
    with pytest.raises(ConfigError, match="--where") as refused:
        row_filter.read(text)
    assert fault in str(refused.value)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("region > 2", "it holds 'south'"),
        ("year > 'a'", "dates are compared"),
        ("year > '2023-01'", "holds no dates"),
    ],
)
def test_what_a_column_does_not_hold_is_refused(text, fault):
    with pytest.raises(DataError, match=fault):
        row_filter.read(text).mask(table(), "t")


@pytest.mark.thorough
def test_one_file_is_fitted_as_its_rows_alone(capsys):
    frame = table()
    frame.to_csv("t.csv", index=False)
    frame[(frame.year >= 2023) & (frame.region != "south")].to_csv("u.csv", index=False)
    words = ["y ~ x + region", "--quiet"]
    assert main(["fit", "t.csv", *words, "--where", ROWS]) == 0
    assert main(["fit", "u.csv", *words]) == 0
    some, fit = coefficients("t")
    assert some == coefficients("u")[0]
    assert fit["settings"]["dataset"]["where"] == ROWS
    assert f"rows of 400, where {ROWS}" in fit["lines"][0]
    assert main(["fit", "t.csv", *words, "--where", "year < 2023"]) == 2  # another fit under this name
    capsys.readouterr()
    for file, more in (("t.csv", ["--where", ROWS]), ("u.csv", [])):
        assert main(["predict", "t", file, *more]) == 0
    both = capsys.readouterr().out.split("row,mean,sd,low,high\n")[1:]
    first, other = ([line.partition(",")[2] for line in text.splitlines()] for text in both)
    assert first == other
    assert main(["compare", "t", "t"]) == 0  # rows are read again
    assert "elpd" in capsys.readouterr().out


@pytest.mark.thorough
def test_groups_and_levels_are_of_these_rows():
    frame = table()
    frame.to_csv("t.csv", index=False)
    frame[frame.year >= 2023].to_csv("u.csv", index=False)
    for name, more in (("t", ["--where", "year >= 2023"]), ("u", [])):
        assert main(["fit", f"{name}.csv", "y ~ x + (1 | region)", "--quiet", *more]) == 0
        assert (
            main(["fit", f"{name}.csv", "y ~ x", "--by", "region", "--name", f"by_{name}", "--quiet", *more])
            == 0
        )
    assert coefficients("t")[0] == coefficients("u")[0]
    assert coefficients("by_t-west")[0] == coefficients("by_u-west")[0]


def test_a_scan_reads_the_partitions_alone_that_have_such_rows(monkeypatch, capsys):
    pytest.importorskip("pyarrow")
    frame = table(1_200)
    frame.to_parquet("whole", partition_cols=["year"], row_group_size=100, index=False)
    frame[(frame.year >= 2023) & (frame.region != "south")].to_parquet("some.parquet", index=False)
    opened = []
    usual = table_files.addresses.opened
    monkeypatch.setattr(table_files.addresses, "opened", lambda path: opened.append(path) or usual(path))
    words = ["y ~ x + region", "--model", "gaussian", "--quiet"]
    assert main(["fit", "whole", *words, "--where", ROWS]) == 0
    assert opened
    assert not [path for path in opened if "year=2021" in path or "year=2022" in path]
    assert main(["fit", "some*.parquet", *words, "--name", "some"]) == 0
    (some, fit), (alone, _) = coefficients("whole"), coefficients("some")
    for name, (mean, sd) in some.items():
        assert mean == pytest.approx(alone[name][0], abs=0.05 * sd)
        assert sd == pytest.approx(alone[name][1], rel=0.05)
    rows = int(((frame.year >= 2023) & (frame.region != "south")).sum())
    assert fit["layout"]["rows"] == rows
    assert f"2 files of 4, {rows:,} rows of" in fit["lines"][0]
    assert sum(file["rows"] for file in fit["scan"]["files"]) == rows
    assert fit["layout"]["sources"][1]["levels"] == ["north", "west"]
    # a model that is not of sums of products alone, with rows that travel
    binary = frame.assign(y=(frame.y > 0).astype(int))
    binary.to_parquet("binary", partition_cols=["year"], row_group_size=100, index=False)
    binary[binary.region != "south"].to_parquet("b.parquet", index=False)
    words = ["y ~ x", "--model", "logistic", "--quiet"]
    assert main(["fit", "binary", *words, "--where", "region != 'south'"]) == 0
    assert main(["fit", "b*.parquet", *words, "--name", "b"]) == 0
    (some, _), (alone, _) = coefficients("binary"), coefficients("b")
    for name, (mean, sd) in some.items():
        assert mean == pytest.approx(alone[name][0], abs=0.1 * sd)
        assert sd == pytest.approx(alone[name][1], rel=0.1)


def test_row_groups_without_such_rows_are_not_looked_at_again(monkeypatch):
    pytest.importorskip("pyarrow")
    frame = table(1_000).sort_values("year")
    Path("d").mkdir()
    frame.to_parquet("d/a.parquet", row_group_size=50, index=False)
    seen, usual = [], row_groups.parts

    def parts(block, *rest):
        seen.append(block.group)
        return usual(block, *rest)

    monkeypatch.setattr("flyrun.fitting.scan.block_sums.parts", parts)
    assert main(["fit", "d", "y ~ x", "--model", "gaussian", "--quiet", "--where", "year == 2021"]) == 0
    years = [frame.year.iloc[50 * k : 50 * k + 50] for k in range(20)]
    assert sorted(set(seen)) == [k for k in range(20) if (years[k] == 2021).any()]
    assert len(set(seen)) < 8


def test_refusals_of_files_name_what_there_is_and_remedies_work(capsys):
    pytest.importorskip("pyarrow")
    table().to_parquet("whole", partition_cols=["year"], index=False)
    words = ["fit", "whole", "y ~ x", "--model", "gaussian", "--quiet", "--where"]
    for text, said in (
        ("year > 2030", "year: 2021, 2022, 2023 and 2024"),
        ("region == 'nowhere'", "none of 400 rows"),
        ("regio == 'north'", "did you mean region?"),
    ):
        assert main([*words, text]) == 2
        error = capsys.readouterr().err
        assert said in error
        assert error.count("\n") == 1
    assert main([*words, "region == north"]) == 2
    remedy = capsys.readouterr().err.split("write ")[1].strip()
    assert main([*words, f"region == {remedy}"]) == 0
    assert (
        main(shlex.split("fit whole 'y ~ x' --model gaussian --quiet --check --where 'year = 2022 or x > 1'"))
        == 2
    )


def test_groups_of_a_scan_are_of_these_rows():
    pytest.importorskip("pyarrow")
    frame = table(900).assign(broker=np.arange(900) % 30)
    frame = frame.assign(broker="b" + frame.broker.astype(str))
    frame.to_parquet("whole", partition_cols=["year"], row_group_size=100, index=False)
    chosen = frame[(frame.year >= 2023) & (frame.region != "south") & (frame.broker != "b7")]
    chosen.to_parquet("some.parquet", index=False)
    words = ["y ~ x + (1 | broker)", "--model", "gaussian", "--quiet"]
    assert main(["fit", "whole", *words, "--where", f"{ROWS} and broker != 'b7'"]) == 0
    assert main(["fit", "some*.parquet", *words, "--name", "some"]) == 0
    (some, fit), (alone, other) = coefficients("whole"), coefficients("some")
    for name, (mean, sd) in some.items():
        assert mean == pytest.approx(alone[name][0], abs=0.1 * sd)
    assert [group["levels"] for group in fit["groups"]] == [group["levels"] for group in other["groups"]]


def test_rows_that_are_not_used_may_hold_what_a_scan_refuses(capsys):
    pytest.importorskip("pyarrow")
    frame = table(600).assign(years=1.0)
    frame.loc[[7, 400], ["x", "years"]] = [1e200, -1.0]
    frame["used"] = np.isin(np.arange(600), [7, 400], invert=True).astype(int)
    (Path.cwd() / "rows").mkdir()
    for k, part in enumerate(np.array_split(np.arange(600), 2)):
        frame.iloc[part].to_parquet(f"rows/{k}.parquet", index=False)
    frame[frame.used == 1].to_parquet("alone.parquet", index=False)
    words = ["y ~ x", "--model", "gaussian", "--quiet"]
    assert main(["fit", "rows", *words, "--where", "used == 1", "--weights", "years"]) == 0
    assert main(["fit", "alone*.parquet", *words, "--name", "alone"]) == 0
    (some, _), (alone, _) = coefficients("rows"), coefficients("alone")
    assert all(pair == pytest.approx(alone[name], rel=1e-9) for name, pair in some.items())
    # where such rows are used they are named, and nothing else is said
    capsys.readouterr()
    assert main(["fit", "rows", *words, "--where", "used < 2", "--name", "all"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    of_either = r"rows/(0.parquet: row group 0, row 7|1.parquet: row group 0, row 100), column x is 1e\+200"
    assert re.search(of_either, line)
