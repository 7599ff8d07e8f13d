"""A person's own table: what becomes of its columns, and what is said of what cannot be used."""

import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from flyrun.experiments import data
from flyrun.experiments.config.arm import Arm
from flyrun.experiments.config.bound import NoBound
from flyrun.experiments.config.brightness import NoBrightness
from flyrun.experiments.config.prior import Gaussian
from flyrun.experiments.config.protocol import Protocol
from flyrun.experiments.config.sampler.chain import Hmc
from flyrun.experiments.models import logistic
from flyrun.families.options import StudentT
from flyrun.ground import sources
from flyrun.ground.errors import DataError
from flyrun.ground.mapped import expect
from flyrun.tables import loader as table
from flyrun.tables import piece_cache, reading, text_table
from flyrun.tables import pieces as table_files
from flyrun.tables.options import Table
from flyrun.tables.seen import Seen
from flyrun.tables.text_table import TextTable


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Writes text as a file and returns the settings that name it."""
    monkeypatch.setenv("FLYRUN_CACHE", str(tmp_path / "cache"))

    def write(text, name="mine.csv", **settings):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return Table(path=str(path), **{"target": "y", **settings})

    return write


def smaps(name):
    """What the system was told of this process's mapping of a file: its VmFlags."""
    told = Path("/proc/self/smaps").read_text().partition(name)[2]
    return next(line for line in told.splitlines() if line.startswith("VmFlags"))


def people(n=500):
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": rng.integers(20, 60, n),
            "colour": rng.choice(["red", "blue", "green"], n),
            "zip": rng.choice([2, 10, 1], n),
            "member": rng.choice(["TRUE", "FALSE"], n),
            "y": rng.normal(3.0, 2.0, n),
        }
    )


def test_numbers_are_standardised_and_categories_coded_against_their_first_level(write):
    frame = people()
    rows = data.load(write(frame.to_csv(index=False), categorical=("zip",)))
    names = ("age", "colour[green]", "colour[red]", "zip[2]", "zip[10]", "member[TRUE]", "intercept")
    assert rows.feature_names == names
    age = (frame.age - frame.age.mean()) / frame.age.std(ddof=0)
    np.testing.assert_allclose(rows.features[:, 0], age, rtol=1e-10)
    np.testing.assert_array_equal(rows.features[:, 2], frame.colour == "red")
    np.testing.assert_array_equal(rows.features[:, 4], frame.zip == 10)
    np.testing.assert_array_equal(rows.features[:, 5], frame.member == "TRUE")
    np.testing.assert_array_equal(rows.features[:, 6], 1.0)
    aim = rows.info["layout"]["target"]
    np.testing.assert_allclose(rows.target * aim["sd"] + aim["mean"], frame.y, rtol=1e-10)
    raw = data.load(write(frame.to_csv(index=False), standardize=False, features=("age",)))
    np.testing.assert_array_equal(raw.features[:, 0], frame.age)
    np.testing.assert_array_equal(raw.target, frame.y)


@pytest.mark.thorough(but=2)
@pytest.mark.parametrize(
    ("values", "task", "coded"),
    [
        (["no", "yes", "no", "yes"], "binary", [-1, 1, -1, 1]),
        (["3", "7", "7", "3"], "binary", [-1, 1, 1, -1]),
        (["TRUE", "FALSE", "TRUE", "FALSE"], "binary", [1, -1, 1, -1]),
        (["b", "a", "c", "a"], "classes", [1, 0, 2, 0]),
        (["0.5", "1.5", "3", "2"], "regression", None),
        (["12", "15", "13", "14"] + [str(30 + k) for k in range(20)], "regression", None),
    ],
)
def test_the_target_decides_the_task(write, values, task, coded):
    text = "x,y\n" + "".join(f"{k + 2},{value}\n" for k, value in enumerate(values))
    rows = data.load(write(text))
    assert rows.task == task
    if coded is not None:
        np.testing.assert_array_equal(rows.target, coded)
    if task == "classes":
        assert data.load(write(text.replace("a", "4"), task="classes")).target.dtype == np.int64


