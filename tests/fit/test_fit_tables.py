"""`flyrun fit` and people's own tables: what is refused, in the words of the door used, and what works."""

import re
import shlex
import warnings

import numpy as np
import pandas as pd
import pytest

from flyrun.cli.main import main
from flyrun.cli.verbs import fit as arguments
from flyrun.experiments import data
from flyrun.experiments.config.compose import compose_job
from flyrun.fitting import question
from flyrun.tables import loading
from flyrun.tables import pieces as table_files
from flyrun.tables.cells import kind
from flyrun.tables.options import Table

N = 60


@pytest.fixture(autouse=True)
def apart(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLYRUN_CACHE", str(tmp_path / "cache"))


def frame(**columns):
    rng = np.random.default_rng(0)
    return pd.DataFrame({"x": rng.normal(size=N).round(3), "y": rng.integers(0, 2, N)}).assign(**columns)


def spoilt(cell, row=17):
    """Numbers but for one cell."""
    return [cell if k == row else str(20 + k % 40) for k in range(N)]


def refused(capsys, *words):
    """The one line that a command ends with; nothing else is on stderr."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        code = main(list(words))
    error = capsys.readouterr().err
    assert code == 2, error
    assert error.startswith("flyrun: error: ")
    assert error.count("\n") == 1
    return error.strip()


def loaded(*words):
    """What `flyrun fit` reads."""
    return data.load(arguments.parse(words).typed_table)


def fit(capsys, table, *words, target="y", **how):
    table.to_csv("mine.csv", index=False, **how)
    return refused(capsys, "fit", "mine.csv", "--target", target, *words)


@pytest.mark.thorough(but=2)
@pytest.mark.parametrize(
    "cell", ["-", "1,9", "12%", "$3.00", "N/A?", "1 234", "1_000", "0x10", "(3.00)", "7 kg", "True"]
)
def test_a_stray_cell_makes_no_category_of_a_number(cell, capsys):
    error = fit(capsys, frame(age=spoilt(cell)))
    assert f"column age holds numbers, but also {cell!r} in row 17 (line 19 of the file)" in error
    assert ("--decimal ," in error) == (cell == "1,9")
    assert error.endswith(
        "--categorical age if these are meant as names, or leave the column out with --drop age"
    )
    assert loaded("mine.csv", "--target", "y", "--drop", "age").feature_names == ("x", "intercept")
    assert len(loaded("mine.csv", "--target", "y", "--categorical", "age").feature_names) == 42


@pytest.mark.thorough(but=2)
@pytest.mark.parametrize("row", [5, 1999])
@pytest.mark.parametrize("name", ["mine.csv", "mine.npz", "mine.parquet"])
def test_a_stray_cell_is_found_in_every_piece_of_every_kind_of_file(name, row, capsys, monkeypatch):
    monkeypatch.setattr(table_files, "_CELLS", 1)
    cells = ["-" if k == row else str(k % 50) for k in range(2000)]
    table = pd.DataFrame({"x": np.arange(2000) ** 0.5, "age": cells, "y": np.arange(2000) % 2})
    if name == "mine.npz":
        np.savez(name, x=table.x, age=np.array(cells), y=table.y)
    elif name == "mine.parquet":
        pytest.importorskip("pyarrow")
        table.to_parquet(name)
    else:
        table.to_csv(name, index=False)
    assert f"column age holds numbers, but also '-' in row {row} " in refused(
        capsys, "fit", name, "--target", "y"
    )


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ([f"{k},5" for k in range(N)], "'0,5' in row 0 .* add --decimal , if such commas are decimal"),
        ([f"{k}%" for k in range(N)], "'0%' in row 0 .* write plain numbers"),
        ([f"€{k}" for k in range(N)], "'€0' in row 0"),
        ([f"{k},000" for k in range(1, N + 1)], "'1,000' in row 0"),
        (["1", "2", "unknown"] * 20, "also 'unknown' in row 2"),
        (
            pd.date_range("2024-01-01", periods=N),
            "the date or time '2024-01-01' in row 0.* days since a date",
        ),
        ([f"{1 + k % 28:02}.03.2024" for k in range(N)], "the date or time '01.03.2024'"),
        ([f"03/{1 + k % 28}/2024 10:30" for k in range(N)], "the date or time '03/1/2024 10:30'"),
        (
            ["Yes", "yes", "no"] * 20,
            "holds 'Yes' and 'yes'; write them alike, add --categorical c if they differ",
        ),
    ],
)
def test_what_seems_to_be_no_category_is_refused_until_it_is_said_to_be_one(cells, said, capsys):
    assert re.search(said, fit(capsys, frame(c=cells)))
    loaded("mine.csv", "--target", "y", "--categorical", "c")


@pytest.mark.parametrize(
    "cells",
    [["3a", "A1", "1", "2", "B"], ["18-25", "26-35", "36+", "1st", "x"], ["TRUE", "FALSE"], ["2", "b"]],
)
def test_words_stay_a_category(cells):
    frame(c=(cells * N)[:N]).to_csv("mine.csv", index=False)
    assert len(loaded("mine.csv", "--target", "y").feature_names) == 1 + len(cells)


def test_what_cells_look_like():
    assert {kind(one, ".") for one in ("1", "-.5", "+5", "1e5", "1.", "inf")} == {"number"}
    assert {kind(one, ",") for one in ("1", "-,5", "1,5e3")} == {"number"}
    assert {kind(one, ".") for one in ("2024-01-31T10:11:12.5Z", "31 Mar 2024", "Mar 3, 2024", "10:30")} == {
        "date"
    }
    assert {kind(one, ".") for one in ("", "A1", "3a", "18-25", "<=50K", "2020-21", "may", "1" * 99)} == {""}


@pytest.mark.parametrize("words", [(), ("--model", "softmax")])
def test_a_target_with_a_stray_cell_is_no_class(words, capsys):
    error = fit(capsys, frame(y=spoilt("?")), *words)
    assert "target y holds numbers, but also '?' in row 17" in error
    assert error.endswith("--categorical y if these are meant as names, or name another column with --target")
    assert loaded("mine.csv", "--target", "y", "--categorical", "y", *words).task == "classes"
    error = refused(capsys, "fit", "mine.csv", "--target", "y", "--model", "student_t")
    assert '; mend it, add --na "?" --missing drop if it' in error
    assert error.endswith("or name another column with --target")


def test_decimal_commas():
    table = frame(age=[k + 0.5 for k in range(N)])
    table.to_csv("point.csv", index=False)
    wanted = loaded("point.csv", "--target", "y").features
    for name, separator in (("a.csv", ";"), ("b.tsv", "\t"), ("c.csv", ",")):
        table.to_csv(name, sep=separator, decimal=",", index=False)
        np.testing.assert_allclose(loaded(name, "--target", "y", "--decimal", ",").features, wanted)
    words = ["dataset.path=a.csv", "dataset.target=y", "dataset.decimal=,", "model=logistic", "sampler=mala"]
    arm = compose_job(["dataset=table", *words]).arms[0]
    np.testing.assert_allclose(data.load(arm.dataset).features, wanted)


def test_decimal_commas_that_cannot_be_told_are_refused(capsys):
    table = frame(age=[k + 0.5 for k in range(N)])
    table.to_csv("mine.csv", index=False, decimal=",")
    with open("mine.csv") as file:
        bare = file.read().replace('"', "")
    with open("bare.csv", "w") as file:
        file.write(bare)
    assert "more values than the header" in refused(
        capsys, "fit", "bare.csv", "--target", "y", "--decimal", ","
    )
    assert "holds '0.5' in row 0" in fit(capsys, table, "--decimal", ",", "--drop", "x")
    assert "--decimal ;: must be . or ," in refused(
        capsys, "fit", "mine.csv", "--target", "y", "--decimal", ";"
    )
    np.savez("a.npz", x=table.x, y=table.y)
    assert "--decimal ,: is for CSV files" in refused(
        capsys, "fit", "a.npz", "--target", "y", "--decimal", ","
    )


def test_a_file_that_grows_between_the_readings_of_a_fit_is_refused(capsys, monkeypatch):
    """One fact is taken from the world once: rows of a later file under an earlier one's layout."""
    table = frame(a=np.arange(N) // 8)
    table.to_csv("mine.csv", index=False)
    load = loading.load

    def grows(config):
        found = load(config)
        (table * 100).to_csv("mine.csv", mode="a", header=False, index=False)
        return found

    monkeypatch.setattr(loading, "load", grows)
    words = ("mine.csv", "y ~ x + (1 | a)")  # whose groups are read after its other columns
    assert "mine.csv: changed while it was in use" in refused(capsys, "fit", *words)
    monkeypatch.setattr(loading, "load", load)
    table.to_csv("mine.csv", index=False)
    assert question.of(arguments.parse(list(words))).layout.rows == N


def test_a_cell_is_not_run_with_other_data_than_its_key_says(capsys, monkeypatch):
    """One fact is taken from the world once: a cell's key of a file before it grew, draws of it after."""
    table = frame()
    table.to_csv("mine.csv", index=False)
    words = ["dataset=table", "dataset.path=mine.csv", "dataset.target=y", "model=logistic", "sampler=mala"]
    load = data.load

    def grew(config):
        table.to_csv("mine.csv", mode="a", header=False, index=False)
        return load(config)

    monkeypatch.setattr(data, "load", grew)
    assert "changed since this run began" in refused(capsys, *words, "protocol=smoke", "name=grown")


@pytest.mark.parametrize(
    ("key", "names"),
    [
        ("dataset.drop=[x]", ("age", "intercept")),
        ("dataset.features=[age]", ("age", "intercept")),
        ("dataset.target=y", ("x", "age", "intercept")),
        ("dataset.path=mine.csv", ("x", "age", "intercept")),
    ],
)
def test_keys_of_the_table_are_taken(key, names):
    frame(age=range(2, N + 2)).to_csv("mine.csv", index=False)
    assert loaded("mine.csv", "--target", "y", key).feature_names == names


def test_further_keys_of_the_table_are_taken():
    age = [None, *range(1, N)]
    frame(age=age).to_csv("mine.csv", index=False)
    words = [
        "mine.csv",
        "--target",
        "y",
        "dataset.missing=drop",
        "dataset.standardize=false",
        "dataset.limit=9",
    ]
    np.testing.assert_array_equal(loaded(*words).features[:, 1], age[1:10])
    assert loaded(*words, "dataset.categorical=[age]").feature_names[1:3] == ("age[2.0]", "age[3.0]")
    assert loaded(*words, "dataset.task=classes").task == loaded(*words, "model=softmax").task == "classes"
    assert question.of(arguments.parse(words)).table.limit == 9


@pytest.mark.thorough(but=3)
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--drop x dataset.drop=[age]", "--drop and dataset.drop=[age] disagree"),
        ("dataset.path=other.csv", "mine.csv and dataset.path=other.csv disagree"),
        ("dataset.target=x", "--target and dataset.target=x disagree"),
        ("--model logistic dataset.task=classes", "--model logistic and dataset.task=classes disagree"),
        ("--decimal . dataset.decimal=,", "--decimal and dataset.decimal=',' disagree"),
        ("dataset=mnist_7v9", "fit reads the table mine.csv"),
        ("dataset.name=tall", "fit reads the table mine.csv"),
        ("dataset.drp=[x]", "did you mean drop?"),
        ("dataset.missing=keep", "must be refuse or drop"),
        ("--missing drop --missing refuse", "--missing: is given twice"),
        ("--drop y", "--drop: y is the target"),
        ("--features x,y", "--features: y is the target"),
        ("--drop X", "--drop: mine.csv has no column 'X' (did you mean x?)"),
        ("--features Age", "--features: mine.csv has no column 'Age' (did you mean age?)"),
        ("--categorical AGE", "--categorical: mine.csv has no column 'AGE' (did you mean age?)"),
    ],
)
def test_words_that_do_not_fit_the_table(words, said, capsys):
    assert said in fit(capsys, frame(age=range(2, N + 2)), *words.split(" "))


