"""What goes wrong mid-run costs no finished cell and changes no draw."""

import errno
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
import runner_fakes as fakes
from runner_fakes import after_first_checkpoint, assert_same, draws_of, kill_one, servers_of, workers_of

from flyrun.experiments.runner import chunks, store
from flyrun.experiments.runner.launch import run
from flyrun.ground import files
from flyrun.ground.errors import StoreError
from flyrun.ground.lock import locked


def start(results_dir, workers, **environment):
    """The runner in a process group of its own."""
    command = [sys.executable, str(Path(fakes.__file__)), str(results_dir), str(workers)]
    environment = {**os.environ, **environment}
    return subprocess.Popen(
        command, env=environment, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(("group", "workers"), [(True, 2), (False, 2), (False, 1)])
def test_sigkill_of_the_run_loses_nothing(tmp_path, unbroken, group, workers, screen):
    clock = random.Random(workers + 10 * group)
    for _ in range(2):
        process = start(tmp_path, workers, FAKE_SLEEP="0.001")
        deadline = time.monotonic() + 20
        while not list(tmp_path.glob("runs/*/*/*/*/checkpoint*")) and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(clock.uniform(0, 0.5))
        (os.killpg if group else os.kill)(process.pid, signal.SIGKILL)
        process.communicate()
    result = run(fakes.make_job(tmp_path, workers=workers), screen.console, fakes.prepare)
    assert result.exit_code == 0
    assert "resume seed" in str(screen)
    assert_same(draws_of(result.run_dir), unbroken)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(("whose", "died"), [(workers_of, {1}), (servers_of, {2, 3, 4})])
def test_sigkill_of_a_worker_restarts_its_cell_only(tmp_path, unbroken, screen, monkeypatch, whose, died):
    """Without the process that workers are copies of, nobody hears of their ends: all are started again."""
    monkeypatch.setenv("FAKE_SLEEP", "0.0005")
    monkeypatch.setenv("FAKE_AWAKE", str(tmp_path / "awake"))
    killed = []

    def kill():
        killed.append(kill_one(whose(os.getpid())))
        (tmp_path / "awake").touch()

    while_running = threading.Thread(target=after_first_checkpoint, args=(tmp_path, kill, min(died)))
    while_running.start()
    result = run(fakes.make_job(tmp_path, workers=2), screen.console, fakes.prepare)
    while_running.join()
    assert killed[0]
    assert result.exit_code == 0
    assert str(screen).count("worker process died; starting another") in died
    assert_same(draws_of(result.run_dir), unbroken)


def test_a_cell_that_always_kills_its_worker_is_given_up(tmp_path, screen, monkeypatch):
    monkeypatch.setenv("FAKE_FAULT", "kill:one:1:500")
    result = run(fakes.make_job(tmp_path, workers=2), screen.console, fakes.prepare)
    assert [str(outcome.cell) for outcome in result.failed] == ["one seed=1"]
    assert len(result.of("done")) == 3
    assert "died 4 times" in result.failed[0].message


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("workers", [1, 2])
def test_a_failing_cell_does_not_stop_the_others(tmp_path, unbroken, screen, monkeypatch, workers):
    monkeypatch.setenv("FAKE_FAULT", "raise:one:0:700")
    result = run(fakes.make_job(tmp_path, workers=workers), screen.console, fakes.prepare)
    assert result.exit_code == 1
    assert len(result.of("done")) == 3
    assert "one seed=0: failed: ValueError: a planted fault" in str(screen)
    cell = store.open_cells(result.run_dir)[0]
    assert cell.state == "failed"
    assert cell.message == "ValueError: a planted fault"
    assert "Traceback" in (cell.folder / "log.txt").read_text()
    monkeypatch.delenv("FAKE_FAULT")
    again = run(fakes.make_job(tmp_path, workers=workers), screen.console, fakes.prepare)
    assert "one: resume seed 0: failed before (ValueError: a planted fault)" in str(screen)
    assert_same(draws_of(again.run_dir), unbroken)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("workers", [1, 2])
def test_a_cell_out_of_memory_is_marked_and_goes_on_later(tmp_path, unbroken, screen, monkeypatch, workers):
    monkeypatch.setenv("FAKE_FAULT", "memory:one:0:700")
    result = run(fakes.make_job(tmp_path, workers=workers), screen.console, fakes.prepare)
    assert [str(outcome.cell) for outcome in result.failed] == ["one seed=0"]
    assert result.failed[0].message.startswith("out of memory (Unable to allocate 256. PiB")
    assert "executor.workers=1" in result.failed[0].message
    monkeypatch.delenv("FAKE_FAULT")
    again = run(fakes.make_job(tmp_path, workers=workers), screen.console, fakes.prepare)
    assert "one: resume seed 0: failed before (out of memory" in str(screen)
    assert_same(draws_of(again.run_dir), unbroken)


def test_hdf5_out_of_memory_is_no_full_disk(tmp_path):
    with pytest.raises(MemoryError), chunks._writing(tmp_path):
        raise OSError("Can't synchronously write data (memory allocation failed for chunk)")


def test_nan_in_the_draws_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setenv("FAKE_FAULT", "nan:one:0:0")
    result = run(fakes.make_job(tmp_path), None, fakes.prepare)
    assert "'log_joint' is not a number" in result.failed[0].message


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    ("workers", "number"),
    [(1, signal.SIGINT), (2, signal.SIGINT), (1, signal.SIGTERM), (1, signal.SIGHUP), (1, signal.SIGUSR1)],
)
def test_interrupt_stops_at_a_chunk_border(tmp_path, unbroken, screen, monkeypatch, workers, number):
    """A signal that asks for an end, whichever, loses nothing that was computed."""
    monkeypatch.setenv("FAKE_SLEEP", "0.0005")
    interrupt = threading.Thread(
        target=after_first_checkpoint, args=(tmp_path, lambda: os.kill(os.getpid(), number))
    )
    before = lambda *_: None  # noqa: E731
    # these tests' own may ignore it: SIGINT in a shell's background, SIGHUP under nohup
    tests_own = signal.signal(number, before)
    try:
        interrupt.start()
        result = run(fakes.make_job(tmp_path, workers=workers), screen.console, fakes.prepare)
        interrupt.join()
        assert signal.getsignal(number) is before
    finally:
        signal.signal(number, tests_own)
    assert result.interrupted
    assert result.exit_code == 130
    assert result.of("stopped")
    assert "To go on: flyrun experiment=walk prior.scale=1" in str(screen)
    monkeypatch.delenv("FAKE_SLEEP")
    again = run(fakes.make_job(tmp_path, workers=workers), screen.console, fakes.prepare)
    assert not again.interrupted
    assert_same(draws_of(again.run_dir), unbroken)