@pytest.mark.parametrize("values", [["10", "9", "2", "9"], ["0", "1", "2", "3", "4"]])
def test_whole_numbers_that_may_be_counts_or_classes_are_no_target_until_the_model_says(write, values):
    """What the target is for is never guessed where two models would take it."""
    text = "x,y\n" + "".join(f"{k % 3},{value}\n" for k, value in enumerate(values))
    choices = "model=poisson or .*, model=softmax if .*, model=ordinal if .*, model=student_t"
    with pytest.raises(DataError, match=f"or measurements; choose {choices}"):
        data.load(write(text))
    codes = np.unique([int(value) for value in values], return_inverse=True)[1]
    np.testing.assert_array_equal(data.load(write(text, task="classes")).target, codes)
    assert data.load(write(text, task="regression")).task == "regression"
    assert data.load(write(text, categorical=("y",))).task == "classes"


@pytest.mark.parametrize("name", ["mine.csv", "mine.csv.gz", "mine.npz"])
@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("within_the_clock", [False, True])
def test_a_file_that_changes_while_it_is_read_is_refused(write, monkeypatch, name, mapped, within_the_clock):
    """One fact is taken from the world once: columns' scales of a file before it grew, rows of it after."""
    settings, x = write("", name), np.arange(50) ** 1.5
    path = Path(settings.path)

    def fill(x):
        if name == "mine.npz":
            np.savez(path, x=x, y=x % 2)
        else:
            pd.DataFrame({"x": x, "y": x % 2 > 1}).to_csv(path, index=False)

    fill(x)
    if mapped:
        monkeypatch.setattr(table, "IN_MEMORY", 0)
    if not within_the_clock:
        os.utime(path, ns=(0, 0))
        monkeypatch.setattr(table, "_SETTLED_NS", -1)
    layout = reading.Reading.layout

    def grows(self):
        found, before = layout(self), path.stat()
        fill(np.r_[x, x * 100] if not within_the_clock else x[::-1])
        if within_the_clock:  # as long, and said to be as old
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
            monkeypatch.setattr(table, "_state", lambda _: state)
        return found

    state = table._state(path)
    monkeypatch.setattr(reading.Reading, "layout", grows)
    with pytest.raises(DataError, match=r"changed while it was in use; wait until it is written"):
        data.load(settings)
    assert not list(path.parent.glob("cache/tables/*/features.npy"))
    monkeypatch.undo()


def test_an_arm_reads_the_table_as_its_model_needs():
    arm = Arm(
        "e", "a", Table(), StudentT(), Gaussian(), NoBound(), NoBrightness(),
        Hmc(), Protocol(),
    )  # fmt: skip
    assert arm.dataset.task == "regression"


@pytest.mark.thorough
def test_pieces_give_the_rows_of_the_whole(write, monkeypatch):
    # "2" is a number in the first pieces; the last make the column text
    frame = people(5000).assign(mixed=["2"] * 4998 + ["b", "2"], flag=["True"] * 4000 + ["False"] * 1000)
    settings = write(frame.to_csv(index=False))
    whole = data.load(settings)
    monkeypatch.setattr(table_files, "_CELLS", 1)  # 1,000 rows at a time
    pieces = data.load(settings)
    assert pieces.feature_names == whole.feature_names
    assert "mixed[b]" in whole.feature_names
    np.testing.assert_allclose(pieces.features, whole.features, rtol=1e-12)
    first = write(frame.to_csv(index=False), limit=1700, drop=("mixed", "flag"))
    assert len(data.load(first).target) == 1700


