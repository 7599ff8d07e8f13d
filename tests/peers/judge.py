"""Runs compared: effective draws by second and by evaluation, and whether the posterior is the same."""

from __future__ import annotations

from typing import Any

import numpy as np

from flyrun.diagnostics import coda
from tests.peers.run import Run

POINTS = 24


def moments(runs: list[Run]) -> tuple[np.ndarray, np.ndarray]:
    """Posterior means and sds, (D,), of all draws of some runs."""
    draws = np.concatenate([run.draws for run in runs])
    return draws.mean(axis=0), draws.std(axis=0)


def sizes(run: Run) -> np.ndarray:
    """Effective draws by coordinate, (D,): R-CODA's, the worse of those of θ and of (θ - mean)²."""
    spread = run.draws.std(axis=0)
    scaled = (run.draws - run.draws.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    means, squares = coda.effective_size(scaled), coda.effective_size(scaled**2)
    return means if means.mean() < squares.mean() else squares


def row(runs: list[Run], reference: tuple[np.ndarray, np.ndarray]) -> dict[str, Any]:
    """One line of the table; ± are sds over seeds. Means and sds are of all seeds' draws together."""
    mean, sd = moments(runs)
    ess = [sizes(run) for run in runs]
    rates = np.array([size.mean() / run.seconds[-1] for size, run in zip(ess, runs, strict=True)])
    worst = np.array([size.min() / run.seconds[-1] for size, run in zip(ess, runs, strict=True)])
    costs = np.array([run.evaluations[-1] / size.mean() for size, run in zip(ess, runs, strict=True)])
    return {
        "seeds": len(runs),
        "effective_draws": float(sum(size.mean() for size in ess)),
        "ess_per_s": rates.mean(),
        "ess_per_s_sd": _sd(rates),
        "ess_per_s_worst": worst.mean(),
        "evaluations_per_ess": costs.mean(),
        "evaluations_per_ess_sd": _sd(costs),
        "start_s": runs[0].start_s,  # later chains find everything compiled
        "start_evaluations": runs[0].start_evaluations,
        "mean_off_sds": float(np.max(np.abs(mean - reference[0]) / reference[1])),
        "sd_off": float(np.max(np.abs(sd / reference[1] - 1.0))),
    }


def errors(run: Run, reference: tuple[np.ndarray, np.ndarray], share: float = 1.0) -> dict[str, np.ndarray]:
    """Root mean square over coordinates of the running mean's error in posterior sds, along the run."""
    at = np.unique(np.geomspace(1, max(1, share * len(run.draws)), POINTS).astype(int)) - 1
    running = np.cumsum(run.draws, axis=0)[at] / (at + 1)[:, None]
    off = (running - reference[0]) / reference[1]
    return {
        "seconds": run.seconds[at],
        "evaluations": run.evaluations[at],
        "error": np.sqrt((off**2).mean(axis=1)),
    }


def _sd(values: np.ndarray) -> float:
    return float(values.std(ddof=1)) if values.size > 1 else float("nan")
