"""Writes made-up cells in the format that the runner leaves behind."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from scipy.signal import lfilter

from flyrun.experiments.runner import store
from flyrun.experiments.runner.posterior import PosteriorFile
from flyrun.ground import files, paths, run_files

TABLE1 = paths.reference_dir() / "firefly_table1.json"
KEY = "0123456789ab"


def write_run(root: Path, arms: dict[str, list[int]], **entry) -> Path:
    """run.json wanting these seeds of these arms; returns the run's folder."""
    root.mkdir(parents=True, exist_ok=True)
    listed = [{"name": name, "key": KEY, "seeds": seeds, "problem": {}} for name, seeds in arms.items()]
    default = {
        "name": "mnist_logreg",
        "experiment": "mnist_logreg",
        "title": "Sevens against nines",
        "paper": "A paper (2014)",
        "reference": json.loads(TABLE1.read_text())["mnist_logreg"],
        "reference_name": "firefly_table1",
        "command": "flyrun experiment=mnist_logreg",
    }
    store.write_run(root, {**default, **entry, "arms": listed})
    return root


def cell_folder(root: Path, arm: str, seed: int) -> Path:
    folder = store.cell_folder(root, arm, KEY, seed)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def write_cell(
    root: Path,
    arm: str,
    seed: int,
    *,
    queries: float = 12214,
    stickiness: float = 0.9,
    iterations: int = 1200,
    burn_in: int = 200,
    n_params: int = 3,
    thin: int = 1,
    sampling_s: float = 2.0,
    accept: float = 0.234,
    shift: float = 0.0,
    rest: bool = False,
    facts: dict | None = None,
    environment: dict | None = None,
    finished: str = "2030-01-01T00:00:00+00:00",
) -> np.ndarray:
    """A finished cell of AR(1) chains, coefficient `stickiness`; returns the draws after burn-in, (T, D)."""
    rng = np.random.default_rng([seed, *arm.encode()])
    noise = rng.normal(size=(iterations, n_params)) * np.sqrt(1 - stickiness**2)
    theta = shift + lfilter([1], [1, -stickiness], noise, axis=0)
    if rest:
        theta[:] = 0.1
    jitter = 0 if arm == "regular" else rng.integers(-2, 3, iterations)
    draws = {
        "theta": theta[thin - 1 :: thin],
        "queries": np.full(iterations, round(queries), np.int64) + jitter,
        "bright": np.full(iterations, round(queries * 0.4), np.int64),
        "log_joint": -1000 - (theta**2).sum(axis=1),
        "accepted": np.full(iterations, accept),
    }
    folder = cell_folder(root, arm, seed)
    tree = PosteriorFile(
        folder / run_files.POSTERIOR,
        (iterations, burn_in, thin),
        {"experiment": "mnist_logreg", "arm": arm, "seed": seed, "exact": True},
        [f"w{d}" for d in range(n_params)],
    )
    tree.add([(0, iterations, draws)])
    grid, at_grid = tree.trace_points()
    far = 2e4 * np.exp(-grid / (0.1 * burn_in + 1)) * (1 + 0.2 * rng.normal())
    log_posterior = -900 - n_params / 2 - (at_grid**2).sum(axis=1) - far
    trace = {"iteration": grid, "log_posterior": log_posterior, "log_likelihood": log_posterior + 50}
    tree.add_group("trace", trace, "grid")
    tree.close()
    info = {
        "experiment": "mnist_logreg",
        "name": "mnist_logreg",
        "arm": arm,
        "seed": seed,
        "key": KEY,
        "settings": {
            "dataset": {"name": "mnist_7v9"},
            "model": {"name": "logistic"},
            "sampler": {"name": "random_walk", "target_accept": 0.234, "step": None},
        },
        "facts": {
            "n_data": 12214,
            "n_params": n_params,
            "exact": True,
            "update": "Metropolis-Hastings",
            "setup_queries": 0 if arm == "regular" else 610700,
            "setup_s": 0.5,
            **(facts or {}),
        },
        "tuning": {"step": 0.03},
        "iterations": iterations,
        "burn_in": burn_in,
        "thin": thin,
        "environment": {
            "flyrun": "0.1.0",
            "commit": "a" * 40,
            "python": "3.11.7",
            "numpy": "2.4.6",
            "cpu": "A processor",
            "cores": 2,
            **(environment or {}),
        },
        "timings": {
            "sampling_s": sampling_s,
            "burn_in_s": 0.4,
            "wall_s": 3.0,
            "compile_s": 0.0,
            "setup_s": 0.5,
        },
        "sessions": 1,
        "finished": finished,
    }
    files.write_json(folder / store.CELL, info)
    store.mark_done(folder)
    return theta[burn_in:][thin - 1 :: thin]


def write_three_arms(root: Path, seeds: int = 3, **kwargs) -> Path:
    """A finished run of the paper's three arms."""
    write_run(root, {name: list(range(seeds)) for name in ("regular", "untuned", "map_tuned")})
    for seed in range(seeds):
        write_cell(root, "regular", seed, queries=12214, stickiness=0.9, **kwargs)
        write_cell(root, "untuned", seed, queries=6252, stickiness=0.95, sampling_s=3.0, **kwargs)
        write_cell(root, "map_tuned", seed, queries=207, stickiness=0.95, sampling_s=0.2, **kwargs)
    return root
