"""What one table refuses or says of its columns, a scan does too; and guards of a fit's folder and files."""

from pathlib import Path

import numpy as np
import pytest

import flyrun
from flyrun.cli.main import main
from flyrun.fitting.scan import row_weights
from flyrun.ground.errors import StoreError
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


def test_results_are_written_to_no_address(capsys):
    place, _ = both(table(np.random.default_rng(0), 800))
    line = refused(capsys, place, "--target", "y", "--results-dir", "s3://bucket/results")
    assert "s3:/bucket/results/runs/shards: is an address, where nothing is written" in line
    assert not Path("s3:").exists()
