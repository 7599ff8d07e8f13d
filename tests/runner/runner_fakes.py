"""A program for the runner's tests: a random walk in plain NumPy, told by environment variables to misbehave.

It lives in a module of its own so that worker processes and subprocesses can import it.
"""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from flyrun.experiments.config.arm import Arm, Job
from flyrun.experiments.config.bound import NoBound
from flyrun.experiments.config.brightness import NoBrightness
from flyrun.experiments.config.dataset.row_data import Mnist7v9
from flyrun.experiments.config.prior import Gaussian
from flyrun.experiments.config.protocol import Protocol
from flyrun.experiments.config.sampler.chain import RandomWalk
from flyrun.experiments.runner import store
from flyrun.experiments.runner.launch import run
from flyrun.experiments.samplers.method import Facts, Method
from flyrun.families.options import Logistic
from flyrun.ground.errors import DataError
from flyrun.ground.executor import Dask, Local

D = 3
ITERATIONS, BURN_IN = 1200, 300


class Walk(Method):
    """x' = x + N(0, 1); iterations cost FAKE_SLEEP seconds, until the file FAKE_AWAKE is there, and
    FAKE_QUERIES queries each; FAKE_FAULT = kind:arm:seed:iteration."""

    def __init__(self, arm):
        self.arm = arm
        self.sleep = float(os.environ.get("FAKE_SLEEP", "0"))

    def init(self, seed, needed=()):
        rng = np.random.default_rng(seed)
        position = rng.normal(size=D)
        return {
            "iteration": np.zeros(1, np.int64),
            "seed": np.array([seed]),
            "position": position,
            **_dump(rng),
        }

    def advance(self, state, n):
        rng, position, first = _load(state), state["position"].copy(), int(state["iteration"][0])
        thin = self.arm.protocol.thin
        theta, log_joint = np.empty((n // thin, D)), np.empty(n)
        for k in range(n):
            position += rng.normal(size=D)
            log_joint[k] = -0.5 * position @ position
            if (first + k + 1) % thin == 0:
                theta[(k + 1) // thin - 1] = position
        if not os.path.exists(os.environ.get("FAKE_AWAKE", "")):
            time.sleep(self.sleep * n)
        self.misbehave(int(state["seed"][0]), first, n, log_joint)
        draws = {
            "theta": theta,
            "log_joint": log_joint,
            "queries": np.full(n, int(os.environ.get("FAKE_QUERIES", "7")), np.int64),
            "accepted": np.ones(n),
        }
        after = {**state, "iteration": np.array([first + n]), "position": position, **_dump(rng)}
        return after, draws

    def misbehave(self, seed, first, n, log_joint):
        fault = os.environ.get("FAKE_FAULT")
        if not fault:
            return
        kind, arm, which, iteration = fault.split(":")
        if arm != self.arm.name or int(which) != seed or not first <= int(iteration) < first + n:
            return
        if kind == "raise":
            raise ValueError("a planted fault")
        if kind == "memory":
            np.empty(1 << 55)
        if kind == "nan":
            log_joint[0] = np.nan
        if kind == "interrupt":
            os.kill(os.getpid(), signal.SIGINT)
        if kind == "kill":
            os.kill(os.getpid(), signal.SIGKILL)

    def trace(self, theta):
        return {"log_posterior": -0.5 * (theta**2).sum(1), "log_likelihood": theta[:, 0]}

    def facts(self, state=None):
        return Facts("walk", True, ("a", "b", "c"), 7, D, setup_s=0.5, tuned={"step": np.float64(1.0)})


def prepare(arm, folder: Path):
    if os.environ.get("FAKE_FAULT") == "data":
        raise DataError("planted.npz row 3: NaN; remove the row")
    return Walk(arm)


class SlowToCompile(Walk):
    """Notes in the folder of the run's setup which process compiled it; step 5 cannot be compiled.

    FAKE_LASTS = arm:other: the arm's compiling lasts until the other's has begun.
    """

    def __init__(self, arm, folder):
        super().__init__(arm)
        self.folder = folder

    def warm_up(self):
        (self.folder / f"{self.arm.name}.{os.getpid()}").touch()
        if self.arm.sampler.step == 5:
            raise ValueError("a planted fault")
        arm, _, other = os.environ.get("FAKE_LASTS", "").partition(":")
        deadline = time.monotonic() + (20 if arm == self.arm.name else 0)
        while time.monotonic() < deadline and not any(self.folder.glob(f"{other}.*")):
            time.sleep(0.01)
        return 1.0


def prepare_slowly(arm, folder: Path):
    return SlowToCompile(arm, folder)


def refuse(arm, folder: Path):
    raise AssertionError("nothing should be prepared when all is cached")


def _dump(rng):
    inner = rng.bit_generator.state["state"]
    words = [inner[name] >> shift & (2**64 - 1) for name in ("state", "inc") for shift in (64, 0)]
    return {"rng": np.array(words, np.uint64)}


def _load(state):
    high, low, inc_high, inc_low = (int(word) for word in state["rng"])
    rng = np.random.default_rng(0)
    inner = {"state": high << 64 | low, "inc": inc_high << 64 | inc_low}
    rng.bit_generator.state = {**rng.bit_generator.state, "state": inner}
    return rng


def make_job(results_dir, arms=("one", "three"), workers=1, fresh=False, seeds=2, executor=None, **protocol):
    """A job of fake arms; `protocol` overrides its fields."""
    settings = {"iterations": ITERATIONS, "burn_in": BURN_IN, "chunk_seconds": 0.05, "seeds": seeds}
    one = Arm(
        experiment="walk",
        name="one",
        dataset=Mnist7v9(),
        model=Logistic(),
        prior=Gaussian(),
        bound=NoBound(),
        brightness=NoBrightness(),
        sampler=RandomWalk(),
        protocol=Protocol(**{**settings, **protocol}),
    )
    return Job(
        name="walk",
        experiment="walk",
        title="A walk",
        paper="none",
        arms=tuple(replace(one, name=name, sampler=RandomWalk(step=len(name) * 1.0)) for name in arms),
        executor=executor or Local(workers=workers),
        results_dir=Path(results_dir),
        fresh=fresh,
        run_overrides=["experiment=walk", "fresh=true"] if fresh else ["experiment=walk", "prior.scale=1"],
    )


def draws_of(run_dir):
    """{(arm, seed): {group/name: array}} of every finished cell, read back from the posterior files."""
    found = {}
    for cell in store.open_cells(Path(run_dir)):
        if cell.state != "done":
            continue
        with cell.file() as file:
            found[cell.arm, cell.seed] = {
                f"{group}/{name}": values[()]
                for group, members in file.items()
                for name, values in members.items()
                if name != "seconds"
            }
    return found


def assert_same(found, wanted):
    assert found.keys() == wanted.keys()
    for cell, arrays in wanted.items():
        assert found[cell].keys() == arrays.keys()
        for name, array in arrays.items():
            np.testing.assert_array_equal(found[cell][name], array, err_msg=f"{cell} {name}")


def workers_of(process):
    """Process numbers of the workers of `process`: those it started, and copies of the one it has copied."""
    started = _children(process, "spawn_main")
    return started + [copy for server in servers_of(process) for copy in _children(server)]


def servers_of(process):
    """Process numbers of what `process` has copied as its workers."""
    return _children(process, "multiprocessing.forkserver")


def _children(process, command=""):
    try:
        children = [path.read_text() for path in Path(f"/proc/{process}/task").glob("*/children")]
    except OSError:
        return []
    return [int(child) for child in " ".join(children).split() if command in _command(child)]


def _command(process):
    try:
        return Path(f"/proc/{process}/cmdline").read_text()
    except OSError:
        return ""


def kill_one(processes):
    """SIGKILL the first of these processes; its number, or None where there was none."""
    for process in processes:
        os.kill(process, signal.SIGKILL)
        return process
    return None


def after_first_checkpoint(folder, action, cells=1):
    """Wait until so many cells have a checkpoint, then act."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if len({path.parent for path in folder.glob("runs/*/*/*/*/checkpoint*")}) >= cells:
            break
        time.sleep(0.01)
    action()


if __name__ == "__main__":
    # For tests that kill: python runner_fakes.py RESULTS_DIR WORKERS [dask [ADDRESS]]
    import sys

    import runner_fakes as fakes
    from rich.console import Console

    from flyrun.__main__ import program
    from flyrun.cli.messages import explain

    settings = {"address": sys.argv[4]} if len(sys.argv) > 4 else {"workers": int(sys.argv[2])}
    executor = Dask if "dask" in sys.argv else Local
    job = fakes.make_job(sys.argv[1], executor=executor(**settings))

    def command():
        try:
            return run(job, Console(), fakes.prepare).exit_code
        except Exception as error:
            return explain(error)

    sys.exit(program(command))
