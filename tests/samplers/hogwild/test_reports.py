"""What a report says of rounds of many workers, on small runs."""

import csv
from pathlib import Path

import pytest

from flyrun.cli.main import main

pytestmark = pytest.mark.slow  # whole runs


def rows(name):
    """The run's table, by arm."""
    return {
        row["arm"]: row
        for row in csv.DictReader(Path(f"results/runs/{name}/table.csv").read_text().splitlines())
    }


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_gaussians_beside_theory_and_one_that_diverges(capsys):
    words = ["experiment=hogwild_gaussian", "protocol=smoke", "protocol.seeds=1", "executor.workers=1"]
    assert main([*words, "only=[serial,each_equal]", "arms.each_equal.dataset.coupling=0.12"]) == 1
    assert "diverges: rho = 1.32" in capsys.readouterr().out
    found = rows("hogwild_gaussian")
    assert float(found["serial"]["expected_covariance_off"]) < 1e-12
    assert float(found["serial"]["updates_in_all"]) == float(found["serial"]["critical_in_all"]) == 3600
    assert "Beside theory" in Path("results/runs/hogwild_gaussian/report.md").read_text()


def test_threads_are_real_and_pairs_stand_beside_the_right_ones():
    words = ["experiment=chromatic", "protocol=smoke", "protocol.seeds=1", "executor.workers=1"]
    assert main([*words, "only=[one_thread,two_threads]", "dataset.rows=6"]) == 0
    found = rows("chromatic")
    assert found["two_threads"]["workers"] == "2.0"
    assert found["two_threads"]["correlation"] == found["one_thread"]["correlation"]
    assert float(found["one_thread"]["right_correlation"]) == pytest.approx(0.337, abs=0.01)
    assert float(found["two_threads"]["critical_in_all"]) == 18_000
    assert "Correlation of neighbours" in Path("results/runs/chromatic/report.md").read_text()