@pytest.mark.parametrize("target", ["Y", " y", "y "])
def test_a_target_in_other_letters(target, capsys):
    assert f"--target: mine.csv has no column {target!r} (did you mean y?)" in fit(
        capsys, frame(), target=target
    )


def test_options_that_list_columns_add_up():
    frame(a=range(2, N + 2), b=range(2, N + 2)).to_csv("mine.csv", index=False)
    words = ["mine.csv", "--target", "y", "--drop", "a", "--drop=b"]
    assert loaded(*words).feature_names == ("x", "intercept")


@pytest.mark.parametrize(
    "name", ["plain", "a b", "a, b", 'a "b", c', "it's", "null", "2", "pay in $", " edge", "é"]
)
def test_remedies_work_as_they_are_printed(name, capsys):
    np.savez(
        "mine.npz",
        **{"x": np.arange(N) + 2, "one": np.ones(N), name: np.ones(N), "y": np.arange(N) % 2},
    )
    words = ["fit", "mine.npz", "--target", "y", "--drop", "one"]
    printed = refused(capsys, *words).rpartition(" with ")[2]
    assert loaded(*words[1:], *shlex.split(printed)).feature_names == ("x", "intercept")
    words = ["dataset=table", "dataset.path=mine.npz", "dataset.target=y", "model=logistic", "sampler=mala"]
    words += ["dataset.drop=[one]", "protocol=smoke"]
    (printed,) = shlex.split(refused(capsys, *words).rpartition(" with ")[2])
    arm = compose_job([*words[:-2], printed]).arms[0]
    assert data.load(arm.dataset).feature_names == ("x", "intercept")


