"""A scan on Dask is hit at a random time, round after round: nothing kept is read again, no bit differs.

    python -m tests.fit.scan_rounds [ROUNDS [SEED]]

Workers are started again as SLURM would, the command by the same words.
"""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np

from flyrun.cli.main import main
from flyrun.fitting.scan import kept_sums, mappers, pilot, row_weights
from tests.fit.test_scan import table, write
from tests.runner.dask_processes import Cluster

ROWS, FILES, WORKERS = 4_000, 24, 2
_SLEEP_S = 0.1  # of a look at a row group
_PATIENCE_S = 300.0


class Logged(NamedTuple):
    """A look that takes a while, and tells a file that a row group is read."""

    look: Any
    about: str
    log: str

    def __call__(self, block):
        note(self.log, "read", self.about, block.number)
        time.sleep(_SLEEP_S)
        return self.look(block)


def note(log, *words):
    """Append a line, which several processes may do."""
    with open(log, "a") as file:
        file.write(" ".join(map(str, words)) + "\n")


def hub(folder, address):
    """`flyrun fit` whose looks are logged; exit code."""
    log, numbers, about = str(Path(folder) / "log"), {}, {}
    look_at, put = mappers.Mapper.__call__, kept_sums.Kept.put

    def logged(self, look, groups, words):
        numbers.update({kept_sums.digest(group): group[0].number for group in groups})
        own = Logged(look, kept_sums.digest(look), log)
        about[kept_sums.digest(own)] = own.about
        return look_at(self, own, groups, words)

    def kept(self, key, looked):
        size, (look, group) = put(self, key, looked), key.split("-")
        note(log, "kept", about[look], numbers[group])
        return size

    mappers.Mapper.__call__, kept_sums.Kept.put = logged, kept
    row_weights.DRAWS, row_weights._BY_CHAINS = 1_000, 500
    pilot._PILOT_GROUPS = 2  # so that there are two stages
    words = ["fit", str(Path(folder).parent / "shards"), "--target", "y", "--quiet", "--results-dir", folder]
    dask = [] if address == "here" else ["executor=dask", f"executor.address={address}"]
    return main([*words, *dask])


class Round:
    """A cluster and a command on it."""

    def __init__(self, folder, clock):
        self.folder, self.clock, self.cluster = folder, clock, Cluster(WORKERS)
        self.folder.mkdir()
        self.process = self.start()

    def start(self):
        """Give the command."""
        words = [sys.executable, "-m", "tests.fit.scan_rounds", "hub", self.folder, self.cluster.address]
        root = str(Path(__file__).parents[2])
        own = {"cwd": root, "start_new_session": True, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        return subprocess.Popen(list(map(str, words)), text=True, **own)

    def wait(self, kept):
        """Until so many row groups are kept."""
        began = time.monotonic()
        while len(lines(self.folder, "kept")) < kept and self.process.poll() is None:
            assert time.monotonic() - began < _PATIENCE_S
            time.sleep(0.01)

    def end(self):
        """Wait for the end; what the command said."""
        said, _ = self.process.communicate(timeout=_PATIENCE_S)
        assert self.process.returncode == 0, said
        return said

    def close(self):
        """End all."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.cluster.__exit__()


def worker(hit):
    """SIGKILL of a worker; another comes."""
    victim = hit.clock.randrange(WORKERS)
    hit.cluster.workers[victim].kill()
    hit.cluster.workers[victim] = hit.cluster.worker()


def scheduler(hit):
    """SIGKILL of the scheduler; another begins at its address, with other workers."""
    hit.cluster.begin_again()


def command(hit):
    """SIGKILL of the command; it is given again."""
    hit.process.kill()
    hit.process.communicate()
    hit.process = hit.start()


def worker_later(hit):
    """SIGKILL of a worker in the second stage."""
    worker(hit)


FAULTS = (worker, scheduler, command, worker_later)


def lines(folder, what):
    """Looks and row groups of the log's lines of a kind."""
    log = folder / "log"
    found = log.read_text().splitlines() if log.exists() else []
    return [line.partition(" ")[2] for line in found if line.startswith(what)]


def read_again(folder):
    """Row groups that were read though they were kept."""
    kept, found = set(), []
    for line in (folder / "log").read_text().splitlines():
        what, _, which = line.partition(" ")
        found += [which] if what == "read" and which in kept else []
        kept |= {which} if what == "kept" else set()
    return found


def draws(folder):
    """Arrays of the draws and their weights."""
    with h5py.File(folder / "runs/shards/posterior.nc") as file:
        return {name: values[...] for name, values in file["weighted"].items()}


def play(rounds, seed=0, say=print):
    """How many rounds ended otherwise than the unbroken run, or read again what was kept."""
    wrong, hits = 0, Counter()
    with tempfile.TemporaryDirectory(prefix="flyrun-rounds-") as scratch:
        write(Path(scratch) / "shards", table(np.random.default_rng(6), ROWS), files=FILES)
        whole = Path(scratch) / "unbroken"
        whole.mkdir()
        words = [sys.executable, "-m", "tests.fit.scan_rounds", "hub", str(whole), "here"]
        subprocess.run(words, check=True, cwd=Path(__file__).parents[2], stdout=subprocess.DEVNULL)
        unbroken, kept = draws(whole), lines(whole, "kept")
        looks = list(dict.fromkeys(line.split()[0] for line in kept))
        first, second = (sum(line.split()[0] in looks[:k] for line in kept) for k in (2, 3))
        for number in range(rounds):
            fault, folder = FAULTS[number % len(FAULTS)], Path(scratch) / str(number)
            clock = random.Random(1000 * seed + number)
            later = fault is worker_later
            hit = Round(folder, clock)
            try:
                hit.wait(clock.randrange(first, second) if later else clock.randrange(1, len(kept)))
                hits[fault.__name__] += hit.process.poll() is None
                fault(hit)
                hit.end()
                found = draws(folder)
            finally:
                hit.close()
            same = found.keys() == unbroken.keys() and all(
                np.array_equal(found[name], unbroken[name]) for name in found
            )
            again = read_again(folder)
            extra = len(lines(folder, "read")) - len(kept)
            wrong += not same or bool(again)
            told = "" if same else ", OTHER DRAWS"
            say(f"{number + 1:3} {fault.__name__:13} {extra} looks lost, {len(again)} in vain{told}")
            shutil.rmtree(folder, ignore_errors=True)
    counts = ", ".join(f"{name} {count}" for name, count in sorted(hits.items()))
    say(
        f"{rounds} rounds, {sum(hits.values())} of them hit a scan under way ({counts}); differences: {wrong}"
    )
    return wrong


if __name__ == "__main__":
    if sys.argv[1:2] == ["hub"]:
        sys.exit(hub(*sys.argv[2:]))
    sys.exit(min(1, play(*map(int, sys.argv[1:] or [20]))))
