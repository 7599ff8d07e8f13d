"""Short chains of an experiment's arms at fixed seeds, and what is kept of them: counts and digests."""

import hashlib
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import threadpoolctl
from llvmlite import binding

from flyrun.experiments.config import catalogue
from flyrun.experiments.config.arm import Arm, Job
from flyrun.experiments.config.compose import compose_job, own_list
from flyrun.experiments.runner import store
from flyrun.experiments.runner.cell import cell_key, cells
from flyrun.experiments.runner.launch import run
from flyrun.experiments.runner.store import StoredCell
from flyrun.experiments.samplers.method import prepare
from flyrun.ground.children import Apart
from flyrun.ground.environment import describe, one_thread
from flyrun.ground.errors import FlyrunError
from flyrun.ground.executor import Local

SEEDS = 8
SIZE = ("protocol=smoke", f"protocol.seeds={SEEDS}", "protocol.iterations=200", "protocol.burn_in=100")
"""How every experiment is run; its own list `check` comes on top."""


@dataclass(frozen=True)
class Measured:
    """What an arm did. Lists are over seeds, sums over all iterations.

    setup: digest of features, MAP, bounds, and of where the chains start.  draws: digest of all draws.
    queries: likelihoods (on graphs: factors) evaluated.  moves: iterations (on graphs: updates) that moved.
    level: mean log density of the state (on graphs: energy; where neither is recorded: θ) after burn-in;
        without draws mean of E θ, or of what else is handed in.
    """

    setup: str
    draws: str
    queries: list[int]
    moves: list[int]
    level: list[float]


def overrides(experiment: str, folders: Sequence[str] = ()) -> list[str]:
    """The words that make an experiment small. Raises ConfigError where its list `check` is none."""
    small = own_list(catalogue.load(catalogue.files("experiment", folders)[experiment]), "check")
    return [*SIZE, "protocol.thin=1", *small]


def measure(experiment: str, folders: Sequence[str] = ()) -> dict[str, dict[str, Any]]:
    """Run every arm of an experiment: arm -> `Measured` as a dictionary. folders: of a person's own."""
    job = compose_job([f"experiment={experiment}", *overrides(experiment, folders)], folders)
    with tempfile.TemporaryDirectory(prefix="flyrun-check-") as folder, Apart() as apart:
        each = ((arm.name, apart.call(arm.sampler.worker, _arm, arm, Path(folder), job)) for arm in job.arms)
        return {name: asdict(measured) for name, measured in each}


def _needed(arm: Arm, seed: int, folder: Path, job: Job) -> tuple[StoredCell, ...]:
    """The cells that an arm reads at a seed, run. FlyrunError where one failed."""
    others = arm.sampler.needed_at(arm, seed)
    arms = tuple(replace(arm, protocol=replace(arm.protocol, seeds=(seed,))) for arm in others)
    if not arms:
        return ()
    name = f"needed-{cell_key(arms[0])}-{seed}"  # by which arms that read the same share them
    needed = replace(job, name=name, arms=arms, results_dir=folder, executor=Local(workers=1), fresh=False)
    for outcome in run(needed).failed:
        raise FlyrunError(f"{outcome.cell}: {outcome.message}")
    return tuple(store.open_folder(cell.folder) for cell in cells(needed))


def machine() -> dict[str, str]:
    """What the last bits of the arithmetic depend on: processor, BLAS and compilers."""
    features = str(binding.get_host_cpu_features().flatten())
    here, blas = describe(), threadpoolctl.threadpool_info()
    cores = {str(library.get("architecture")) for library in blas if library.get("user_api") == "blas"}
    return {
        "processor": f"{binding.get_host_cpu_name()} {hashlib.sha256(features.encode()).hexdigest()[:8]}",
        "blas": " ".join(sorted(cores)),
        **{name: str(here[name]) for name in ("numpy", "scipy", "numba", "scikit-learn")},
    }


@one_thread()
def _arm(arm: Arm, folder: Path, job: Job) -> Measured:
    method = prepare(arm, folder)
    setup, draws = hashlib.sha256(), hashlib.sha256()
    add(setup, method.parts)
    queries, moves, level = [], [], []
    for seed in arm.protocol.seed_list:
        state = method.init(seed, _needed(arm, seed, folder, job))
        after, records = method.advance(state, arm.protocol.iterations)
        if method.answers != "draws":
            add(draws, tuple(value for _, value in sorted(method.result(after).items())))
            queries.append(int(records["queries"].sum()))
            moves.append(0)
            handed = method.estimates(after)
            level.append(float(np.mean(handed.get("mean", next(iter(handed.values()))))))
            continue
        first = next(state[name] for name in ("theta", "x", "phi") if name in state)
        add(setup, first)
        if "actual" in records:  # on a graph queries are told by update, too
            del records["queries"]
        for name in sorted(records.keys() - {"seconds"}):  # which luck decides
            add(draws, records[name])
        spent, moved = _counts(records, first)
        queries.append(spent)
        moves.append(moved)
        density = next(records[name] for name in ("log_joint", "energy", "theta") if name in records)
        level.append(float(density[arm.protocol.burn_in :].mean()))
    return Measured(setup.hexdigest()[:16], draws.hexdigest()[:16], queries, moves, level)


def _counts(records: dict[str, np.ndarray], first: np.ndarray) -> tuple[int, int]:
    """Queries and moves of one chain that begins at `first`, (P,)."""
    if "queries" in records:
        steps = np.diff(records["theta"], axis=0, prepend=first[None])
        return int(records["queries"].sum()), int((steps != 0).any(axis=1).sum())
    per_sweep = first.size
    queries, moves = (round(float(records[name].sum()) * per_sweep) for name in ("actual", "changed"))
    return queries, moves


def add(digest: Any, tree: Any) -> None:
    """Add every array, number and name in nested tuples to a digest."""
    if isinstance(tree, tuple):
        parts = [part for part in tree if not getattr(part, "is_nothing", False)]
        digest.update(f"{type(tree).__name__} {len(parts)};".encode())
        for part in parts:
            add(digest, part)
    elif isinstance(tree, np.ndarray):
        digest.update(f"{tree.dtype} {tree.shape};".encode())
        digest.update(np.ascontiguousarray(tree))
    elif tree is None or isinstance(tree, (bool, int, float, str, np.generic)):
        digest.update(f"{tree!r};".encode())
    else:
        raise TypeError(f"a {type(tree).__name__} in a program's parts has no digest")