def test_a_column_called_intercept(capsys):
    error = fit(capsys, frame(intercept=1))
    assert (
        "is 1 in every row, as the intercept that is added anyhow; leave the column out with --drop" in error
    )
    error = fit(capsys, frame(intercept=range(2, N + 2)))
    assert "column intercept has the name of the column of ones" in error
    assert error.endswith("--drop intercept")
    assert loaded("mine.csv", "--target", "y", "--drop", "intercept").feature_names == ("x", "intercept")
    table = frame(**{"c": ["a", "b"] * 30, "c[b]": range(2, N + 2)})
    assert "column c[b] has the name of a level of another column" in fit(capsys, table)


def test_files_that_are_not_there(tmp_path, capsys):
    (tmp_path / "folder").mkdir()
    error = refused(capsys, "fit", "folder", "--target", "y")
    assert "folder: is a folder; table needs a .csv" in error
    assert "as in FILE --target COLUMN" in error
    frame().to_csv("folder/my patients.csv")
    assert refused(capsys, "fit", "folder", "--target", "y").endswith(
        'name a file in it, as "folder/my patients.csv"'
    )
    error = refused(capsys, "fit", "folder/patients.csv", "--target", "y")
    assert "folder/patients.csv: no such file (did you mean my patients.csv?)" in error
    line = "dataset=table dataset.path=folder dataset.target=y model=logistic sampler=mala"
    assert "dataset.path=folder: is a folder" in refused(capsys, *line.split())


