"""`flyrun -m` with Hydra's launchers: jobs of a sweep in other processes."""

import csv
import subprocess
import sys
from pathlib import Path

import pytest

from flyrun.cli.main import main

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
