"""Faults of files and of the command's machine in a scan: one line, exit code 2, and what is done is kept."""

import errno
import os
from pathlib import Path

import numpy as np
import pytest

import flyrun
from flyrun.cli.main import main
from flyrun.fitting import table_posterior
from flyrun.fitting.scan import kept_sums, mappers, row_weights, rows_to_come, stages
from flyrun.ground import addresses, files
from tests.fit.test_scan import rewrite, table, write

parquet = pytest.importorskip("pyarrow.parquet")
pyarrow = pytest.importorskip("pyarrow")
FIT = ["fit", "shards", "--target", "y", "--quiet"]


@pytest.fixture(autouse=True)
def shards(tmp_path, monkeypatch):
    """Four files in the current folder; few draws, and no reports."""
    monkeypatch.setattr("flyrun.fitting.second_process.report", lambda folder: None)
    monkeypatch.setattr("flyrun.ground.page.document.show", lambda *words: None)
    monkeypatch.setattr(row_weights, "DRAWS", 1_000)
    monkeypatch.setattr(row_weights, "_BY_CHAINS", 500)
    monkeypatch.chdir(tmp_path)
    return write(Path("shards"), table(np.random.default_rng(0), 800))


@pytest.fixture
def refused(capsys):
    """Gives the one line that a command says which ends with exit code 2."""

    def line(words=FIT):
        assert main(list(words)) == 2
        (said,) = capsys.readouterr().err.splitlines()
        assert not Path("results/runs/shards/posterior.nc").exists()
        return said

    return line


def column(path, name, values):
    """Write a file with another column of this name."""
    rewrite(
        path, lambda rows: rows.set_column(rows.schema.get_field_index(name), name, pyarrow.array(values))
    )


def flip(path):
    """Another byte in a page of a file."""
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 3] ^= 255
    path.write_bytes(raw)


def test_changed_bytes_in_a_page_are_refused_where_pages_have_checksums(shards, refused):
    path = shards / "part-2.parquet"
    parquet.write_table(parquet.read_table(path), path, write_page_checksum=True)
    flip(path)
    assert "part-2.parquet: row group 0 cannot be read" in refused()


def test_whole_numbers_in_one_file_are_numbers(shards):
    column(shards / "part-2.parquet", "x0", np.arange(200))
    assert main(FIT) == 0


def test_numbers_in_one_file_and_truths_in_another_are_refused(shards, refused):
    column(shards / "part-2.parquet", "x0", [True, False] * 100)
    said = refused()
    assert "part-2.parquet: column 'x0' holds true and false, in shards/part-0.parquet numbers" in said
    column(shards / "part-2.parquet", "x0", [1.0, 0.0] * 100)  # the remedy
    assert main(FIT) == 0


def test_a_file_without_rows_is_passed_over(shards):
    rewrite(shards / "part-2.parquet", lambda rows: rows.slice(0, 0))
    assert main(FIT) == 0


def test_files_without_any_row_are_refused(shards, refused):
    for path in shards.iterdir():
        rewrite(path, lambda rows: rows.slice(0, 0))
    assert "shards: holds no rows" in refused()


def test_a_file_of_no_bytes_is_named(shards, refused):
    (shards / "part-1.parquet").write_bytes(b"")
    assert "part-1.parquet: is no whole Parquet file" in refused()


def test_a_pattern_that_no_file_matches(refused):
    said = refused(["fit", "shards/*.pq", "--target", "y", "--quiet"])
    assert "shards/*.pq: no Parquet file has such a name" in said
    assert "'folder/*.parquet'" in said


def test_a_file_that_may_not_be_read_is_named(shards, refused, monkeypatch):
    (shards / "part-1.parquet").chmod(0)
    if os.access(shards / "part-1.parquet", os.R_OK):  # as an administrator, who may read all

        def opened(path, *words):
            if str(path).endswith("part-1.parquet"):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            return open(path, *words)

        monkeypatch.setattr(addresses, "open", opened, raising=False)
    assert "part-1.parquet: cannot be read (Permission denied)" in refused()


def test_a_full_disk_keeps_what_is_done(refused, monkeypatch):
    write_bytes, room = files.write_bytes, 6

    def write_while_there_is_room(path, content):
        nonlocal room
        if path.parent.name == "scan":
            if not room:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            room -= 1
        write_bytes(path, content)

    monkeypatch.setattr(files, "write_bytes", write_while_there_is_room)
    assert "cannot be written (No space left on device); make room" in refused()
    assert len(list(Path("results/runs/shards/scan").iterdir())) == 6
    room = 1_000  # the remedy
    put = []
    monkeypatch.setattr(
        kept_sums.Kept,
        "put",
        lambda self, key, one, real=kept_sums.Kept.put: put.append(key) or real(self, key, one),
    )
    assert main(FIT) == 0
    assert not Path("results/runs/shards/scan").exists()
    assert len(put) == len(set(put)) > 0


def test_a_file_that_changes_between_stages(shards, refused, monkeypatch):
    look_at = mappers.Mapper.__call__

    def change(self, look, groups, words):
        if words.startswith("scan"):
            write(Path("shards"), table(np.random.default_rng(1), 804))
        return look_at(self, look, groups, words)

    with monkeypatch.context() as patched:
        patched.setattr(mappers.Mapper, "__call__", change)
        assert "changed while it was in use; wait until it is written" in refused()
    assert list(Path("results/runs/shards/scan").iterdir())  # the pilot's
    assert main(FIT) == 0  # the remedy