@pytest.mark.parametrize("name", ["", "Unnamed: 0"])
@pytest.mark.parametrize("start", [0, 1])
def test_row_numbers_without_a_name_are_left_out(name, start):
    table = frame()
    table.insert(0, name, range(start, N + start))
    table.to_csv("mine.csv", index=False)
    task = question.of(arguments.parse(["mine.csv", "--target", "y"]))
    assert task.layout.names == ["x", "intercept"]
    assert "left out: Unnamed: 0, without a name and counting the rows" in task.about
    words = ["mine.csv", "--target", "y", "--features", "x,Unnamed: 0"]
    assert loaded(*words).feature_names == ("x", "Unnamed: 0", "intercept")


@pytest.mark.parametrize("cells", [range(5, N + 5), [*range(1, N), 0], [f"n{k}" for k in range(N)]])
def test_other_columns_without_a_name_are_refused(cells, capsys):
    table = frame(**{"": cells})
    error = fit(capsys, table)
    assert "column Unnamed: 2 has no name of its own" in error
    assert error.endswith('--drop "Unnamed: 2"')
    assert loaded("mine.csv", "--target", "y", "--drop", "Unnamed: 2").feature_names == ("x", "intercept")


def test_row_numbers_are_told_apart_over_pieces(monkeypatch, capsys):
    monkeypatch.setattr(table_files, "_CELLS", 1)
    table = pd.DataFrame({"": range(2500), "x": np.arange(2500) ** 0.5, "y": np.arange(2500) % 2})
    table.to_csv("mine.csv", index=False)
    assert loaded("mine.csv", "--target", "y").feature_names == ("x", "intercept")
    table.loc[2400, ""] = 7
    assert "no name of its own" in fit(capsys, table)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([1e200, 1.0], "row 0 (line 2 of the file), column v is 1e+200"),
        ([1.0, -1e308], "row 1 (line 3 of the file), column v is -1e+308"),
        ([1e-310, 3e-310], "column v goes from 1e-310 to 3e-310, too little to compute with"),
        ([1e16, 1e16 + 4], "column v goes from 1e+16 to 1.0000000000000004e+16, too little"),
        ([10**16, 10**16 + 1], "column v holds the whole number 10000000000000001, beyond 9007199254740992"),
    ],
)
def test_numbers_beyond_computing_are_refused(values, said, capsys):
    assert said in fit(capsys, frame(v=values * 30))


