"""A stretch of a finished chain once more, with what is not stored of it: which data were bright.

The same state gives the same draws, so settings and seed are the chain; the stored draws vouch for it.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from flyrun.experiments.config.arm import ARM_GROUPS, Arm
from flyrun.experiments.runner.store import StoredCell
from flyrun.experiments.samplers.chain.method import prepare
from flyrun.ground import environment
from flyrun.ground.errors import StoreError
from flyrun.ground.schema import build
from flyrun.tables.dataset import Dataset


class Stretch(NamedTuple):
    """States after `first` iterations and after each of the n that follow: theta (n + 1, P).

    bright: (n + 1, N) bool.  dataset: flyrun.experiments.data.Dataset that the chain ran on.
    """

    first: int
    theta: np.ndarray
    bright: np.ndarray
    dataset: Dataset


def replay(cell: StoredCell, setup: Path, first: int, n: int) -> Stretch:
    """Run a finished Firefly cell again up to `first`, then n iterations one by one.

    setup: the run's folder of fits. Raises StoreError where the draws are not those stored, as when another
    version of flyrun made them.
    """
    with environment.one_thread():
        program = prepare(arm_of(cell), setup)
        state, _ = program.advance(program.init(cell.seed), first)
        thetas, brights = [state["theta"]], [_bright(state, program.n_data)]
        for _ in range(n):
            state, _ = program.advance(state, 1)
            thetas.append(state["theta"])
            brights.append(_bright(state, program.n_data))
    stretch = Stretch(first, np.array(thetas), np.array(brights), program.problem.dataset)
    _compare(cell, stretch)
    return stretch


def arm_of(cell: StoredCell) -> Arm:
    """The arm that a finished cell belongs to, from its stored settings."""
    settings = cell.info["settings"]
    groups: dict[str, Any] = {
        group: build(group, settings[group]) if group in settings else None for group in ARM_GROUPS
    }
    return Arm(experiment=str(cell.info["experiment"]), name=cell.arm, **groups)


def _bright(state: dict[str, np.ndarray], n_data: int) -> np.ndarray:
    bright = np.zeros(n_data, dtype=bool)
    bright[state["memory.partition.bright"]] = True
    return bright


def _compare(cell: StoredCell, stretch: Stretch) -> None:
    with cell.file() as file:
        for group in ("warmup_posterior", "posterior"):
            if group not in file:
                continue
            # a draw's coordinate is its iteration, counted from 0
            at = file[group]["draw"][:] - stretch.first + 1
            inside = (at >= 1) & (at < len(stretch.theta))
            if not np.array_equal(file[group]["theta"][0][inside], stretch.theta[at[inside]]):
                raise StoreError(
                    f"{cell.folder}: its draws are not those that this flyrun gives; run it with --fresh"
                )
