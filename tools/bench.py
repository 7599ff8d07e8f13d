"""`make bench`: seconds of base and head, interleaved on this machine, as a ratio with an interval.

Both run the same short chains in processes of their own, which take turns: what else the machine does slows
both. A process compiles first and then times rounds; a round is a pair of times, base and head one after the
other. Exit code 1 where the whole interval lies above --fail-above.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import stats

from flyrun.experiments.check.against import checked_out, start_there

ROOT = Path(__file__).resolve().parents[1]
CASES = {
    "random walk, all data": ["sampler=random_walk", "bound=none"],
    "random walk, Firefly": ["sampler=random_walk", "bound=map", "brightness=implicit", "brightness.q=0.01"],
}
DATA = ["dataset=tall", "dataset.n_data=10000", "model=logistic", "prior=gaussian", "protocol.init=map"]
LEVEL = 0.01
"""Probability that an interval misses the ratio, by t over rounds of log ratios."""

WORKER = """
import json, sys, tempfile, time
from pathlib import Path
from flyrun.experiments.config.compose import compose_job
from flyrun.ground.environment import one_thread
from flyrun.experiments.samplers.method import prepare
words, seconds = json.loads(sys.argv[1]), float(sys.argv[2])
with tempfile.TemporaryDirectory() as folder, one_thread():
    (arm,) = compose_job(words).arms
    method = prepare(arm, Path(folder))
    state, _ = method.advance(method.init(0), 200)
    steps, taken = 100, 0.0
    while taken < seconds:
        began = time.perf_counter()
        method.advance(state, steps)
        taken = time.perf_counter() - began
        steps = steps if taken >= seconds else int(steps * min(10.0, 1.2 * seconds / max(taken, 1e-6))) + 1
    print(steps, flush=True)
    for line in sys.stdin:
        steps = int(line)
        began = time.perf_counter()
        method.advance(state, steps)
        print(time.perf_counter() - began, flush=True)
"""


class Ratio(NamedTuple):
    """Head's seconds by base's: the geometric mean over rounds and its interval."""

    mean: float
    low: float
    high: float


def ratio(base: list[float], head: list[float]) -> Ratio:
    """Of the seconds of paired rounds, two at least."""
    logs = np.log(head) - np.log(base)
    room = stats.t.isf(LEVEL / 2, len(logs) - 1) * logs.std(ddof=1) / np.sqrt(len(logs))
    return Ratio(*np.exp([logs.mean(), logs.mean() - room, logs.mean() + room]).tolist())


def rounds(words: list[str], base: Path, number: int, seconds: float) -> tuple[list[float], list[float]]:
    """Seconds of `number` rounds of base's and of head's chains; they begin in turn."""
    workers = [start_there(folder, "-c", WORKER, json.dumps(words), str(seconds)) for folder in (base, ROOT)]
    times: tuple[list[float], list[float]] = ([], [])
    try:
        steps = min(int(answer(worker)) for worker in workers)
        for k in range(number):
            for side in (0, 1) if k % 2 else (1, 0):
                workers[side].stdin.write(f"{steps}\n")
                workers[side].stdin.flush()
                times[side].append(float(answer(workers[side])))
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    return times


def answer(worker: subprocess.Popen) -> str:
    """A worker's next line. SystemExit with the last line of its errors where it has ended."""
    if line := worker.stdout.readline():
        return line
    said = worker.stderr.read().strip().splitlines() or ["nothing"]
    raise SystemExit(f"bench: a worker ended: {said[-1]}")


def main(words: list[str]) -> int:
    """Print the ratios of all cases."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__.splitlines()[0])
    parser.add_argument("--base", default="HEAD~1", help="a commit; default: the one before")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=0.5, help="of a round")
    parser.add_argument("--fail-above", type=float, default=float("inf"), help="a ratio")
    given = parser.parse_args(words)
    began, slow = time.perf_counter(), False
    with checked_out(given.base) as base:
        for name, own in CASES.items():
            found = ratio(*rounds([*DATA, *own], base, given.rounds, given.seconds))
            slow = slow or found.low > given.fail_above
            print(
                f"{name}: head takes {found.mean:.3f} of {given.base}'s time "
                f"({found.low:.3f} to {found.high:.3f}, {given.rounds} rounds, level {LEVEL:g})",
                flush=True,
            )
    print(f"{time.perf_counter() - began:.0f} s")
    return int(slow)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
