"""What one table refuses or says of its columns, a scan does too; and guards of a fit's folder and files."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import flyrun
from flyrun.cli.main import main
from flyrun.fitting.scan import row_weights
from flyrun.ground.errors import ConfigError, DataError, StoreError
from flyrun.ground.lock import locked
from tests.fit.test_scan import table, write

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


@pytest.fixture(autouse=True)
def _quick(tmp_path, monkeypatch):
    """Few draws, no reports, in an empty folder."""
    monkeypatch.setattr("flyrun.fitting.second_process.report", lambda folder: None)
    monkeypatch.setattr("flyrun.ground.page.document.show", lambda *words: None)
    monkeypatch.setattr(row_weights, "DRAWS", 1_000)
    monkeypatch.setattr(row_weights, "_BY_CHAINS", 500)
    monkeypatch.chdir(tmp_path)


def both(columns, files=4):
    """The same rows as a folder and as one file."""
    write(Path("shards"), columns, files)
    parquet.write_table(pyarrow.table(columns), "one.parquet")
    return "shards", "one.parquet"


def refused(capsys, *words):
    """The one line of a command that ends with exit code 2."""
    assert main(["fit", *words, "--quiet", "--fresh"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line


@pytest.mark.parametrize("place", ["shards", "one.parquet"])
def test_a_second_fit_of_one_name_is_refused_while_the_first_is_at_work(capsys, place):
    both(table(np.random.default_rng(0), 800))
    folder = Path("results/runs/one")
    folder.mkdir(parents=True)
    words = (place, "--target", "y", "--model", "logistic", "--name", "one", "--quiet")
    with locked(folder / "lock"):
        assert "is in use by process" in refused(capsys, *words[:-1])
        with pytest.raises(StoreError, match="is in use by process"):
            flyrun.fit(place, "y ~ x0", model="logistic", name="one")
    assert main(["fit", *words]) == 0
    assert not (folder / "lock").exists()


def test_a_refused_fit_leaves_no_folder(capsys):
    both(table(np.random.default_rng(0), 800))
    refused(capsys, "one.parquet", "--target", "nosuch")
    assert not Path("results").exists()


def columns(rng, n=2_000):
    """Counts, of which age says some; a category; true and false."""
    age = rng.integers(18, 90, n)
    return {
        "id": np.arange(n) + 10**12,
        "age": age,
        "fuel": rng.choice(["diesel", "gas"], n),
        "flag": rng.random(n) < 0.4,
        "years": rng.uniform(0.1, 1.0, n),
        "claims": rng.poisson(np.exp(0.01 * (age - 50) - 1.0)),
    }


def with_one(name, value, at=-1):
    """A change of one value."""
    return lambda table: table | {name: np.concatenate([table[name][:at], [value], table[name][at:][1:]])}


FORMULA = "claims ~ age + offset(log(years))"
#: what one table refuses of a column, and a folder does in the same words: change, formula, part of the line
DOUBTS = {
    "code": (
        lambda table: table | {"age": np.where(table["age"] == 33, -999, table["age"])},
        FORMULA,
        "far from all others (18 to 89), as codes for missing values are; add --na -999 --missing drop",
    ),
    "one code": (with_one("age", -999), FORMULA, "age is -999 in one row, far from all others"),
    "id": (dict, "claims ~ id", "column id holds whole numbers"),
    "beyond 2^53": (
        lambda table: table | {"age": table["age"] + 2**55},
        FORMULA,
        "beyond 9007199254740992, where numbers next to each other are one; add --categorical age",
    ),
    "numbers as text": (
        lambda table: table | {"age": (table["age"] // 10).astype(str)},
        FORMULA,
        "column age holds numbers that are stored as text; store them as numbers, add --categorical age",
    ),
    "spelled alike": (with_one("fuel", "GAS"), "claims ~ fuel", "column fuel holds 'GAS' and 'gas'"),
}


@pytest.mark.parametrize("place", ["shards", "one.parquet"])
@pytest.mark.parametrize("doubt", DOUBTS)
def test_what_is_improbable_of_a_column_is_refused_in_a_scan_as_in_one_table(capsys, place, doubt):
    change, formula, said = DOUBTS[doubt]
    both(change(columns(np.random.default_rng(0))))
    assert said in refused(capsys, place, formula, "--model", "poisson")


def test_a_code_for_missing_values_is_left_out_as_the_remedy_says():
    place, one = both(with_one("age", -999)(columns(np.random.default_rng(0))))
    words = (FORMULA, "--model", "poisson", "--na", "-999", "--missing", "drop", "--quiet")
    assert main(["fit", place, *words, "--name", "scan"]) == 0
    assert main(["fit", one, *words, "--name", "one"]) == 0
    scan, table = (flyrun.load(f"results/runs/{name}").summary()["mean"] for name in ("scan", "one"))
    assert scan.age == pytest.approx(table.age, rel=0.05)


#: a bad value, the formula, and what is said of it: file and row group, and the row where all were read
BAD = {
    "nan": (lambda t: with_one("years", np.nan)(t), "row group 0, row 499, column years: a value is missing"),
    "inf": (with_one("years", np.inf), "row group 0: exposure years holds an infinite number"),
    "zero": (with_one("years", 0.0), "row group 0: exposure years is 0 in a row, but exposures are numbers"),
    "1e200": (
        lambda t: with_one("age", 1e200)(t | {"age": t["age"].astype(float)}),
        "row group 0: column age is 1e+200 in a row, beyond 1e+100",
    ),
    "negative": (with_one("claims", -1), "row group 0, row 499, target claims is -1, but counts are whole"),
    "fraction": (
        lambda t: with_one("claims", 0.5)(t | {"claims": t["claims"].astype(float)}),
        "row group 0, row 499, target claims is 0.5, but counts are whole numbers",
    ),
}


@pytest.mark.parametrize("bad", BAD)
def test_a_bad_value_is_named_with_file_and_row(capsys, bad):
    change, said = BAD[bad]
    write(Path("shards"), change(columns(np.random.default_rng(0))))
    assert f"shards/part-3.parquet: {said}" in refused(capsys, "shards", FORMULA, "--model", "poisson")


def changed(number, change):
    """Rewrite one file of the folder by a change of its Arrow table."""
    path = Path(f"shards/part-{number}.parquet")
    parquet.write_table(change(parquet.read_table(path)), path)


def retyped(name, kind):
    """A change of a column's type."""
    return lambda rows: rows.set_column(rows.schema.get_field_index(name), name, rows[name].cast(kind))