def test_what_was_read_is_kept_where_there_is_room(write, monkeypatch):
    settings = write(people(5000).to_csv(index=False))
    whole, readings, read = data.load(settings), [], table_files.pieces
    monkeypatch.setattr(table_files, "_CELLS", 1)
    monkeypatch.setattr(piece_cache, "_IN_MEMORY", 1000)
    monkeypatch.setattr(
        table_files, "pieces", lambda *words, **how: readings.append(words) or read(*words, **how)
    )
    from_disk = data.load(settings)
    # once, and once more for truth values, whose spelling the first reading does not keep
    assert len(readings) == 2
    monkeypatch.setattr(piece_cache.Kept, "_keep", lambda *_: (_ for _ in ()).throw(OSError("no room")))
    anew = data.load(settings)
    assert len(readings) == 2 + 3
    for one in (from_disk, anew):
        np.testing.assert_allclose(one.features, whole.features, rtol=1e-12)
        assert one.info == whole.info


def test_parquet_is_read_twice_and_text_once(write, tmp_path, monkeypatch):
    parquet = pytest.importorskip("pyarrow.parquet")
    assert parquet
    frame = people(3000)[["age", "zip", "y"]]
    frame.to_parquet(tmp_path / "mine.parquet", index=False)
    readings, read = [], table_files.pieces
    monkeypatch.setattr(
        table_files, "pieces", lambda path, *rest, **how: readings.append(path) or read(path, *rest, **how)
    )
    from_text = data.load(write(frame.to_csv(index=False, float_format="%.17g")))
    assert len(readings) == 1
    found = data.load(Table(path=str(tmp_path / "mine.parquet"), target="y"))
    assert len(readings) == 3
    np.testing.assert_allclose(found.features, from_text.features, rtol=1e-12)


def test_names_in_quotes_leave_lines_to_all_cores_and_quoted_values_do_not(write, monkeypatch):
    alone, one_by_one = [], TextTable._one_by_one
    monkeypatch.setattr(TextTable, "_one_by_one", lambda *all: alone.append(1) or one_by_one(*all))
    rows = "".join(f"{k},{k % 7},{k % 2}\n" for k in range(2, 52))
    found = data.load(write('"x, cm","a","y"\n' + rows))
    assert found.feature_names[:2] == ("x, cm", "a")
    assert not alone
    np.testing.assert_array_equal(data.load(write('"x\ncm","a","y"\n' + rows)).features, found.features)
    assert len(alone) == 1
    quoted = data.load(write('x,a,y\n"2",2,0\n' + rows[6:]))
    np.testing.assert_array_equal(quoted.features, found.features)
    assert len(alone) == 2


def test_a_digest_is_kept_until_the_file_may_have_changed(write, monkeypatch):
    settings = write("x,y\n1,0\n2,1\n")
    path, looked, digest = Path(settings.path), [], sources.sha256_of
    monkeypatch.setattr(sources, "sha256_of", lambda path: looked.append(path) or digest(path))

    def found():
        table._sha256.cache_clear()
        return table.fingerprint(settings)

    first = found()
    assert found() == first
    assert len(looked) == 2  # a file as new as this one may change again unseen
    monkeypatch.setattr(table, "_SETTLED_NS", -1)
    assert [found(), found()] == [first, first]
    assert len(looked) == 3
    before = path.stat()
    path.write_text("x,y\n3,0\n2,1\n")  # as long, and said to be as old
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert found() != first