def test_more_rows_than_the_memory_holds_are_refused(refused, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(mappers, "memory", lambda: 8 * 20_000)
        said = refused()
    assert "GB of rows have come here" in said
    assert "--drop, or give the command where there is more memory" in said
    assert main(FIT) == 0  # the remedy


def test_a_scan_that_would_move_too_many_rows_is_refused(refused, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(rows_to_come, "_MOST_BYTES", 20_000)
        said = refused()
        assert "rows a draw would travel" in said
        assert "use fewer columns with --drop, or more rows" in said
        assert main([*FIT, "--drop", "x1,x2,x3"]) == 0  # the remedy


@pytest.mark.parametrize("remedy", [["--features", "x0,x2"], ["--drop", "x1,x3"]])
def test_more_coefficients_than_can_be_moved_together_are_refused(refused, monkeypatch, remedy):
    monkeypatch.setattr(table_posterior, "_MOST_PARAMETERS", 3)
    assert "name fewer columns with --features, or leave some out with --drop" in refused()
    assert main([*FIT, *remedy]) == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["y ~ x0 + s(x2)"],
            "smooths, as s(x2), are not for a scan of many files; fit them as one file, or write bs(x2",
        ),
        (["y ~ x0", "--by", "x2"], "--by: a formula is not for levels of many files; name columns with"),
        (["y ~ x0 + y"], "names y, which is the target"),
        (["y ~ log(x0)"], "log(x0) is nan; mend the row or the formula"),
    ],
)
def test_what_a_formula_of_many_files_cannot_hold_is_refused(refused, words, said):
    assert said in refused(["fit", "shards", *words, "--quiet"])


@pytest.mark.thorough
def test_the_log_of_a_target_is_refused_with_a_remedy(shards, refused):
    for path in shards.iterdir():
        rewrite(path, lambda rows: rows.append_column("paid", pyarrow.compute.exp(rows["x0"])))
    said = refused(["fit", "shards", "log(paid) ~ x2", "--quiet"])
    assert "name paid itself, as with --model gamma, whose coefficients are of the log of its mean" in said
    assert main(["fit", "shards", "paid ~ x2", "--quiet", "--model", "gamma"]) == 0


def test_a_column_of_too_many_texts_is_refused(shards, refused):
    for k, path in enumerate(sorted(shards.iterdir())):
        rewrite(path, lambda rows, k=k: rows.append_column("who", [[f"{k}-{i % 60}" for i in range(200)]]))
    assert "leave the column out with --drop who" in refused()
    assert main([*FIT, "--drop", "who"]) == 0  # the remedy


def test_a_frame_of_dask_is_refused_with_a_remedy(shards):
    lazy = type("DataFrame", (), {"__module__": "dask.dataframe"})()
    with pytest.raises(TypeError, match=r"use its to_parquet\(FOLDER\), and give that name"):
        flyrun.fit(lazy, "y")
    assert flyrun.fit(str(shards), "y").checks()["agreed"]  # the remedy: what to_parquet writes


@pytest.mark.thorough
def test_draws_that_cannot_be_certified_are_not_written(refused, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(row_weights, "MOST_VARIANCE", -1.0)
        patched.setattr(stages, "_ALL_ROWS", 0)  # of more rows than can all travel
        said = refused()
    assert "no posterior is written, because after 3 scans the log weights' variance is" in said
    assert main(FIT) == 0


def test_an_address_alone_is_of_dask(refused, monkeypatch):
    client = pytest.importorskip("distributed").Client
    from flyrun.fitting.scan import dask_mapper

    monkeypatch.setattr(dask_mapper, "_PATIENCE_S", 0.0)
    monkeypatch.setattr(
        dask_mapper.distributed, "Client", lambda *words, timeout: client(*words, timeout=0.2)
    )
    said = refused([*FIT, "executor.address=tcp://127.0.0.1:9"])
    assert "executor.address=tcp://127.0.0.1:9: no Dask scheduler with a worker answers" in said
    assert "the same command goes on" in said


def test_slurm_is_asked_for_where_it_is(refused):
    pytest.importorskip("dask_jobqueue")
    assert "this machine has no sbatch" in refused([*FIT, "executor=dask", "executor.slurm.jobs=2"])


def test_an_unknown_column_is_refused_with_those_that_there_are(shards, refused):
    assert "there are x0, x1, x2, x3 and y" in refused(["fit", "shards", "--target", "z", "--quiet"])
    for path in shards.iterdir():
        rewrite(path, lambda rows: rows.append_column("a", rows["x0"]).append_column("b", rows["x1"]))
        rewrite(path, lambda rows: rows.append_column("c", rows["x0"]).append_column("d", rows["x1"]))
    said = refused(["fit", "shards", "--target", "z", "--quiet"])
    assert said.endswith("no such column; there are x0, x1, x2, x3, y, a and 3 more")


def test_a_csv_on_dask_is_told_what_a_scan_reads(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.csv").write_text("x,y\n" + "1,0\n2,1\n" * 20)
    assert main(["fit", "mine.csv", "--target", "y", "executor=dask"]) == 2
    assert "mine.csv: is no Parquet file, and a scan" in capsys.readouterr().err
    assert main(["fit", "mine.csv", "--target", "y"]) == 0  # as the line says
