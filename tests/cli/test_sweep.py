"""The table of a sweep: a row for each job and arm. Runner and report are stand-ins with a table.csv."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from flyrun.cli.main import main
from flyrun.experiments.runner.outcomes import Outcome, RunResult
from flyrun.ground.errors import StoreError

SWEEP = ["-m", "experiment=mnist_logreg", "only=[regular, map_tuned]"]
COLUMNS = "experiment,arm,seeds,seeds_wanted,queries_per_iter,queries_per_iter_sd,note"


@pytest.fixture(autouse=True)
def jobs(monkeypatch, tmp_path):
    """Jobs that were run; one of prior.scale=3 has a failed cell, 4 is interrupted, 5 finds a full disk."""
    found = []

    def run(job, console, summarise=None):
        found.append(job)
        scale = job.arms[0].prior.scale
        if scale == 5:
            raise StoreError("results: cannot be written; make room")
        outcomes = [Outcome(None, "failed" if scale == 3 else "done")]
        return RunResult(job.results_dir / "runs" / job.name, "flyrun", outcomes, scale == 4)

    def build(run_dir, console=None):
        run_dir.mkdir(parents=True)
        lines = [f"mnist_logreg,{arm.name},2,2,{100 + len(found)},1.5," for arm in found[-1].arms]
        (run_dir / "table.csv").write_text("\n".join([COLUMNS, *lines, ""]))
        return SimpleNamespace(complete=True)

    monkeypatch.setattr("flyrun.experiments.runner.launch.run", run)
    monkeypatch.setattr("flyrun.experiments.report.build.build", build)
    monkeypatch.chdir(tmp_path)
    return found


def table(path):
    with open(path, encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.thorough
def test_a_row_for_each_job_and_arm(capsys):
    assert main([*SWEEP, "prior.scale=1,2"]) == 0
    rows = table("results/runs/mnist_logreg-prior.scale/table.csv")
    assert [(row["job"], row["prior.scale"], row["arm"]) for row in rows] == [
        ("1", "1", "regular"),
        ("1", "1", "map_tuned"),
        ("2", "2", "regular"),
        ("2", "2", "map_tuned"),
    ]
    assert [row["queries_per_iter"] for row in rows] == ["101", "101", "102", "102"]
    assert rows[2]["experiment"] == "mnist_logreg-prior.scale_2"
    printed = capsys.readouterr().out
    assert "Sweep of prior.scale" in printed
    assert "102.0 ± 1.5" in printed
    assert "problem" not in printed
    assert "sweep: results/runs/mnist_logreg-prior.scale/table.csv" in printed


def test_failed_jobs_are_rows(capsys):
    assert main([*SWEEP, "prior.scale=-1,2,3,5", "name=mine"]) == 2
    rows = table("results/runs/mine-prior.scale/table.csv")
    assert [(row["prior.scale"], row["arm"], row["exit_code"]) for row in rows] == [
        ("-1", "-", "2"),
        ("2", "regular", "0"),
        ("2", "map_tuned", "0"),
        ("3", "regular", "1"),
        ("3", "map_tuned", "1"),
        ("5", "-", "2"),
    ]
    assert rows[0]["problem"].startswith("prior.scale=-1: must be")
    assert rows[3]["problem"] == "some cells failed"
    assert rows[5]["problem"] == "results: cannot be written; make room"
    assert "prior.scale=-1: must be" in capsys.readouterr().out


def test_output_for_scripts(capsys):
    assert main([*SWEEP, "--quiet", "prior.scale=1,2"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "results/runs/mnist_logreg-prior.scale/table.csv"
    assert main([*SWEEP, "--json", "prior.scale=1,2", "name=b"]) == 0
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["event"] for line in said[-2:]] == ["sweep", "ended"]
    assert said[-2]["csv"] == "results/runs/b-prior.scale/table.csv"
    assert [line["event"] for line in said].count("ended") == 1


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("words", "code"), [("prior.scale=1,4,2", 130), ("prior.scale=-1,-2", 2), ("prior.scale=1", 0)]
)
def test_no_table_of_an_interrupted_or_empty_sweep_nor_of_one_job(jobs, words, code):
    assert main([*SWEEP, words]) == code
    assert not Path("results/runs/mnist_logreg-prior.scale").exists()
    assert len(jobs) == {130: 2, 2: 0, 0: 1}[code]


@pytest.mark.thorough
def test_jobs_on_other_machines_leave_theirs_in_the_folder_of_the_sweep():
    assert main([*SWEEP, "prior.scale=1,2", "hydra.sweep.dir=swept"]) == 0
    assert len(table("results/runs/mnist_logreg-prior.scale/table.csv")) == 4
    assert not list(Path("swept").glob("flyrun*"))