def test_large_tables_are_mapped_from_the_cache(write, monkeypatch):
    found = write(people(3000).to_csv(index=False))
    settings = write(people(3000).to_csv(index=False), task="regression")
    whole = data.load(settings)
    monkeypatch.setattr(table, "IN_MEMORY", 1000)
    mapped = data.load(found)  # what it is found to be is kept for those who know
    assert mapped.features.dtype == np.float32
    assert isinstance(mapped.features.base, np.memmap)
    np.testing.assert_allclose(mapped.features, whole.features, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(mapped.target, whole.target)
    monkeypatch.setattr(table_files, "pieces", lambda *_, **__: pytest.fail("read again"))
    again = data.load(settings)
    assert again.info == whole.info == mapped.info
    np.testing.assert_array_equal(again.features, mapped.features)


def test_large_tables_of_two_classes_are_mapped_folded(write, monkeypatch):
    settings = write(people(3000).to_csv(index=False), target="member", drop=("y",))
    whole = data.load(settings)
    assert (whole.task, whole.folded) == ("binary", False)
    monkeypatch.setattr(table, "IN_MEMORY", 1000)
    mapped = data.load(settings)
    assert mapped.folded
    np.testing.assert_array_equal(mapped.target, whole.target)
    folded = whole.features * whole.target[:, None]
    np.testing.assert_array_equal(mapped.features, folded.astype(np.float32))
    # a likelihood takes the rows where they lie
    _, rows = logistic.bind(mapped.features, None)
    assert np.shares_memory(rows.rows, mapped.features)
    assert not expect(whole.features, random=True)
    if sys.platform == "linux":
        assert expect(rows.rows, random=True)
        assert " rr " in smaps("features.npy")
        assert expect(rows.rows, random=False)
        assert " rr " not in smaps("features.npy")


def test_missing_values_are_refused_by_row_and_column_or_dropped_and_counted(write, monkeypatch):
    monkeypatch.setattr(table_files, "_CELLS", 1)
    frame = people(2500)
    frame.loc[[1200, 2300], "age"] = np.nan
    frame.loc[1200, "colour"] = None
    said = r"row 1200 \(line 1202 of the file\), column age has no value; .*2 of 2,500, .*missing=drop"
    with pytest.raises(DataError, match=said):
        data.load(write(frame.to_csv(index=False)))
    rows = data.load(write(frame.to_csv(index=False), missing="drop"))
    assert (len(rows.target), rows.info["dropped"]) == (2498, 2)
    assert len(data.load(write(frame.to_csv(index=False), drop=("age", "colour"))).target) == 2500
    kept = frame.dropna()
    np.testing.assert_allclose(rows.features[:, 0] * kept.age.std(ddof=0) + kept.age.mean(), kept.age)


def numbered(count, last):
    return "a,x,y\n" + "".join(f"{k},{k + 3},{k % 2}\n" for k in range(count)) + last


@pytest.mark.parametrize(
    ("text", "settings", "message"),
    [
        ("x,y\n1,0\n2\n3,1\n", {}, r"row 1 \(line 3 of the file\), column y has no value"),
        ("x,y\n1,0\n2,1,5\n3,1\n", {}, "Expected 2 fields in line 3, saw 3"),
        ("x,y\n1,0,7\n2,1,5\n", {}, "more values than the header"),
        ("x,y\n1,0\ninf,1\n", {}, r"row 1 \(line 3 of the file\), column x is inf"),
        ("x,y\n1,0\n1,1\n", {}, r"column x is 1 in every row.*dataset\.drop=\[x\]"),
        ("x,x,y\n1,2,0\n", {}, "two columns are called 'x'"),
        ("", {}, "empty line"),
        ("x,y\n", {}, "no row"),
        ("x,y\n1,0\n2,0\n", {}, "target y is 0 in every row"),
        ("x,y\n1,é\n2,b\n".encode("latin1"), {}, "utf-8"),
        ('x,y\n"1,0\n', {}, "EOF inside string"),
        (numbered(200, "abc,1,1\n"), {}, "column a holds numbers, but also 'abc'"),
        (numbered(200, "").replace("\n", "\nn", 200), {}, "more than 100 different values"),
        (
            numbered(200, ""),
            {"target": "a", "task": "binary"},
            "more than 100 values.* choose model=student_t",
        ),
        (
            numbered(200, ""),
            {"target": "a", "task": "classes"},
            "more than 100 different values.*model=student_t",
        ),
        ("x,y\n1,a\n2,b\n", {"task": "regression"}, r"holds text \('a'\)"),
        ("x,y\n1,0\n2,1\n", {"target": "yy"}, r"no column 'yy' \(did you mean y\?\); it has x and y"),
        ("x,y\n1,0\n2,1\n", {"target": None}, "name the column"),
        ("x,y\n1,0\n2,1\n", {"features": ("z",)}, r"dataset\.features: .* no column 'z'"),
        ("x,y\n1,0\n2,1\n", {"features": ("y",)}, "is the target"),
        ("x,y\n1,0\n2,1\n", {"name": "mine.xls"}, "no kind that can be read"),
        ("x,y\n1,0\n2,1\n", {"name": "mine.npz"}, "cannot be read"),
    ],
)
def test_what_cannot_be_used_is_said_in_one_line(write, text, settings, message):
    with pytest.raises(DataError, match=message) as caught:
        data.load(write(text, **settings))
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"dataset\.path=.*nothing\.csv: no such file"):
        data.fingerprint(Table(path=str(tmp_path / "nothing.csv"), target="y"))


