"""Neighbouring row groups of few rows are read as one: the same rows, each named by its own file."""

import numpy as np
import pytest

pyarrow = pytest.importorskip("pyarrow")
import pyarrow.parquet as parquet  # noqa: E402  (an extra)

from flyrun.fitting.request import Request  # noqa: E402  (late, as above)
from flyrun.fitting.scan import joined_groups, many_files, row_groups, table_files  # noqa: E402  (as above)
from flyrun.ground.errors import DataError  # noqa: E402  (as above)

FILES, ROWS = 640, 20


def columns(rng, n):
    """Two columns of numbers, one of text, a target of counts."""
    x = rng.standard_normal((2, n)).astype(np.float32)
    land = rng.choice(["no", "se", "dk"], n)
    y = rng.poisson(np.exp(0.3 * x[0] - 0.2 * (land == "se")))
    return {"x0": x[0], "x1": x[1], "land": land, "y": y}


def write(folder, columns, change=lambda k, own: own):
    """Rows in many files. change: what becomes of the table of file k."""
    folder.mkdir(parents=True)
    for k in range(FILES):
        rows = slice(ROWS * k, ROWS * (k + 1))
        own = pyarrow.table({name: values[rows] for name, values in columns.items()})
        parquet.write_table(change(k, own), folder / f"part-{k:03}.parquet")
    return folder


@pytest.fixture(scope="module")
def held():
    return columns(np.random.default_rng(5), FILES * ROWS)


@pytest.fixture(scope="module")
def folder(held, tmp_path_factory):
    return write(tmp_path_factory.mktemp("small") / "shards", held)


def test_few_rows_are_read_together_and_no_row_is_lost(folder, held):
    joined = joined_groups.joined(table_files.find(str(folder)))
    assert [block.number for block in joined.blocks] == [*range(64)]
    assert {block.rows for block in joined.blocks} == {200}
    parts = [part for block in joined.blocks for part in row_groups.parts(block, ("x0", "y"), {})]
    assert np.array_equal(np.concatenate([part.columns[0] for part in parts]), held["x0"])
    texts, codes = row_groups.coded(joined.blocks[3], ("land",))[0]
    assert [texts[code] for code in codes] == held["land"][600:800].tolist()


def test_a_table_of_few_row_groups_is_read_as_it_is(folder, tmp_path):
    few = table_files.find(str(folder / "part-00*.parquet"))
    assert joined_groups.joined(few) == few


def test_files_of_other_folders_names_are_not_read_as_one(tmp_path, held):
    for year in (1, 2):
        write(tmp_path / f"year={year}", held)
    joined = joined_groups.joined(table_files.find(str(tmp_path)))
    assert all(len({one.file.named for one in block.each}) == 1 for block in joined.blocks)


def test_files_of_other_types_are_read_as_they_are(tmp_path, held):
    def change(k, own):
        return own.set_column(0, "x0", own["x0"].cast(pyarrow.float64())) if k % 7 == 0 else own

    joined = joined_groups.joined(table_files.find(str(write(tmp_path / "shards", held, change))))
    parts = [part for block in joined.blocks for part in row_groups.parts(block, ("x0",), {})]
    assert np.array_equal(np.concatenate([part.columns[0] for part in parts]), held["x0"])
    assert len(parts) > len(joined.blocks)


def test_a_bad_value_is_named_by_its_own_file(tmp_path, held):
    def change(k, own):
        y = own["y"].to_pylist()
        return own.set_column(3, "y", pyarrow.array([*y[:7], None, *y[8:]] if k == 437 else y))

    request = Request(str(write(tmp_path / "shards", held, change)), "y", "poisson", results_dir=tmp_path)
    with pytest.raises(
        DataError, match=r"part-437\.parquet: row group 0, row 7, column y: a value is missing"
    ):
        many_files.answer(request, None)


@pytest.mark.thorough
def test_the_posterior_is_that_of_one_file_and_of_any_number_of_workers(tmp_path, folder, held):
    whole = tmp_path / "whole.parquet"
    parquet.write_table(pyarrow.table(held), whole)

    def rows(file, name, workers):
        request = Request(str(file), "y", "poisson", name=name, workers=workers, results_dir=tmp_path)
        return many_files.answer(request, None).rows

    found, expected = rows(folder, "a", 1), rows(whole, "c", 1)
    assert found == rows(folder, "b", 2)
    for own, other in zip(found, expected, strict=True):
        assert abs(own["mean"] - other["mean"]) < 0.1 * other["sd"]


def test_a_pilot_takes_the_first_files_of_those_that_are_read_as_one(folder):
    block = joined_groups.joined(table_files.find(str(folder))).blocks[5]
    part = row_groups.head(block, ("x0", "y"), {}, 50)
    assert (len(part.place), part.share) == (60, 0.3)
    assert block.row(int(part.place[-1])).endswith("part-052.parquet: row group 0, row 19")
    with pytest.raises(IndexError):
        block.row(200)
