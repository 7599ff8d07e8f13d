"""What one door refuses its siblings do: one file, many, frames in Python, estimators, stdin, new rows."""

import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from flyrun.cli.main import main
from flyrun.experiments.config.compose import compose_job
from flyrun.experiments.runner import store
from flyrun.fitting import level_fits
from flyrun.fitting.estimators import FlyrunRegressor
from flyrun.fitting.python import fit
from flyrun.fitting.request import Request
from flyrun.fitting.stored import about as read_fit
from flyrun.ground import run_files
from flyrun.ground.errors import ConfigError, DataError
from tests.fit.test_fit_tables import apart, refused  # noqa: F401  (a fixture)

N = 400
COMPLEX = "complex number"


def frame(**columns):
    rng = np.random.default_rng(0)
    return pd.DataFrame({"x": rng.normal(size=N).round(3), "y": rng.integers(0, 2, N)}).assign(**columns)


def shards(table, index):
    """The table in files of pandas' own, whose indices are as of `index`: rows' numbers -> an index."""

    Path("many").mkdir()
    for k, rows in enumerate(np.array_split(np.arange(len(table)), 3)):
        table.iloc[rows].set_axis(index(rows)).to_parquet(f"many/part-{k}.parquet", row_group_size=50)
    table.set_axis(index(np.arange(len(table)))).to_parquet("one.parquet")


INDICES = {
    "of all rows": lambda rows: list(rows),
    "a range": lambda rows: pd.RangeIndex(len(rows)),
    "a range with a name": lambda rows: pd.RangeIndex(5, 5 + len(rows), name="row"),
}


@pytest.mark.thorough
@pytest.mark.parametrize("index", INDICES.values(), ids=[*INDICES])
def test_an_index_that_counts_rows_is_no_feature(index, capsys):
    pytest.importorskip("pyarrow")
    shards(frame(), index)
    for given in ("many", "one.parquet"):
        assert main(["fit", given, "--target", "y"]) == 0
        told = capsys.readouterr().out
        assert ("left out: __index_level_0__" in told) == (index is INDICES["of all rows"])
    for name in ("many", "one"):
        rows = read_fit(Path("results/runs") / name)["coefficients"]
        assert {row["coefficient"] for row in rows} == {"intercept", "x"}


@pytest.mark.thorough
@pytest.mark.parametrize("index", [lambda rows: list(3 * rows), lambda rows: [f"n{k}" for k in rows]])
def test_another_index_without_a_name_is_refused_with_what_helps(index, capsys):
    pytest.importorskip("pyarrow")
    shards(frame(), index)
    for given in ("many", "one.parquet"):
        error = refused(capsys, "fit", given, "--target", "y")
        assert error.endswith("--drop __index_level_0__")
        assert main(["fit", given, "--target", "y", "--quiet", "--drop", "__index_level_0__"]) == 0
    words = ["--features", "x,__index_level_0__", "--quiet", "--name", "both"]
    assert main(["fit", "many", "--target", "y", *words]) == int(2 * isinstance(index([0])[0], str))


def test_complex_numbers_are_refused_in_each_door(capsys):
    values = np.exp(1j * np.arange(N))
    table = frame(z=values, few=np.where(np.arange(N) % 2, 1 + 2j, 0.5 - 1j))
    table.to_csv("mine.csv", index=False)
    np.savez("mine.npz", **{name: table[name] for name in table})
    for given in ("mine.csv", "mine.npz"):
        assert "real and imaginary parts as columns" in refused(capsys, "fit", given, "--target", "y")
    assert COMPLEX in refused(capsys, "fit", "mine.csv", "y ~ few", "--model", "gaussian")
    for words in ({"target": "y ~ z"}, {"target": "z"}, {"target": "y", "features": ["few"]}):
        with pytest.raises(DataError, match=COMPLEX):
            fit(table, model="gaussian", **words)
    with pytest.raises(DataError, match=COMPLEX):
        fit(table.assign(z=values.astype(object)), "y ~ z")
    made = fit(table, "x ~ y", model="gaussian")
    with pytest.raises(DataError, match=COMPLEX):
        made.predict(table.assign(y=values))
    for x, y in ((values[:, None], table.y), (table[["x"]], values)):
        with pytest.raises(ValueError, match=r"[Cc]omplex"):
            FlyrunRegressor().fit(x, y)
    parts = table.assign(re=values.real, im=values.imag).drop(columns=["z", "few"])  # the remedy
    assert set(fit(parts, "y ~ re + im").summary().index) == {"intercept", "re", "im"}


@pytest.mark.thorough
def test_text_of_complex_numbers_is_no_category_of_a_scan(capsys):
    pytest.importorskip("pyarrow")
    shards(frame(z=np.where(np.arange(N) % 2, "(1+2j)", "(0.5-1j)")), INDICES["a range"])
    for given in ("many", "one.parquet"):
        assert COMPLEX in refused(capsys, "fit", given, "--target", "y")
        assert main(["fit", given, "--target", "y", "--categorical", "z", "--quiet"]) == 0


NAMES = ["../esc", ".", "..", "/tmp/esc", "a/b", "a\\b", "", ".hidden", "a\nb", "~", "x" * 201]


@pytest.mark.thorough(but=2)
@pytest.mark.parametrize("name", NAMES)
def test_no_name_leaves_the_folder_of_runs(name, tmp_path, capsys):
    frame().to_csv("mine.csv", index=False)
    error = refused(capsys, "fit", "mine.csv", "--target", "y", "--name", name)
    assert "must be a folder name" in error or "a value is missing" in error
    with pytest.raises(ConfigError, match="must be a folder name"):
        fit(frame(), "y", name=name)
    with pytest.raises(ConfigError, match=r"must be a folder name|name="):
        compose_job(["experiment=toy_flymc", f"name='{name}'"])
    assert {path.name for path in tmp_path.iterdir()} <= {"mine.csv", "cache"}


def test_a_level_is_named_whatever_its_words_and_the_tables_name():
    request = Request("mine.csv", "y", name="n" * 200, by="place")
    made = level_fits.requests(request, ["../..", "a/b", "w" * 300, "."])
    assert all(set(one.name) <= {*"nw_.-ab"} and len(one.name) <= 200 for one in made.values())


def test_a_run_that_a_dot_names_is_named_for_its_folder(tmp_path, monkeypatch):
    folder = tmp_path / "results" / "runs" / "mine" / "figures"
    folder.mkdir(parents=True)
    (folder.parent / run_files.RUN).write_text("{}")
    monkeypatch.chdir(folder)
    assert store.find_run("..", "results").name == "mine"
    monkeypatch.chdir(folder.parent)
    assert store.find_run(".", "results").name == "mine"


@pytest.mark.parametrize(
    ("cells", "words", "said"),
    [
        ("x,y\n1,0\n,1\n", ["--target", "y"], "-: row 1 (line 3 of the file), column x has no value"),
        ("x,y\n1,0\n2,1\n", ["--target", "z"], "--target: - has no column 'z'"),
        ("x,y\n1,0\n2,1\n", [], "as in `flyrun fit - --target y`"),
        ("x,y\n1,0\n2,1,3\n", ["--target", "y"], "-: cannot be read"),
        ("x,x\n1,0\n", ["--target", "x"], "-: two columns are called 'x'"),
    ],
)
@pytest.mark.parametrize("output", [(), ("--json",)])
def test_errors_of_a_piped_table_name_what_was_typed(cells, words, said, output, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(cells.encode())))
    assert main(["fit", "-", *words, *output]) == 2
    shown = capsys.readouterr()
    assert said in shown.err
    assert "stdin" not in shown.err + shown.out