def test_other_separators_and_compression(write, tmp_path):
    plain = data.load(write("x,y\n1,0\n2,1\n3,1\n"))
    for name, separator in (("a.csv", ";"), ("a.tsv", "\t")):
        rows = data.load(write("x,y\n1,0\n2,1\n3,1\n".replace(",", separator), name))
        np.testing.assert_array_equal(rows.features, plain.features)
    pd.DataFrame({"x": [1, 2, 3], "y": [0, 1, 1]}).to_csv(tmp_path / "a.csv.gz", index=False)
    rows = data.load(Table(path=str(tmp_path / "a.csv.gz"), target="y"))
    np.testing.assert_array_equal(rows.features, plain.features)


def test_arrays_of_an_npz_file_are_columns(write, tmp_path, monkeypatch):
    monkeypatch.setattr(table_files, "_CELLS", 1)
    rng = np.random.default_rng(0)
    x, f, y = rng.normal(size=(2500, 2)), np.asfortranarray(rng.normal(size=(2500, 2))), rng.normal(size=2500)
    np.savez(tmp_path / "a.npz", x=x, f=f, kind=np.array(["u", "v"] * 1250), y=y)
    rows = data.load(Table(path=str(tmp_path / "a.npz"), target="y", standardize=False))
    assert rows.feature_names == ("x[0]", "x[1]", "f[0]", "f[1]", "kind[v]", "intercept")
    np.testing.assert_array_equal(rows.features[:, :4], np.hstack([x, f]))
    np.testing.assert_array_equal(rows.features[:, 4], np.arange(2500) % 2)
    np.testing.assert_array_equal(rows.target, y)
    np.savez(tmp_path / "a.npz", x=x, y=y[:-1])
    with pytest.raises(DataError, match="one number of rows"):
        data.load(Table(path=str(tmp_path / "a.npz"), target="y"))
    np.savez(tmp_path / "a.npz", x=x, y=np.array([None] * 2500))
    with pytest.raises(DataError, match="must be numbers or text"):
        data.load(Table(path=str(tmp_path / "a.npz"), target="y"))


def test_parquet_gives_the_rows_of_the_csv(write, tmp_path):
    pytest.importorskip("pyarrow")
    frame = people()
    frame["member"] = frame["member"] == "TRUE"
    frame.to_parquet(tmp_path / "a.parquet")
    rows = data.load(Table(path=str(tmp_path / "a.parquet"), target="y"))
    wanted = data.load(write(frame.to_csv(index=False)))
    assert rows.feature_names == wanted.feature_names
    np.testing.assert_allclose(rows.features, wanted.features, rtol=1e-12)


