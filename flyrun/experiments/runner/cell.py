"""A cell, (arm, seed): the unit of work; its key, its folder, its log."""

import contextlib
import functools
import hashlib
import json
import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flyrun.experiments.config.arm import Arm, Job
from flyrun.experiments.data import fingerprint
from flyrun.experiments.runner import store
from flyrun.ground import progress
from flyrun.ground.errors import DataError
from flyrun.ground.numerics import code_digest

_LOGGED_EVERY_S = 30.0


@dataclass(frozen=True)
class Cell:
    """The unit of work, caching and resuming. folder: <run>/<arm>/<key>/seed=<s>."""

    arm: Arm
    seed: int
    folder: Path
    needs: tuple[Path, ...] = ()  # Folders of the cells that this one reads, of the same seed
    depth: int = 0  # 0 where it reads none, else above all that it reads
    data: str = ""  # Digest of the data that the key was made of

    @property
    def key(self) -> str:
        """Digest of the settings, the numerical sources and the data: equal keys, equal draws."""
        return self.folder.parent.name

    def prepared(self, prepare: Callable[[Any, Path], Any], setup: Path) -> Any:
        """The method of its arm. DataError where the data are no longer those that its key was made of."""
        method = prepare(self.arm, setup)
        if self.data and fingerprint(self.arm.dataset) != self.data:
            raise DataError(
                f"dataset.path={self.arm.dataset.path}: changed since this run began; wait until it is "
                "written, then give the command again"
            )
        return method

    def __str__(self) -> str:
        """Name it as on the screen: `regular seed=0`."""
        return f"{self.arm.name} seed={self.seed}"


@dataclass(frozen=True)
class Task:
    """A cell and what a worker needs besides: how to prepare its method, and what the parent measured."""

    cell: Cell
    prepare: Callable[[Any, Path], Any]
    setup_folder: Path
    environment: dict[str, Any]
    compile_s: float = 0.0
    setup_peak_bytes: int | None = None
    job: str = ""
    summarise: Callable[[Path], object] | None = None
    """Called with the cell's folder once it is finished; what it raises is no failure of the cell."""
    ends: float | None = None  # When the run's time is over, as time.time(); None: never
    turns: int = 1
    """Cells that the worker has to run by then, this one and those after it: they share the time equally."""


class CellLog:
    """Lines appended to the log of the cell in `folder`. A full disk costs the line, never the cell."""

    def __init__(self, folder: Path):
        self._path, self._last = folder / store.LOG, time.monotonic()

    def write(self, text: str) -> None:
        """Append `text` with the time before it."""
        with contextlib.suppress(OSError), open(self._path, "a", encoding="utf-8") as file:
            file.write(f"{progress.now()} {text}\n")

    def begin(self, cell: str, iteration: int, total: int) -> None:
        """Say who begins, and where."""
        where = f"begins at iteration {iteration:,} of {total:,}"
        self.write(f"{cell}: process {os.getpid()} on {socket.gethostname()} {where}")

    def pace(self, iteration: int, total: int, rate: float) -> None:
        """Say how far it is, now and then."""
        if time.monotonic() - self._last >= _LOGGED_EVERY_S:
            self._last = time.monotonic()
            self.write(f"iteration {iteration:,} of {total:,}, {rate:,.0f} it/s")


def run_dir(job: Job) -> Path:
    """Folder of a job's run."""
    return Path(job.results_dir) / "runs" / job.name


def cells(job: Job) -> list[Cell]:
    """All cells of a job, arms in order, then seeds; those that others read come first.

    What an arm's method needs is one of the job's own arms where the settings are the same.
    """
    # every shard is an arm, of the same modules
    code = functools.cache(code_digest.of_modules)
    key = functools.cache(lambda arm: cell_key(arm, key, code))
    arms = {key(arm): arm for arm in job.arms}
    by_folder: dict[Path, Cell] = {}

    def add(arm: Arm, seed: int) -> Cell:
        folder = store.cell_folder(run_dir(job), arm.name, key(arm), seed)
        if folder not in by_folder:
            others = arm.sampler.needed_at(arm, seed)
            needed = [add(arms.get(key(other), other), seed) for other in others]
            depth = 1 + max((cell.depth for cell in needed), default=-1)
            reads = tuple(cell.folder for cell in needed)
            # a file of a person's own may change at any time
            digest = fingerprint(arm.dataset) if arm.dataset.path else ""
            by_folder[folder] = Cell(arm, seed, folder, reads, depth, digest)
        return by_folder[folder]

    for arm in job.arms:
        for seed in arm.protocol.seed_list:
            add(arm, seed)
    return sorted(by_folder.values(), key=lambda cell: cell.depth)


def cell_key(
    arm: Arm, of: Callable[[Any], str] | None = None, of_code: Callable[[tuple[str, ...]], str] | None = None
) -> str:
    """12 hex digits: settings that the draws depend on, code, stored data, cells that the method reads.

    of, of_code: the same of other arms, and digests of modules, where some are known.
    """
    needed = [(of or cell_key)(other) for other in arm.sampler.needed_at(arm, 0)]
    code, data = (of_code or code_digest.of_modules)(tuple(arm.code())), fingerprint(arm.dataset)
    text = json.dumps([arm.key_settings(), code, data, *needed], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]
