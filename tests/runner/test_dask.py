"""executor=dask: the draws are those of local runs, whatever becomes of the workers."""

import os
import re
import signal
import subprocess
import sys
import threading
import time

import pytest
import runner_fakes as fakes
from dask_processes import Cluster
from runner_fakes import after_first_checkpoint, assert_same, draws_of, kill_one, workers_of

from flyrun.experiments.runner.launch import run
from flyrun.ground.errors import ConfigError
from flyrun.ground.executor import Dask, Slurm

pytest.importorskip("distributed")


def job(folder, **settings):
    return fakes.make_job(folder, executor=Dask(**settings))


@pytest.mark.thorough
def test_two_workers_one_of_which_is_killed(tmp_path, unbroken, screen, monkeypatch):
    monkeypatch.setenv("FAKE_SLEEP", "0.002")
    monkeypatch.setenv("FAKE_AWAKE", str(tmp_path / "awake"))
    killed = []

    def kill():
        killed.append(kill_one(workers_of(os.getpid())))
        (tmp_path / "awake").touch()

    killer = threading.Thread(target=after_first_checkpoint, args=(tmp_path, kill, 2))
    killer.start()
    result = run(job(tmp_path, workers=2), screen.console, fakes.prepare)
    killer.join()
    assert killed[0]
    assert result.exit_code == 0
    assert [outcome.state for outcome in result.outcomes] == ["done"] * 4
    assert str(screen).count("its worker process died; starting another") == 1
    assert_same(draws_of(result.run_dir), unbroken)


@pytest.mark.slow
def test_a_cell_that_always_kills_its_worker_is_given_up(tmp_path, screen, monkeypatch):
    monkeypatch.setenv("FAKE_FAULT", "kill:one:1:500")
    result = run(job(tmp_path, workers=1), screen.console, fakes.prepare)
    assert [str(outcome.cell) for outcome in result.failed] == ["one seed=1"]
    assert "died 4 times" in result.failed[0].message
    assert len(result.of("done")) == 3


@pytest.mark.thorough
def test_interrupt_stops_at_a_chunk_border(tmp_path, unbroken, screen, monkeypatch):
    monkeypatch.setenv("FAKE_SLEEP", "0.001")
    interrupt = threading.Thread(
        target=after_first_checkpoint, args=(tmp_path, lambda: os.kill(os.getpid(), signal.SIGINT))
    )
    interrupt.start()
    result = run(job(tmp_path, workers=2), screen.console, fakes.prepare)
    interrupt.join()
    assert result.exit_code == 130
    assert result.of("stopped")
    monkeypatch.delenv("FAKE_SLEEP")
    again = run(fakes.make_job(tmp_path), screen.console, fakes.prepare)
    assert_same(draws_of(again.run_dir), unbroken)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kill", "number", "code"),
    [(os.killpg, signal.SIGINT, 130), (os.kill, signal.SIGKILL, -9), (os.killpg, signal.SIGKILL, -9)],
)
def test_the_whole_run_is_hit(tmp_path, unbroken, screen, kill, number, code):
    command = [sys.executable, fakes.__file__, str(tmp_path), "2", "dask"]
    environment = {**os.environ, "FAKE_SLEEP": "0.002"}
    process = subprocess.Popen(
        command, env=environment, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    after_first_checkpoint(tmp_path, lambda: kill(process.pid, number))
    output, _ = process.communicate(timeout=30)
    assert process.returncode == code
    assert b"Traceback" not in output, output.decode()
    result = run(job(tmp_path, workers=2), screen.console, fakes.prepare)
    assert "resume seed" in str(screen)
    assert_same(draws_of(result.run_dir), unbroken)


def test_a_running_cluster_by_its_address(tmp_path, unbroken, monkeypatch):
    import distributed

    monkeypatch.chdir(tmp_path)
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=2, dashboard_address=None, processes=False, protocol="tcp"
    ) as cluster:
        result = run(job("results", address=cluster.scheduler_address), None, fakes.prepare)
    assert result.exit_code == 0
    assert_same(draws_of(result.run_dir), unbroken)


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """Scheduler and worker as processes of their own."""
    monkeypatch.setenv("FAKE_SLEEP", "0.003")
    monkeypatch.setenv("FAKE_AWAKE", str(tmp_path / "awake"))
    with Cluster() as made:
        yield made


