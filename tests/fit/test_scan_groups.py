"""Groups in a scan of many files: the answer is that of the same rows as one table."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from flyrun.cli.main import main
from flyrun.fitting.scan import grouped_scan, kept_sums, mappers, sums_by_cell
from flyrun.fitting.scan.block_sums import Products
from flyrun.fitting.scan.row_groups import tree
from flyrun.fitting.scan.sums_by_cell import Cells
from flyrun.ground import netcdf
from tests.fit.test_scan import write

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
GAUSSIAN = ("--model", "gaussian", "--quiet")
POISSON = ("--model", "poisson", "--quiet")


@pytest.fixture(autouse=True)
def _quick(tmp_path, monkeypatch):
    """No reports, in an empty folder."""
    monkeypatch.setattr("flyrun.fitting.second_process.report", lambda folder: None)
    monkeypatch.setattr("flyrun.ground.page.document.show", lambda *words: None)
    monkeypatch.chdir(tmp_path)


def grouped(n=1_500, groups=30, seed=0):
    """Columns of n rows in groups of text that cross a few numbers."""
    rng = np.random.default_rng(seed)
    g, h = rng.integers(0, groups, n), rng.integers(0, 4, n)
    x, z = rng.normal(2.0, 3.0, n), rng.normal(size=n)
    effects = rng.normal(size=(groups, 2)) * [0.8, 0.3]
    y = 1.0 + 0.5 * x - 0.2 * z + effects[g, 0] + effects[g, 1] * x + 0.6 * h + rng.normal(size=n)
    texts = np.array([f"g{k}" for k in range(groups)])[g]
    columns = {"x": x, "z": z, "g": texts, "h": h.astype(np.int32), "y": y}
    columns["count"] = rng.poisson(np.exp(0.1 * x + 0.5 * effects[g, 0])).astype(np.int32)
    return columns | {"hit": rng.random(n) < 1.0 / (1.0 + np.exp(-y + 2.0)), "times": rng.integers(1, 4, n)}


def both(columns):
    """The same rows as a folder and as one file."""
    write(Path("shards"), columns, group=200)
    parquet.write_table(pyarrow.table(columns), "one.parquet")


def fitted(name, place, formula, *words):
    """A fit's fit.json and its groups' effects."""
    assert main(["fit", place, formula, "--name", name, "--fresh", *(words or GAUSSIAN)]) == 0
    folder = Path("results/runs") / name
    return json.loads((folder / "fit.json").read_text()), pd.read_csv(folder / "groups.csv")


def apart(one, other):
    """By how many sds coefficients, and then effects, of two fits differ at most."""
    (fit, effects), (fit_of_other, effects_of_other) = one, other
    pairs = zip(fit["coefficients"], fit_of_other["coefficients"], strict=True)
    coefficients = max(abs(own["mean"] - its["mean"]) / own["sd"] for own, its in pairs)
    names = ["group", "level", "effect", "rows"]
    assert effects[names].equals(effects_of_other[names])
    return coefficients, float((abs(effects["mean"] - effects_of_other["mean"]) / effects["sd"]).max())


@pytest.mark.parametrize(
    "groups",
    [
        "(1 | g)",
        "(1 + x | g)",
        "(1 | g) + (1 | h)",
        pytest.param("(1 | h/g)", marks=pytest.mark.slow),
        pytest.param("(1 + x || g) + (1 + z | h)", marks=pytest.mark.slow),
    ],
)
def test_a_folder_gives_what_one_table_gives(groups):
    both(grouped())
    formula = f"y ~ x + z + {groups}"
    one, folder = fitted("one", "one.parquet", formula), fitted("folder", "shards", formula)
    chains = one[0]["chains"] > 0
    coefficients, effects = apart(one, folder)
    assert coefficients < (0.1 if chains else 1e-4)  # rows are float32 in a scan
    assert effects < (
        0.2 if groups == "(1 + x | g)" or chains else 1e-4
    )  # draws of effects are as many as fit
    assert folder[0]["settings"]["groups"] == one[0]["settings"]["groups"]


@pytest.mark.parametrize(
    ("formula", "words"),
    [
        ("count ~ x + (1 | g)", [*POISSON]),
        pytest.param("hit ~ x + z + (1 | g) + (1 | h)", ["--quiet"], marks=pytest.mark.thorough),
        pytest.param("y ~ x + (1 | g)", ["--model", "student_t", "--quiet"], marks=pytest.mark.slow),
        pytest.param("y ~ x + (1 | g)", [*GAUSSIAN, "--weights", "times"], marks=pytest.mark.thorough),
    ],
)
def test_rows_of_other_families_come_here(formula, words):
    both(grouped())
    one, folder = (
        fitted(name, place, formula, *words) for name, place in (("a", "one.parquet"), ("b", "shards"))
    )
    assert max(apart(one, folder)) < 1e-4
    if words[0] != "--model" or words[1] != "gaussian":
        assert max(apart(one, folder)) < 1e-8  # of the same float64 rows in the same order
        assert "all 1,500 rows came here" in " ".join(folder[0]["lines"])


@pytest.mark.thorough
def test_a_formula_of_the_noise_goes_with_groups():
    both(grouped())
    words = ["y ~ x + (1 | h)", "sigma ~ z", *GAUSSIAN]
    one, folder = (fitted(name, place, *words) for name, place in (("a", "one.parquet"), ("b", "shards")))
    assert max(apart(one, folder)) < 0.05  # chains of the same rows, whose last bits differ


def refused(capsys, *words):
    """The one line of a command that ends with exit code 2."""
    assert main(["fit", "shards", *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["y ~ x + (1 | gg)", *GAUSSIAN], "(1 | gg): gg is no column of the table; it has x, z, g, h, y"),
        (
            ["y ~ x + (1 + z | g)", *GAUSSIAN],
            "(1 + z | g): write z, a column of numbers, among the terms too",
        ),
        (["y ~ x + h + (1 | h)", *GAUSSIAN], "(1 | h): h is a term or the target too; leave it out of one"),
        (["y ~ x", "sigma ~ z + (1 + z | g)", *GAUSSIAN], "groups in the formula of y alone are for a scan"),
        (["y ~ x + (1 | g)", *GAUSSIAN, "--by", "h"], "--by: is not for groups of many files, as (1 | g)"),
        (["y ~ x + (1 | g)", *GAUSSIAN, "--folds", "3"], "--folds: is not for groups of many files"),
        (["y ~ x + (1 | g) + (1 | same)", *GAUSSIAN], "(1 | same): its groups of rows are those of (1 | g)"),
        (["y ~ x + (1 | alone)", *GAUSSIAN], "(1 | alone): alone has one level, '1'; leave (1 | alone) out"),
        (["y ~ x + of_g + (1 + of_g | g)", *GAUSSIAN], "of_g is the same in all rows of each group"),
        (
            ["count ~ x + of_g + (1 + of_g | g)", *POISSON],
            "of_g is the same in all rows",
        ),
    ],
)
def test_what_one_table_refuses_of_groups_a_scan_does(capsys, words, line):
    columns = grouped()
    number = np.unique(columns["g"], return_inverse=True)[1]
    more = {
        "same": number.astype(np.int32) + 100,
        "alone": np.ones(1_500, np.int32),
        "of_g": number % 7 + 0.5,
    }
    write(Path("shards"), columns | more, group=200)
    assert line in refused(capsys, *words)


def test_a_row_without_a_level_is_named(capsys):
    columns = grouped()
    columns["g"] = np.where(np.arange(1_500) == 777, "  ", columns["g"])
    write(Path("shards"), columns, group=200)
    line = refused(capsys, "y ~ x + (1 | g)", *GAUSSIAN)
    assert "part-2.parquet: row group 0, row 27: g lacks a value in a row that has all others" in line
    columns["x"][777] = np.nan
    write(Path("shards"), columns, group=200)
    assert main(["fit", "shards", "y ~ x + (1 | g)", *GAUSSIAN, "--missing", "drop"]) == 0


def test_rows_that_have_no_room_are_refused_with_fewer_files(capsys, monkeypatch):
    write(Path("shards"), grouped(), group=200)
    monkeypatch.setattr(grouped_scan, "_ROW", mappers.memory() // 8_000)
    words = ["count ~ x + (1 | g)", *POISSON]
    line = refused(capsys, *words)
    assert "--model poisson with groups needs all rows here, " in line
    fewer = line.partition("fewer files, as ")[2].partition(",")[0]
    assert main(["fit", fewer, *words]) == 0  # the remedy


def test_a_look_says_which_groups_there_are(capsys):
    write(Path("shards"), grouped(), group=200)
    assert main(["fit", "shards", "y ~ x + (1 | g)", "--model", "gaussian", "--check"]) == 0
    assert "groups: (1 | g), whose levels a fit counts" in capsys.readouterr().out


def test_new_rows_are_predicted_by_a_folder_s_groups():
    both(grouped())
    for name, place in (("one", "one.parquet"), ("folder", "shards")):
        fitted(name, place, "y ~ x + z + (1 | g)")
        assert main(["predict", name, "one.parquet", "--out", f"{name}.csv"]) == 0
    means = [pd.read_csv(f"{name}.csv")["mean"] for name in ("one", "folder")]
    np.testing.assert_allclose(*means, atol=1e-5)


def numbers(name):
    """All draws of a fit, effects of groups among them, by name."""
    with netcdf.read(Path("results/runs") / name / "posterior.nc") as file:
        groups = {group: file[group] for group in ("posterior", "weighted", "groups") if group in file}
        return {
            f"{group}/{key}": np.asarray(values)
            for group, variables in groups.items()
            for key, values in variables.items()
        }


def same(one, other):
    """Whether two fits drew the same, to the bit."""
    first, second = numbers(one), numbers(other)
    return first.keys() == second.keys() and all(np.array_equal(first[key], second[key]) for key in first)


@pytest.mark.slow
@pytest.mark.parametrize("words", [["y ~ x + z + (1 + x | g)", *GAUSSIAN], ["count ~ x + (1 | g)", *POISSON]])
def test_the_bits_do_not_depend_on_who_works(words):
    write(Path("shards"), grouped(), group=100)
    for name, by in (("1", []), ("2", []), ("3", []), ("dask", ["executor=dask"])):
        workers = "2" if by else name
        assert main(["fit", "shards", *words, "--name", name, "--workers", workers, *by]) == 0
    assert all(same("1", other) for other in ("2", "3", "dask"))
    write(Path("shards"), grouped(seed=1), group=100)
    assert main(["fit", "shards", *words, "--name", "of_others", "--workers", "1"]) == 0
    assert not same("1", "of_others")


KILLED = """
import os, signal, sys
from flyrun.cli.main import main
from flyrun.fitting.scan import kept_sums
put, left = kept_sums.Kept.put, [int(sys.argv[1])]