def nested(rows):
    return rows.append_column("tags", pyarrow.array([[1, 2]] * len(rows)))


def whole_nulls(name):
    return lambda rows: rows.set_column(rows.schema.get_field_index(name), name, pyarrow.nulls(len(rows)))


#: how files may differ, and hold other types, where the same answer follows: change of file 2, or of all
ALIKE = {
    "decimal": (retyped("age", pyarrow.decimal128(22, 2)), range(4)),
    "decimal target in one file": (retyped("claims", pyarrow.decimal128(22, 2)), [2]),
    "float in one file": (retyped("age", pyarrow.float64()), [2]),
    "dictionary in one file": (
        lambda rows: retyped("fuel", pyarrow.dictionary(pyarrow.int32(), pyarrow.string()))(rows),
        [2],
    ),
    "nested, unnamed": (nested, range(4)),
    "later files have a column": (nested, [2, 3]),
    "later files lack a column": (lambda rows: rows.drop_columns(["id"]), [2, 3]),
    "of nulls, unnamed": (whole_nulls("id"), [2]),
    "another order of columns": (lambda rows: rows.select(rows.column_names[::-1]), [2]),
}


@pytest.mark.thorough(but=4)
@pytest.mark.parametrize("case", ALIKE)
def test_types_and_columns_that_change_nothing(case):
    write(Path("shards"), columns(np.random.default_rng(0)))
    words = ["fit", "shards", "claims ~ age + fuel + flag", "--model", "poisson", "--quiet"]
    assert main([*words, "--name", "before"]) == 0
    change, numbers = ALIKE[case]
    for number in numbers:
        changed(number, change)
    assert main([*words, "--name", "after"]) == 0
    before, after = (flyrun.load(f"results/runs/{name}").summary() for name in ("before", "after"))
    assert [*after.index] == ["intercept", "age", "fuel[gas]", "flag[True]"]
    np.testing.assert_allclose(after["mean"], before["mean"], rtol=1e-6)