@pytest.mark.thorough
def test_a_scheduler_that_dies_is_no_success(tmp_path, cluster, unbroken, screen, monkeypatch):
    kill = threading.Thread(target=after_first_checkpoint, args=(tmp_path, cluster.scheduler.kill))
    kill.start()
    began = time.monotonic()
    result = run(job(tmp_path, address=cluster.address), screen.console, fakes.prepare)
    kill.join()
    assert time.monotonic() - began < 30
    assert result.exit_code == 1
    assert result.of("lost")
    assert "cut short: its Dask scheduler is gone" in str(screen)
    assert re.search(
        r"cut short; \d of 4 cells are finished, .* To go on: flyrun experiment=walk", str(screen)
    )

    def wake():
        """The worker, which still computes its cell, once the next run has planned to go on with it."""
        deadline = time.monotonic() + 20
        while "resume seed" not in str(screen) and time.monotonic() < deadline:
            time.sleep(0.02)
        (tmp_path / "awake").touch()

    waker = threading.Thread(target=wake)
    waker.start()
    again = run(fakes.make_job(tmp_path), screen.console, fakes.prepare)
    waker.join()
    assert again.exit_code == 0
    assert "resume seed" in str(screen)
    assert_same(draws_of(again.run_dir), unbroken)


@pytest.mark.thorough
def test_a_cluster_without_workers_is_told_and_a_signal_ends_it(tmp_path, cluster, screen, monkeypatch):
    monkeypatch.setattr("flyrun.experiments.runner.dask_executor._SAY_AFTER_S", 0.2)

    def press():
        while "waiting: the cluster has no worker; start some with" not in str(screen):
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGTERM)

    kill = threading.Thread(target=after_first_checkpoint, args=(tmp_path, cluster.workers[0].kill))
    kill.start()
    threading.Thread(target=press, daemon=True).start()
    result = run(job(tmp_path, address=cluster.address), screen.console, fakes.prepare)
    kill.join()
    assert f"dask worker {cluster.address} --nthreads 1" in str(screen)
    assert result.exit_code == 130
    assert not result.of("lost", "failed")


def test_nobody_at_the_address(tmp_path, monkeypatch):
    monkeypatch.setattr("flyrun.experiments.runner.dask_executor._PATIENCE_S", 0.5)
    with pytest.raises(ConfigError, match=r"executor\.address=tcp://127\.0\.0\.1:9: no Dask scheduler"):
        run(job(tmp_path, address="tcp://127.0.0.1:9"), None, fakes.prepare)


def test_a_missing_extra_is_named_before_anything_runs(tmp_path, monkeypatch):
    monkeypatch.setattr("flyrun.experiments.runner.executors.importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"needs distributed; .*'flyrun\[dask\]'"):
        run(job(tmp_path), None, fakes.refuse)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"slurm": {"queue": "long"}}, r"executor\.slurm\.jobs=null"),
        ({"slurm": {"jobs": 0}}, r"executor\.slurm\.jobs=0: must be a whole number at least 1"),
        ({"slurm": {"jobs": 1}, "address": "tcp://a:1"}, "do not go together"),
        ({"workers": 2, "address": "tcp://a:1"}, r"executor\.workers=2"),
    ],
)
def test_settings_that_do_not_go_together(settings, text):
    with pytest.raises(ConfigError, match=text):
        Dask(**settings)


def test_the_script_that_slurm_gets():
    from flyrun.ground.slurm import Jobs

    wanted = Slurm(
        jobs=3,
        cores=2,
        memory="6GB",
        walltime="02:00:00",
        queue="long",
        account="bayes",
        directives=("--constraint=avx2",),
        prologue=("module load python",),
    )
    with Jobs(wanted).cluster() as cluster:
        script = cluster.job_script()
    for line in (
        "#SBATCH -J flyrun",
        "#SBATCH -p long",
        "#SBATCH -A bayes",
        "#SBATCH --cpus-per-task=2",
        "#SBATCH -t 02:00:00",
        "#SBATCH --constraint=avx2",
        "export OMP_NUM_THREADS=1",
        "module load python",
    ):
        assert line in script.splitlines()
    assert f"{sys.executable} -m distributed.cli.dask_worker" in script
    assert "--nworkers 2" in script
    assert "--nthreads 1" in script