def killed(self, key, result):
    size = put(self, key, result)
    left[0] -= 1
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)
    return size

kept_sums.Kept.put = killed
main(sys.argv[2:])
"""


@pytest.mark.parametrize("after", [3, *(pytest.param(k, marks=pytest.mark.slow) for k in (1, 5, 9, 11, 17))])
def test_a_killed_fit_goes_on_from_what_is_kept(after, monkeypatch):
    write(Path("shards"), grouped(), group=200)
    words = ["fit", "shards", "y ~ x + z + (1 | g)", *GAUSSIAN, "--workers", "1", "--name"]
    assert main([*words, "whole"]) == 0
    command = [sys.executable, "-c", KILLED, str(after), *words, "killed"]
    assert subprocess.run(command, check=False, timeout=120).returncode == -signal.SIGKILL
    assert len(list(Path("results/runs/killed/scan").iterdir())) == after
    looks, run_group = [], mappers.run_group

    def counted(look, group):
        looks.append(type(look).__name__)
        return run_group(look, group)

    monkeypatch.setattr(mappers, "run_group", counted)
    assert main([*words, "killed"]) == 0
    assert len(looks) == 17 - after  # one for the formula, eight of the pilot, eight for the sums
    assert same("whole", "killed")


def test_groups_of_row_groups_are_joined_where_levels_are_many(monkeypatch):
    write(Path("shards"), grouped(), group=20)
    words = ["y ~ x + z + (1 | g)", *GAUSSIAN, "--workers", "1"]
    fit, _ = fitted("apart", "shards", *words)
    monkeypatch.setattr(grouped_scan, "_COMING", 0)
    few, _ = fitted("joined", "shards", *words)
    assert few["scan"]["moved_bytes"] < 0.8 * fit["scan"]["moved_bytes"]
    means = [[row["mean"] for row in each["coefficients"]] for each in (fit, few)]
    np.testing.assert_allclose(*means, rtol=1e-9)


def test_sums_of_the_wrong_level_are_seen(monkeypatch):
    """The negative control: a merge that adds a level's sums to its neighbour's."""
    both(grouped())
    plus = Cells.plus
    one = fitted("one", "one.parquet", "y ~ x + z + (1 | g)")

    def shifted(self, other):
        return plus(self, other._replace(sums=np.roll(other.sums, 1, axis=0)))

    monkeypatch.setattr(Cells, "plus", shifted)
    coefficients, effects = apart(one, fitted("folder", "shards", "y ~ x + z + (1 | g)"))
    assert coefficients > 0.1
    assert effects > 0.1


def test_few_rows_have_the_products_of_all():
    rng = np.random.default_rng(1)
    code = rng.integers(0, 7, 40)
    code[code == 3] = 2
    code[0] = 3  # a cell of one row, whose slope is of no length
    columns = np.column_stack([rng.normal(size=(40, 2)), np.ones(40), rng.normal(size=40)])
    places = [1, 2]
    own = [columns[code == k] for k in range(7)]
    sums = np.array([rows[:, places].T @ rows for rows in own])
    rows, cell = sums_by_cell.few_rows(sums, columns.T @ columns, places, 40.0)
    both = np.column_stack([rows.features, rows.target]) * np.sqrt(rows.weights)[:, None]
    assert float(rows.weights.sum()) == pytest.approx(40.0)
    np.testing.assert_allclose(both.T @ both, columns.T @ columns, atol=1e-10)
    of_cells = both[:-4]
    for k in range(7):
        its = of_cells[cell[:-4] == k]
        np.testing.assert_allclose(its[:, places].T @ its, sums[k], atol=1e-10)
    assert not both[-4:, places].any()


def part(levels, seed):
    """Sums of a row group."""
    rng = np.random.default_rng(seed)
    gram = rng.normal(size=(3, 3))
    whole = Products(len(levels), 0, np.zeros(3, np.int64), float(len(levels)), gram, np.zeros(2, bool))
    return Cells(
        np.array(levels), np.ones(len(levels), np.int64), rng.normal(size=(len(levels), 1, 3)), whole
    )


def test_sums_of_levels_that_few_row_groups_have_are_merged_in_order(tmp_path):
    parts = [part(["a", "c"], 0), part(["b"], 1), part(["a", "b", "longer"], 2)]
    whole = tree(parts)
    assert whole.key.tolist() == ["a", "b", "c", "longer"]
    assert whole.rows.tolist() == [2, 2, 1, 1]
    np.testing.assert_allclose(whole.sums[0], parts[0].sums[0] + parts[2].sums[0])
    np.testing.assert_allclose(whole.sums[2], parts[0].sums[1])
    kept = kept_sums.Kept(tmp_path)
    kept.put("one", kept_sums.Looked(whole, 0.0, "blas"))
    again = kept.get("one").result
    assert again.key.tolist() == whole.key.tolist()
    assert np.array_equal(again.sums, whole.sums)