def test_a_signal_that_is_ignored_stays_ignored(tmp_path, monkeypatch):
    """As SIGHUP is under nohup: what was to outlive its terminal does."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    monkeypatch.setenv("FAKE_SLEEP", "0.0002")
    hang_up = threading.Thread(
        target=after_first_checkpoint, args=(tmp_path, lambda: os.kill(os.getpid(), signal.SIGHUP))
    )
    hang_up.start()
    try:
        assert run(fakes.make_job(tmp_path, seeds=1), None, fakes.prepare).exit_code == 0
    finally:
        hang_up.join()
        signal.signal(signal.SIGHUP, before)


@pytest.mark.thorough
def test_a_second_interrupt_stops_at_once(tmp_path):
    process = start(tmp_path, 2, FAKE_SLEEP="0.5")
    deadline = time.monotonic() + 20
    while not list(tmp_path.glob("runs/*/*/*/*/lock")) and time.monotonic() < deadline:
        time.sleep(0.02)
    for _ in range(2):
        os.killpg(process.pid, signal.SIGINT)
        time.sleep(0.3)
    output, _ = process.communicate(timeout=10)
    assert process.returncode == 130
    assert b"Traceback" not in output, output.decode()


@pytest.fixture
def stopped(tmp_path, monkeypatch):
    """A results folder with one cell that failed with several chunks behind it; its folder."""
    monkeypatch.setenv("FAKE_FAULT", "raise:one:0:1150")
    monkeypatch.setattr(chunks, "_MAX_CHUNK_BYTES", 10_000)
    run(fakes.make_job(tmp_path, arms=("one",), seeds=1), None, fakes.prepare)
    monkeypatch.delenv("FAKE_FAULT")
    folder = next(tmp_path.glob("runs/walk/one/*/seed=0"))
    assert len(list(folder.glob("chunk-*"))) >= 4
    return folder


def finish(tmp_path, screen, unbroken):
    result = run(fakes.make_job(tmp_path, arms=("one",), seeds=1), screen.console, fakes.prepare)
    assert result.exit_code == 0
    assert_same(draws_of(result.run_dir), {("one", 0): unbroken["one", 0]})


def flip(path):
    content = bytearray(path.read_bytes())
    # a stretch, for a single byte may be one that nobody reads
    middle = len(content) // 2
    content[middle - 100 : middle + 100] = bytes(byte ^ 255 for byte in content[middle - 100 : middle + 100])
    path.write_bytes(content)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("harm", [flip, lambda path: os.truncate(path, path.stat().st_size // 2)])
def test_a_damaged_checkpoint_falls_back_to_the_one_before(tmp_path, stopped, unbroken, screen, harm):
    before, newest = sorted(stopped.glob("checkpoint-*"))
    harm(newest)
    finish(tmp_path, screen, unbroken)
    assert f"checkpoint at iteration {int(newest.stem[11:]):,} is not usable" in str(screen)
    assert f"goes back to iteration {int(before.stem[11:]):,}" in str(screen)


def test_two_damaged_checkpoints_begin_anew(tmp_path, stopped, unbroken, screen):
    for path in stopped.glob("checkpoint-*"):
        path.write_bytes(b"")
    finish(tmp_path, screen, unbroken)
    assert "starts anew" in str(screen)


def test_a_missing_chunk_is_noticed(tmp_path, stopped, unbroken, screen):
    sorted(stopped.glob("chunk-*"))[-1].unlink()
    finish(tmp_path, screen, unbroken)
    assert "draws before it are missing or damaged" in str(screen)


def test_draws_past_the_checkpoint_are_dropped(tmp_path, stopped, unbroken, screen):
    newest = sorted(stopped.glob("checkpoint-*"))[-1]
    newest.unlink()
    finish(tmp_path, screen, unbroken)


def test_a_damaged_posterior_runs_again(tmp_path, stopped, unbroken, screen):
    finish(tmp_path, screen, unbroken)
    os.truncate(stopped / "posterior.nc", 100)
    assert store.open_cells(tmp_path / "runs" / "walk")[0].state == "unfinished"
    finish(tmp_path, screen, unbroken)
    assert "one: run seed 0: posterior.nc is not as it was written" in str(screen)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("name", ["posterior.nc", "cell.json", "done"])
def test_a_finished_cell_cut_short_runs_again_alone(tmp_path, unbroken, screen, name):
    run(fakes.make_job(tmp_path), None, fakes.prepare)
    path = next(tmp_path.glob(f"runs/walk/one/*/seed=0/{name}"))
    os.truncate(path, path.stat().st_size // 2)
    again = run(fakes.make_job(tmp_path), screen.console, fakes.prepare)
    assert len(again.of("cached")) == 3
    assert "one: run seed 0: " in str(screen)
    assert_same(draws_of(again.run_dir), unbroken)


def test_a_damaged_run_json_is_written_anew(tmp_path, unbroken):
    run(fakes.make_job(tmp_path), None, fakes.prepare)
    os.truncate(tmp_path / "runs" / "walk" / "run.json", 20)
    again = run(fakes.make_job(tmp_path), None, fakes.refuse)
    assert len(again.of("cached")) == 4
    assert_same(draws_of(again.run_dir), unbroken)


def test_a_live_lock_refuses_and_a_stale_one_is_taken_over(tmp_path, screen):
    folder = tmp_path / "runs" / "walk"
    folder.mkdir(parents=True)
    with locked(folder / "lock"), pytest.raises(StoreError, match=f"in use by process {os.getpid()} on"):
        run(fakes.make_job(tmp_path), None, fakes.prepare)
    (folder / "lock").write_text("process 999999 on elsewhere\n")
    assert run(fakes.make_job(tmp_path), screen.console, fakes.prepare).exit_code == 0
    assert "took over the folder's lock: process 999999 on elsewhere is gone" in str(screen)
    assert not (folder / "lock").exists()


def test_a_file_in_place_of_the_folder(tmp_path):
    (tmp_path / "results").write_text("")
    with pytest.raises(StoreError, match=r"results.*cannot be written.*results_dir="):
        run(fakes.make_job(tmp_path / "results"), None, fakes.prepare)


def test_a_read_only_folder(monkeypatch):
    # not tmp_path, which is closed to others than its owner: root is nobody here, whom permissions hold
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o555)
        if os.geteuid() == 0:
            os.seteuid(65534)
        try:
            with pytest.raises(StoreError, match=r"cannot be written \(Permission denied\).*results_dir="):
                run(fakes.make_job(folder), None, fakes.prepare)
        finally:
            if os.getuid() == 0:
                os.seteuid(0)


def test_a_full_disk_keeps_what_was_finished(tmp_path, monkeypatch):
    run(fakes.make_job(tmp_path, arms=("one",)), None, fakes.prepare)
    write = files.write_arrays

    def full(path, arrays):
        if path.name.startswith("checkpoint"):
            raise OSError(errno.ENOSPC, "No space left on device")
        write(path, arrays)

    monkeypatch.setattr(files, "write_arrays", full)
    with pytest.raises(StoreError, match=r"seed=0: cannot be written \(No space left on device\)"):
        run(fakes.make_job(tmp_path), None, fakes.prepare)
    states = [cell.state for cell in store.open_cells(tmp_path / "runs" / "walk")]
    assert states == ["done", "done", "failed", "missing"]


def test_room_for_the_posterior_is_asked_for_before_it_is_written(tmp_path, monkeypatch):
    def full(folder, n_bytes):
        assert n_bytes > 0
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files, "reserve", full)
    with pytest.raises(StoreError, match="No space left on device"):
        run(fakes.make_job(tmp_path, arms=("one",), seeds=1), None, fakes.prepare)
    monkeypatch.undo()
    result = run(fakes.make_job(tmp_path, arms=("one",), seeds=1), None, fakes.prepare)
    assert [outcome.state for outcome in result.outcomes] == ["done"]
