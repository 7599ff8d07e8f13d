"""`flyrun -m` with Hydra's launchers: jobs of a sweep in other processes."""

import csv
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from flyrun.cli import submitit_slurm
from flyrun.cli.main import main
from flyrun.ground import slurm as slurm_jobs

sys.path.insert(0, str(Path(__file__).parents[1] / "runner"))
import fake_slurm

ARM = "dataset=toy_2d model=logistic bound=map sampler=random_walk protocol=smoke protocol.seeds=1"


def sweep(folder, launcher, words):
    pytest.importorskip(f"hydra_plugins.hydra_{launcher.partition('_')[0]}_launcher")
    command = [
        sys.executable,
        "-m",
        "flyrun",
        "-m",
        f"hydra/launcher={launcher}",
        *ARM.split(),
        *words.split(),
    ]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["joblib", "submitit_local"])
def test_every_job_of_the_sweep_leaves_its_results(tmp_path, launcher):
    done = sweep(tmp_path, launcher, "prior.scale=1,2 executor.workers=1 name=swept")
    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.glob("results/runs/swept-prior.scale_[12]/report.html"))) == 2
    with open(tmp_path / "results/runs/swept-prior.scale/table.csv", encoding="utf-8") as file:
        assert [row["prior.scale"] for row in csv.DictReader(file)] == ["1", "2"]
    assert [path.name for path in tmp_path.iterdir()] == ["results"]


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["joblib", "submitit_local"])
def test_a_bad_job_gives_its_exit_code_and_stops_no_other(tmp_path, launcher):
    done = sweep(tmp_path, launcher, "prior.scale=-1,2 executor.workers=1 name=swept")
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert len(list(tmp_path.glob("results/runs/swept-prior.scale_2/report.html"))) == 1


SLURM = ["-m", "hydra/launcher=submitit_slurm", *ARM.split(), "prior.scale=1,2", "hydra.sweep.dir=swept"]


def test_without_slurm_its_launcher_is_refused(tmp_path, monkeypatch, capsys):
    pytest.importorskip("hydra_plugins.hydra_submitit_launcher")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(SLURM) == 2
    assert "hydra/launcher: SLURM takes no job (Could not detect" in capsys.readouterr().err


def test_a_refusal_of_slurm_is_one_of_ours(tmp_path, monkeypatch, capsys):
    pytest.importorskip("hydra_plugins.hydra_submitit_launcher")
    monkeypatch.chdir(tmp_path)
    fake_slurm.put_on_path(tmp_path / "slurm", monkeypatch)
    assert main([*SLURM, "hydra.launcher.partition=nowhere"]) == 2
    said = capsys.readouterr().err
    assert "invalid partition specified: nowhere" in said
    assert "correct hydra.launcher.partition=NAME" in said
    assert said.count("invalid partition") == 1, "what sbatch says is printed twice"


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """Folder of the stand-in's jobs, asked at short intervals."""
    pytest.importorskip("hydra_plugins.hydra_submitit_launcher")
    from submitit.slurm.slurm import SlurmJob

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(slurm_jobs, "_ASK_EVERY_S", 0.1)
    monkeypatch.setattr(submitit_slurm, "_LOOK_EVERY_S", 0.05)
    monkeypatch.setattr(submitit_slurm, "_SAY_AFTER_S", 0.1)
    monkeypatch.setattr(SlurmJob, "_results_timeout_s", 0)
    return fake_slurm.put_on_path(tmp_path / "slurm", monkeypatch)


@pytest.mark.thorough
def test_jobs_of_a_sweep_that_wait_are_told_and_a_signal_cancels_them(slurm, capsys):
    """A launcher that waits in silence, dies by a signal, and leaves its jobs to SLURM."""
    said = []

    def press():
        until = time.monotonic() + 30
        while not any("PENDING" in text for text in said):
            time.sleep(0.05)
            said.append(capsys.readouterr().err)
            if time.monotonic() > until:
                return os.kill(os.getpid(), signal.SIGINT)  # a failure, not a test without end
        return os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=press, daemon=True).start()
    assert main([*SLURM, "hydra.launcher.partition=full"]) == 130
    said = "".join(said) + capsys.readouterr().err
    assert "2 PENDING Resources" in said
    assert "To go on: flyrun -m hydra/launcher=submitit_slurm" in said
    assert not list(slurm.glob("*.job"))


@pytest.mark.thorough
@pytest.mark.parametrize("partition", ["kills", "loses"])
def test_jobs_of_a_sweep_that_slurm_ends_fail_the_sweep(slurm, capsys, partition):
    """A job that leaves no result ends the sweep in another's name, or is waited for for ever."""
    assert main([*SLURM, f"hydra.launcher.partition={partition}"]) == 1
    said = capsys.readouterr().err
    state = {"kills": "FAILED", "loses": "UNKNOWN"}[partition]
    assert said.count(f"ended without a result (state {state}). To go on: flyrun -m") == 2
    assert "Traceback" not in said


@pytest.mark.slow
@pytest.mark.parametrize("code", [0, 1])
def test_a_sweep_of_slurm_has_its_table(slurm, capsys, code):
    """A sweep on SLURM without its table, or whose job that was killed is not in it."""
    first_ends = ["hydra.launcher.setup=['test $SLURM_ARRAY_TASK_ID = 1 || exit 1']"] if code else []
    assert main([*SLURM, "executor.workers=1", "name=swept", *first_ends]) == code
    with open("results/runs/swept-prior.scale/table.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["prior.scale"] for row in rows] == ["1", "2"]
    assert [row["exit_code"] for row in rows] == [str(code), "0"]
    assert ("ended without a result (state FAILED)" in rows[0]["problem"]) == bool(code)