def test_parquet_without_its_reader_names_the_extra(write, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(DataError, match=r"flyrun\[parquet\]"):
        data.load(write(b"PAR1", "a.parquet"))


def test_moments_over_pieces_are_those_of_the_whole():
    rng = np.random.default_rng(3)
    values = rng.normal(1e6, 1.0, 10_000)
    seen = Seen("x")
    for part in np.array_split(values, 17):
        seen.add_numbers(part)
    assert seen.standing.mean == pytest.approx(values.mean(), rel=1e-14)
    assert np.sqrt(seen.standing.variance) == pytest.approx(values.std(), rel=1e-9)


def test_a_changed_file_has_another_fingerprint(write):
    settings = write("x,y\n1,0\n2,1\n")
    first = data.fingerprint(settings)
    assert first == data.load(settings).sha256
    assert data.fingerprint(write("x,y\n1,0\n2,1\n3,1\n")) != first


def test_feather_gives_the_rows_of_the_csv(write, tmp_path):
    feather = pytest.importorskip("pyarrow.feather")
    frame = pd.DataFrame({"x": np.arange(40.0) % 7, "c": pd.Categorical(list("aabb") * 10), "y": [0, 1] * 20})
    feather.write_feather(frame, tmp_path / "a.feather", chunksize=9)
    frame.to_csv(tmp_path / "a.csv", index=False)
    by_feather, by_csv = (
        data.load(Table(path=str(tmp_path / name), target="y")) for name in ("a.feather", "a.csv")
    )
    np.testing.assert_allclose(by_feather.features, by_csv.features, rtol=1e-12)
    np.testing.assert_array_equal(by_feather.target, by_csv.target)
    assert by_feather.feature_names == by_csv.feature_names


ODD = {
    "plain": "a,b,c,d,e\n1,2,3,4,5\n6,7,8,9,10\n",
    "blanks and nothing": "a, b,c,d,e\n1, 2,,4,5\n\n6,NA,8, 9,10\n",
    "zeros ahead": "a,b,c,d,e\n01,2,3,4,5\n6,007,8,09,10\n",
    "carriage returns": "a,b,c,d,e\r\n1,2,3,4,5\r\n6,7,8,9,x\r\n",
    "a short row": "a,b,c,d,e\n1,2,3,4,5\n6,7\n",
    "a long row": "a,b,c,d,e\n1,2,3,4,5\n6,7,8,9,10,11\n",
    "a long first row": "a,b,c,d,e\n1,2,3,4,5,6\n6,7,8,9,10\n",
    "a long last row": "a,b,c,d,e\n1,2,3,4,5\n6,7,8,9,10,11",
    "a separator at the end": "a,b,c,d,e\n1,2,3,4,5,\n6,7,8,9,10,\n",
    "quotes": 'a,b,c,d,e\n1,"2",3,4,5\n6,7,8,"9,9",10\n',
}


@pytest.mark.thorough(but=5)
@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("text", [(), ("b",)])
def test_few_columns_of_many_are_read_as_all_would_be(tmp_path, monkeypatch, kind, text):
    (tmp_path / "odd.csv").write_text(ODD[kind])

    def read(few):
        monkeypatch.setattr(text_table, "_FEW", few)
        try:
            found = list(table_files.pieces(tmp_path / "odd.csv", ["b"], Table(), set(text)))
        except DataError as error:
            return str(error)
        return pd.concat(found), [set(one.attrs.get(text_table.ZEROS, ())) & {"b"} for one in found]

    whole, some = read(0.0), read(1.0)
    if isinstance(whole, str):
        assert some == whole
    else:
        pd.testing.assert_frame_equal(some[0], whole[0])
        assert some[1] == whole[1]


def test_of_a_wide_table_only_the_columns_asked_for_are_parsed(tmp_path, monkeypatch):
    frame = pd.DataFrame(np.arange(1200.0).reshape(3, 400), columns=[f"c{k}" for k in range(400)])
    frame.to_csv(tmp_path / "wide.csv", index=False)
    parsed, read_csv = [], pd.read_csv

    def counted(*args, **how):
        found = read_csv(*args, **how)
        parsed.append(found.shape)
        return found

    monkeypatch.setattr(pd, "read_csv", counted)
    (found,) = table_files.pieces(tmp_path / "wide.csv", ["c7", "c3"], Table(), set())
    assert found["c3"].tolist() == [3.0, 403.0, 803.0]
    assert parsed[-1] == (3, 2)
