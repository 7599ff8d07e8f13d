"""executor=dask with SLURM's jobs: whatever SLURM does, a run ends, says why, and is not called a success."""

import os
import signal
import threading
import time

import fake_slurm
import pytest
import runner_fakes as fakes
from runner_fakes import after_first_checkpoint, assert_same, draws_of

from flyrun.experiments.runner import dask_executor
from flyrun.experiments.runner.launch import run
from flyrun.ground import slurm as slurm_jobs
from flyrun.ground.errors import ConfigError
from flyrun.ground.executor import Dask

pytest.importorskip("dask_jobqueue")


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """Folder of the stand-in's jobs."""
    monkeypatch.setattr(slurm_jobs, "_ASK_EVERY_S", 0.2)
    monkeypatch.setattr(dask_executor, "_LOOK_EVERY_S", 0.1)
    monkeypatch.setattr(dask_executor, "_SAY_AFTER_S", 0.2)
    yield fake_slurm.put_on_path(tmp_path / "slurm", monkeypatch)
    assert not list((tmp_path / "slurm").glob("*.job")), "jobs were left to SLURM"


def job(folder, **settings):
    return fakes.make_job(folder, executor=Dask(slurm={"memory": "1GB", "jobs": 2, **settings}))


def test_a_partition_that_is_not_there(tmp_path, slurm, screen, capfd):
    began = time.monotonic()
    with pytest.raises(
        ConfigError, match=r"invalid partition specified: nowhere; .*executor\.slurm\.queue=nowhere"
    ):
        run(job(tmp_path, queue="nowhere"), screen.console, fakes.prepare)
    assert time.monotonic() - began < 20
    assert "Traceback" not in "".join(capfd.readouterr())


def test_jobs_that_wait_are_told_and_a_signal_ends_the_waiting(tmp_path, slurm, screen):
    def press():
        while "waiting: SLURM's jobs" not in str(screen):
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=press, daemon=True).start()
    result = run(job(tmp_path, queue="full"), screen.console, fakes.prepare)
    assert "2 PENDING Resources" in str(screen)
    assert result.exit_code == 130
    assert [outcome.state for outcome in result.outcomes] == ["stopped"] * 4


@pytest.mark.thorough
def test_jobs_that_are_killed_end_the_run_which_goes_on_later(tmp_path, slurm, unbroken, screen, monkeypatch):
    monkeypatch.setenv("FAKE_SLEEP", "0.003")
    kill = threading.Thread(
        target=after_first_checkpoint, args=(tmp_path, lambda: fake_slurm.kill_jobs(slurm))
    )
    kill.start()
    result = run(job(tmp_path), screen.console, fakes.prepare)
    kill.join()
    assert result.exit_code == 1
    assert "cut short: SLURM has ended all jobs" in str(screen)
    assert "To go on: flyrun experiment=walk" in str(screen)
    monkeypatch.delenv("FAKE_SLEEP")
    again = run(fakes.make_job(tmp_path), screen.console, fakes.prepare)
    assert again.exit_code == 0
    assert "resume seed" in str(screen)
    assert_same(draws_of(again.run_dir), unbroken)


def test_no_slurm_here(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match=r"executor\.slurm\.jobs=2: this machine has no sbatch"):
        run(job(tmp_path), None, fakes.refuse)


@pytest.mark.slow
def test_jobs_that_run(tmp_path, slurm, unbroken):
    result = run(job(tmp_path), None, fakes.prepare)
    assert result.exit_code == 0
    assert_same(draws_of(result.run_dir), unbroken)
