"""A run is hit by a fault at a random time, started again, and must lose nothing: so many rounds in a row.

    python tests/runner/fault_rounds.py [ROUNDS [SEED [dask]]]

A cell is lost when it had been finished and was run again, when it began anew although a whole checkpoint
lay there, or when its draws are not those of an unbroken run, bit for bit. A run ends wrongly that has
exit code 0 and not all cells, or does not say how to go on.
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
import runner_fakes as fakes
from dask_processes import Cluster
from rich.console import Console
from runner_fakes import draws_of, workers_of

from flyrun.experiments.runner import store
from flyrun.experiments.runner.launch import run
from flyrun.ground import files

WORKERS, CELLS = 2, 4
_SLEEP = "0.0006"  # seconds an iteration: a run takes about a second and a half besides starting
_PATIENCE_S = 60.0


class Round:
    """One run in a process group of its own, and a clock that is the same for the same seed."""

    latest_s = 1.8

    def __init__(self, folder: Path, clock: random.Random):
        self.folder, self.clock = folder, clock
        self.process = self.start()
        self.output = ""

    def start(self) -> subprocess.Popen:
        """Begin the run that is to be hit."""
        command = [sys.executable, fakes.__file__, str(self.folder), str(WORKERS), *self.executor()]
        return subprocess.Popen(
            command,
            env={**os.environ, "FAKE_SLEEP": _SLEEP},
            start_new_session=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def executor(self) -> list[str]:
        """Words that choose where cells run."""
        return []

    def wait(self) -> None:
        """Let a random time pass: of starting, in one round of eight, else from the first cell's begin on."""
        if self.clock.random() < 1 / 8:
            time.sleep(self.clock.uniform(0, 0.5))
            return
        while self.process.poll() is None and not any(self.folder.glob("runs/*/*/*/*/log.txt")):
            time.sleep(0.01)
        time.sleep(self.clock.uniform(0, self.latest_s))

    def wait_for_lock(self) -> None:
        """Wait until the run holds its folder, or is over."""
        lock = self.folder / "runs" / "walk" / "lock"
        while self.process.poll() is None and not (lock.exists() and lock.stat().st_size):
            time.sleep(0.01)

    def workers(self) -> list[int]:
        """Process numbers of the workers there are now."""
        return workers_of(self.process.pid)

    def kill(self, group: bool = True) -> None:
        """SIGKILL the parent, or all of them."""
        with contextlib.suppress(ProcessLookupError):
            (os.killpg if group else os.kill)(self.process.pid, signal.SIGKILL)

    def end(self) -> int:
        """Wait for the end; exit code."""
        self.output, _ = self.process.communicate(timeout=_PATIENCE_S)
        return self.process.returncode

    def expect(self, *codes: int, clean: bool = True) -> None:
        """Wait for the end, with one of these codes and, if it must be clean, no traceback."""
        code = self.end()
        assert code in codes, f"exit {code}: {self.output}"
        assert not clean or "Traceback" not in self.output, self.output
        finished = [cell.state for cell in _cells(self.folder)].count("done")
        assert code or finished == CELLS, f"exit 0 with {finished} of {CELLS} cells: {self.output}"


def worker(hit: Round) -> None:
    """SIGKILL of a worker: the run itself goes on, with another."""
    for child in hit.workers()[:1]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
    hit.expect(0)


def parent(hit: Round) -> None:
    """SIGKILL of the parent alone; its workers are not waited for."""
    hit.kill(group=False)
    hit.process.wait()
    hit.process.stdout.close()


def group(hit: Round) -> None:
    """SIGKILL of all processes."""
    hit.kill()
    hit.end()


def power(hit: Round) -> None:
    """All processes end, and the newest files of what was being written are cut short."""
    group(hit)
    for path in _newest(hit)[: hit.clock.randint(1, 3)]:
        os.truncate(path, hit.clock.randint(0, max(0, path.stat().st_size - 1)))


def corruption(hit: Round) -> None:
    """All processes end, and a byte of each cell's newest checkpoint is another."""
    group(hit)
    for cell in _cells(hit.folder):
        for path in sorted(cell.folder.glob("checkpoint-*"))[-1:]:
            content = bytearray(path.read_bytes())
            content[hit.clock.randrange(len(content))] ^= 255
            path.write_bytes(content)