def test_large_numbers_that_can_be_computed_with():
    frame(a=[1e99, -1e99] * 30, b=[1e-90, 2e-90] * 30, c=[10**30 * k for k in range(N)]).to_csv(
        "mine.csv", index=False
    )
    features = loaded("mine.csv", "--target", "y").features
    np.testing.assert_array_equal(features[:, 1:3], [[1, 0], [0, 1]] * 30)  # of two values
    np.testing.assert_allclose(features[:, 3].std(), 1.0)


def test_rows_beyond_those_asked_for_are_not_looked_at():
    table = frame(age=spoilt("-"))
    table.loc[20, "x"] = None
    table.to_csv("mine.csv", index=False)
    assert loaded("mine.csv", "--target", "y", "--rows", "10").feature_names == ("x", "age", "intercept")


def test_spaces_around_words_and_separators_in_quotes(tmp_path):
    text = "c;d|e\n".replace("c;d|e", '"c;d;|",z,y') + "red ,1,0\nred,3,1\nblue,2,1\n"
    (tmp_path / "mine.csv").write_text(text)
    assert loaded("mine.csv", "--target", "y").feature_names == ("c;d;|[red]", "z", "intercept")


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"sep=;\nx;y\n1;0\n", "begins with a line 'sep=;'"), (b"x,y\n\xe9,0\n", "save it as UTF-8")],
)
def test_files_of_other_programs(content, said, tmp_path, capsys):
    (tmp_path / "mine.csv").write_bytes(content)
    assert said in refused(capsys, "fit", "mine.csv", "--target", "y")


def test_types_that_files_can_hold(capsys):
    rng = np.random.default_rng(0)
    np.savez("a.npz", x=rng.normal(size=N) + 1j, y=np.arange(N) % 2)
    assert "not complex128" in refused(capsys, "fit", "a.npz", "--target", "y")
    np.savez("a.npz", t=np.arange(N).astype("M8[D]"), y=np.arange(N) % 2)
    assert "column t holds the date or time '1970-01-01'" in refused(capsys, "fit", "a.npz", "--target", "y")
    np.savez("a.npz", t=np.arange(N).astype(str), y=np.arange(N) % 2)
    assert "column t holds numbers that are stored as text" in refused(
        capsys, "fit", "a.npz", "--target", "y"
    )
    np.savez("a.npz", c=np.array([1.0, 2.0, np.nan] * 20), y=np.arange(N) % 2)
    found = loaded("a.npz", "--target", "y", "--categorical", "c", "--missing", "drop")
    assert found.feature_names == ("c[2]", "intercept")


def test_parquet_as_pandas_writes_it(capsys):
    pytest.importorskip("pyarrow")
    from decimal import Decimal

    table = frame(price=[Decimal(k) / 4 for k in range(N)], kind=pd.Categorical(["1", "2"] * 30))
    table.rename_axis("id").set_index("x").to_parquet("a.parquet")
    assert loaded("a.parquet", "--target", "y").feature_names == ("price", "kind[2]", "x", "intercept")
    table.set_axis([f"n{k}" for k in range(N)]).to_parquet("a.parquet")
    assert refused(capsys, "fit", "a.parquet", "--target", "y").endswith("--drop __index_level_0__")
    frame(when=pd.date_range("2024-01-01", periods=N)).to_parquet("a.parquet")
    assert "column when holds the date or time" in refused(capsys, "fit", "a.parquet", "--target", "y")


@pytest.mark.thorough
def test_the_long_door_names_its_keys(capsys):
    frame(age=spoilt("-")).to_csv("mine.csv", index=False)
    line = "dataset=table dataset.path=mine.csv dataset.target=y model=logistic sampler=mala"
    error = refused(capsys, *line.split())
    assert 'add "dataset.categorical=[age]" if these are meant as names' in error
    assert error.endswith('leave the column out with "dataset.drop=[age]"')
    assert "dataset.drop: y is the target" in refused(capsys, *line.split(), "dataset.drop=[y]")
    assert Table().say("model", "softmax") == "model=softmax"