#: what keeps a column that is named from being used: change of file 2, and what is said
UNLIKE = {
    "nested": (
        lambda rows: rows.set_column(1, "age", pyarrow.array([[1]] * len(rows))),
        "part-2.parquet: column 'age' holds lists or other nested values, in shards/part-0.parquet numbers",
    ),
    "dates": (
        lambda rows: rows.set_column(1, "age", rows["age"].cast(pyarrow.timestamp("us", tz="UTC"))),
        "part-2.parquet: column 'age' holds dates or times, in shards/part-0.parquet numbers",
    ),
    "text": (retyped("age", pyarrow.string()), "part-2.parquet: column 'age' holds text, in shards/part-0"),
    "renamed": (
        lambda rows: rows.rename_columns(["AGE" if name == "age" else name for name in rows.column_names]),
        "part-2.parquet: has no column 'age', which shards/part-0.parquet has, as do 3 of 4 files (did you "
        "mean AGE?); write it there, or leave the column out of the formula",
    ),
    "nulls": (whole_nulls("age"), "part-2.parquet: row group 0, row 0, column age: a value is missing"),
}


@pytest.mark.parametrize("case", UNLIKE)
def test_a_column_that_files_do_not_share_is_refused_where_it_is_named(capsys, case):
    write(Path("shards"), columns(np.random.default_rng(0)))
    change, said = UNLIKE[case]
    changed(2, change)
    assert said in refused(capsys, "shards", "claims ~ age", "--model", "poisson")
    assert main(["fit", "shards", "claims ~ fuel", "--model", "poisson", "--quiet"]) == 0  # the remedy


def test_a_budget_ends_a_scan_which_goes_on(capsys):
    write(Path("shards"), columns(np.random.default_rng(0)))
    line = refused(capsys, "shards", FORMULA, "--model", "poisson", "--budget", "0.01s")
    assert "--budget: ended in" in line
    assert "goes on" in line
    line = refused(capsys, "shards", FORMULA, "--model", "poisson", "--budget", "200")
    assert "a scan takes a time, as 10m" in line
    assert main(["fit", "shards", FORMULA, "--model", "poisson", "--budget", "10m", "--quiet"]) == 0


def test_check_says_of_a_folder_what_it_says_of_one_file(capsys):
    rows = columns(np.random.default_rng(0))
    lines = []
    for place in both(rows):
        assert main(["fit", place, "claims ~ age + fuel + flag", "--model", "poisson", "--check"]) == 0
        lines.append(capsys.readouterr().out.splitlines()[1:-1])
    assert lines[0] == lines[1]
    assert any("age: number 18 … 89" in line for line in lines[0])
    assert not Path("results").exists()


@pytest.mark.thorough
def test_what_is_asked_of_a_category_of_many_levels_works(capsys):
    rows = columns(np.random.default_rng(0))
    rows["broker"] = np.random.default_rng(1).choice([f"b{k:03d}" for k in range(150)], len(rows["age"]))
    place, one = both(rows)
    model = ("--model", "poisson")
    for path in (place, one):
        assert main(["fit", path, "claims ~ age + C(broker)", *model]) == 0
        assert "is (1 | broker) meant?" in Path(f"results/runs/{Path(path).stem}/fit.json").read_text()
        assert main(["fit", path, "claims ~ age + (1 | broker)", *model, "--quiet", "--fresh"]) == 0
        capsys.readouterr()


def test_python_names_its_own_arguments():
    both(with_one("age", -999)(columns(np.random.default_rng(0))))
    for place in ("shards", "one.parquet"):
        with pytest.raises(
            DataError, match=r"add na=\['-999'\] missing='drop' if it is one, add numeric=\['age'\]"
        ):
            flyrun.fit(place, FORMULA, model="poisson")
        fit = flyrun.fit(place, FORMULA, model="poisson", na=["-999"], missing="drop")
        assert "age" in fit.summary().index
        with pytest.raises(DataError, match=r"with drop=\['id'\]"):
            flyrun.fit(place, "claims", model="poisson")


def test_load_takes_a_name():
    _, one = both(columns(np.random.default_rng(0)))
    fit = flyrun.fit(one, FORMULA, model="poisson", name="month")
    assert flyrun.load("month").summary().equals(fit.summary())
    with pytest.raises(ConfigError, match="holds no finished fit"):
        flyrun.load("nosuch")


def test_sigterm_ends_a_scan_as_ctrl_c_does_with_its_code(tmp_path):
    write(Path("shards"), columns(np.random.default_rng(0), 40_000), files=8)
    program = (
        "import os, signal, sys\nfrom flyrun.cli.main import main\nfrom flyrun.fitting.scan import mappers\n"
        "run = mappers.run_group\ncount = 0\ndef slow(*words):\n    global count\n    count += 1\n"
        "    if count == 3:\n        os.kill(os.getpid(), signal.SIGTERM)\n    return run(*words)\n"
        "mappers.run_group = slow\nsys.exit(main(sys.argv[1:]))"
    )
    words = ["fit", "shards", FORMULA, "--model", "poisson", "--quiet", "--workers", "1"]
    ended = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True)
    assert ended.returncode == 143
    assert ended.stderr.splitlines() == ["flyrun: terminated; what was finished is kept"]
    assert not Path("results/runs/shards/lock").exists()
    assert main(words) == 0


