"""Groups in a scan of many files: the answer is that of the same rows as one table."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from flyrun.cli.main import main
from flyrun.fitting.scan import kept_sums, sums_by_cell
from flyrun.fitting.scan.block_sums import Products
from flyrun.fitting.scan.row_groups import tree
from flyrun.fitting.scan.sums_by_cell import Cells
from tests.fit.test_scan import write

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
GAUSSIAN = ("--model", "gaussian", "--quiet")


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
    return {"x": x, "z": z, "g": texts, "h": h.astype(np.int32), "y": y}


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