def interrupt(hit: Round) -> None:
    """Ctrl-C once."""
    hit.wait_for_lock()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(hit.process.pid, signal.SIGINT)
    hit.expect(0, 130)
    assert hit.process.returncode == 0 or "To go on: flyrun experiment=walk" in hit.output, hit.output


def interrupt_twice(hit: Round) -> None:
    """Ctrl-C, and again."""
    hit.wait_for_lock()
    for pause in (hit.clock.uniform(0, 0.1), 0):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(hit.process.pid, signal.SIGINT)
        time.sleep(pause)
    # The second may end a process that is leaving already: -2 here, 130 to a shell like the other.
    hit.expect(0, 130, -signal.SIGINT)


def second_run(hit: Round) -> None:
    """The same command again while the first still runs: refused, and the first is not disturbed."""
    hit.wait_for_lock()
    second = Round(hit.folder, hit.clock)
    second.expect(0, 2)
    held = f"in use by process {hit.process.pid} on"
    assert second.process.returncode == 0 or held in second.output, second.output
    hit.expect(0)


def memory(hit: Round) -> None:
    """A worker may have no more memory than it has."""
    for child in hit.workers()[:1]:
        with contextlib.suppress(OSError, ProcessLookupError):
            pages = int(Path(f"/proc/{child}/statm").read_text().split()[0])
            limit = pages * resource.getpagesize() + hit.clock.randrange(1 << 21)
            resource.prlimit(child, resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
    hit.expect(0, 1, clean=False)  # a worker that cannot even start says so in its own words


def full_disk(hit: Round) -> None:
    """No file can grow any more, in any of the processes."""
    for process in [hit.process.pid, *hit.workers()]:
        with contextlib.suppress(OSError, ProcessLookupError):
            resource.prlimit(process, resource.RLIMIT_FSIZE, (500, resource.RLIM_INFINITY))
    hit.expect(0, 2, clean=False)  # the HDF5 library, caught in the middle of a file, has its own words


FAULTS = (
    worker,
    group,
    power,
    parent,
    interrupt,
    corruption,
    memory,
    full_disk,
    interrupt_twice,
    second_run,
)


class DaskRound(Round):
    """The same on a Dask cluster whose scheduler and workers are processes of their own."""

    latest_s = 1.0

    def executor(self) -> list[str]:
        """A cluster of this round's own."""
        self.cluster = Cluster(WORKERS, FAKE_SLEEP=_SLEEP)
        return ["dask", self.cluster.address]

    def kill(self, group: bool = True) -> None:
        """SIGKILL the client, and all of the cluster unless it is only the client that is to die."""
        super().kill(group)
        if group:
            self.cluster.__exit__()


def scheduler(hit: DaskRound) -> None:
    """SIGKILL of the scheduler: nothing more can end, and the run says so."""
    hit.cluster.scheduler.kill()
    hit.expect(0, 1, 2)  # 2: nobody answers yet at the address
    assert hit.process.returncode != 1 or "To go on: flyrun experiment=walk" in hit.output, hit.output


def dask_worker(hit: DaskRound) -> None:
    """SIGKILL of a worker: the other takes its cell."""
    hit.cluster.workers[0].kill()
    hit.expect(0)


DASK_FAULTS = (scheduler, dask_worker, parent)


def play(rounds: int, seed: int = 0, say=print, kind=Round, faults=FAULTS) -> int:
    """Play the rounds, the faults in turn; how many cells were lost, and runs that ended wrongly."""
    lost, wrong, hits = 0, 0, Counter()
    with tempfile.TemporaryDirectory(prefix="flyrun-faults-") as scratch:
        reference = run(fakes.make_job(Path(scratch) / "unbroken"), None, fakes.prepare)
        unbroken = draws_of(reference.run_dir)
        for number in range(rounds):
            fault, folder = faults[number % len(faults)], Path(scratch) / str(number)
            hit = kind(folder, random.Random(1000 * seed + number))
            try:
                hit.wait()
                there = hit.process.poll() is None
                try:
                    fault(hit)
                except AssertionError as error:
                    wrong += 1
                    say(f"    WRONG END {error}")
                losses, found = _go_on(folder, unbroken)
            finally:
                hit.kill()
            hits[fault.__name__] += there
            lost += len(losses)
            say(f"{number + 1:3} {fault.__name__:15} {'' if there else 'too late; '}{found}")
            for text in losses:
                say(f"    LOST {text}")
            shutil.rmtree(folder, ignore_errors=True)
    counts = ", ".join(f"{name} {count}" for name, count in sorted(hits.items()))
    say(f"{rounds} rounds, {sum(hits.values())} of them hit a run under way ({counts})")
    say(f"runs that ended otherwise than they should: {wrong}")
    say(f"cells lost: {lost}")
    return lost + wrong


def _go_on(folder: Path, unbroken: dict) -> tuple[list[str], str]:
    """Run the same command again; what was lost, and in words what was found."""
    finished, resumable = {}, {}
    for cell in _cells(folder):
        if cell.state == "done":
            finished[cell.arm, cell.seed] = (cell.folder / store.DONE).stat().st_mtime_ns
        elif iteration := _whole_checkpoint(cell.folder):
            resumable[cell.arm, cell.seed] = iteration, len(_begins(cell.folder))
    screen = io.StringIO()
    job = fakes.make_job(folder, workers=WORKERS)
    result = run(job, Console(file=screen, width=500), fakes.prepare)
    losses = [] if result.exit_code == 0 else [f"exit code {result.exit_code}: {screen.getvalue()}"]
    draws = draws_of(result.run_dir)
    for cell in _cells(folder):
        name = cell.arm, cell.seed
        if name in finished and finished[name] != (cell.folder / store.DONE).stat().st_mtime_ns:
            losses.append(f"{name} had been finished and was run again")
        iteration, begins = resumable.get(name, (0, 0))
        # where there is no other begin, a worker that outlived its run has ended the cell
        if len(found := _begins(cell.folder)) > begins and found[-1] < iteration:
            losses.append(f"{name} went on from iteration {found[-1]}, not from {iteration}")
        if name not in draws or not _same(draws[name], unbroken[name]):
            losses.append(f"{name} has other draws than the unbroken run")
    began = ", ".join(str(iteration) for iteration, _ in sorted(resumable.values())) or "none"
    return losses, f"{len(finished)} of {len(unbroken)} cells finished, others resumed from: {began}"


def _cells(folder: Path) -> list[store.StoredCell]:
    """Every cell of the run as it lies on disk, whether or not run.json is there."""
    found = []
    for path in sorted(folder.glob("runs/walk/*/*/seed=*")):
        arm, key, seed = path.parts[-3:]
        found.append(store.open_cell(folder / "runs" / "walk", arm, key, int(seed.removeprefix("seed="))))
    return found


def _whole_checkpoint(folder: Path) -> int:
    """Iteration of the newest checkpoint that can be read and whose draws can; 0 without one."""
    done, borders = 0, set()
    with contextlib.suppress(files.DamagedFile, OSError):
        while True:
            done += int(files.read_arrays(folder / f"chunk-{done:09d}.npz")["_span"][1])
            borders.add(done)
    for path in sorted(folder.glob("checkpoint-*"), reverse=True):
        with contextlib.suppress(files.DamagedFile):
            files.read_arrays(path)
            if int(path.stem[11:]) in borders:
                return int(path.stem[11:])
    return 0


def _begins(folder: Path) -> list[int]:
    """Iterations at which the cell's log says it began."""
    begins = re.findall(r"begins at iteration ([\d,]+) of", (folder / store.LOG).read_text())
    return [int(iteration.replace(",", "")) for iteration in begins]


def _newest(hit: Round) -> list[Path]:
    """Files of the run, newest first, without those of finished cells.

    Those were synced to disk before chunks were removed, which a loss of power cannot undo.
    """
    finished = {cell.folder for cell in _cells(hit.folder) if cell.state == "done"}
    found = [path for path in hit.folder.rglob("*") if path.is_file() and path.parent not in finished]
    return sorted(found, key=lambda path: path.stat().st_mtime_ns, reverse=True)


def _same(one: dict, other: dict) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in other)


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:] if word != "dask"]
    on_dask = {"kind": DaskRound, "faults": DASK_FAULTS} if "dask" in sys.argv else {}
    sys.exit(min(1, play(*(given or [100]), **on_dask)))