@pytest.mark.parametrize(
    ("formula", "name"), [("y ~ x + C(region)", "C(region)[11]"), ("y ~ x + region", "region")]
)
def test_a_level_of_one_folder_is_met_by_the_pilot(formula, name):
    """Of levels that it had not met, all rows had come, far from the centre, until chains took them all."""
    rng, rows = np.random.default_rng(0), []
    for region in range(12):
        x = rng.normal(size=2_000)
        folder = Path(f"shards/region={region}")
        folder.mkdir(parents=True)
        own = pyarrow.table({"x": x, "y": rng.poisson(np.exp(0.3 * x - 1.0 + 0.1 * region))})
        parquet.write_table(own, folder / "part.parquet", row_group_size=2_000)
        rows.append(own.append_column("region", pyarrow.array([region] * 2_000)))
    parquet.write_table(pyarrow.concat_tables(rows), "one.parquet")
    for place in ("shards", "one.parquet"):
        assert main(["fit", place, formula, "--model", "poisson", "--quiet", "--name", place[:3]]) == 0
    scan, table = (flyrun.load(place).summary() for place in ("sha", "one"))
    assert [*scan.index] == [*table.index]
    assert abs(scan["mean"] - table["mean"]).loc[["x", name]].max() < 0.1 * table["sd"].loc[name]


def fraud(rng, n=4_000):
    """Classes, and columns that do not tell them apart."""
    return {"a": rng.normal(size=n), "b": rng.normal(size=n), "fraud": (rng.random(n) < 0.3).astype(int)}


def beyond(table):
    return {"a": table["a"], "b": 2.0 * table["fraud"] + 0.9 * np.tanh(table["b"]), "fraud": table["fraud"]}


def together(table):
    return table | {"b": table["a"] + 0.2 * table["fraud"] - 0.1}


APART = {
    "one": (beyond, "b tells 0 and 1 apart in every row: only the prior keeps its coefficient"),
    "all": (together, "the columns together tell fraud's classes apart in every row"),
}


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("broken", [False, True])
@pytest.mark.parametrize("case", APART)
def test_a_scan_says_what_tells_the_classes_apart_as_one_table_does(case, broken):
    """In every row: one row that a pilot need not meet unsays it."""
    change, said = APART[case]
    rows = change(fraud(np.random.default_rng(0)))
    if broken:
        k = len(rows["fraud"]) - 1
        rows["fraud"][k] = 1 - rows["fraud"][k]
    for place in both(rows):
        fit = flyrun.fit(place, "fraud ~ a + b")
        assert any(said in line for line in fit.checks()["caveats"]) != broken, place


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("model", ["gaussian", "gamma", "student_t"])
def test_a_row_that_decides_alone_is_said(model):
    """Of a claim of 10⁸ among thousands; a Student-t regression is hardly moved by it."""
    rng = np.random.default_rng(0)
    age = rng.integers(18, 90, 3_000)
    rows = {"age": age, "amount": rng.gamma(2.0, 500.0 * np.exp(0.01 * (age - 50)))}
    for broken in (False, True):
        for place in both(with_one("amount", 1e8)(rows) if broken else rows):
            caveats = flyrun.fit(place, "amount ~ age", model=model).checks()["caveats"]
            lines = [line for line in caveats if "amount: one row, 100000000, has 100 %" in line]
            assert bool(lines) == (broken and model != "student_t"), place


def test_a_folder_of_data_that_has_a_fits_name_is_not_taken_for_it(capsys):
    place, one = both(columns(np.random.default_rng(0)))
    runs = {place: place, one: "b"}
    fits = {data: flyrun.fit(data, FORMULA, model="poisson", name=run) for data, run in runs.items()}
    assert flyrun.load(place).summary().equals(fits[place].summary())
    assert main(["compare", place, "b"]) == 0  # what changed, as rows of a scan are not read again
    assert "sds are of independent fits" in capsys.readouterr().out
    for file, out in ((place, place), ("s3://bucket/new.parquet", "s3://bucket/new")):
        assert main(["predict", "b", file]) == 2
        assert f"name a folder for them, as --out {out}_predictions" in capsys.readouterr().err
    assert main(["predict", "b", f"{place}/part-0.parquet", "--out", "out.parquet"]) == 0
