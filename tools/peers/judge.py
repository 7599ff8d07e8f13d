"""Runs compared: effective draws by second and by evaluation, and whether the posterior is the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from flyrun.accuracy import posterior_errors as accuracy
from flyrun.accuracy.posterior_errors import Answer, Truth
from flyrun.diagnostics import coda
from tools.peers.run import Run

POINTS = 24
#: how often chance alone should exceed what `limit` gives, over all coordinates' means and sds together
LEVEL = 0.01


@dataclass(frozen=True)
class Moments:
    """Posterior means and sds by coordinate, (D,), each with its standard error; the sds' is relative."""

    mean: np.ndarray
    sd: np.ndarray
    mean_error: np.ndarray
    sd_error: np.ndarray


def sizes(draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Effective draws of θ and of (θ - mean)² by coordinate, (D,) each: R-CODA's."""
    spread = draws.std(axis=0)
    scaled = (draws - draws.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return coda.effective_size(scaled), coda.effective_size(scaled**2)


def moments(chains: list[np.ndarray]) -> Moments:
    """Of several chains' draws (T, D) together."""
    counts = [sizes(draws) for draws in chains]
    draws = np.concatenate(chains)
    mean, sd = draws.mean(axis=0), draws.std(axis=0)
    of_means, of_squares = (np.maximum(sum(part), 1.0) for part in zip(*counts, strict=True))
    spread_of_squares = (((draws - mean) / sd) ** 2).std(axis=0)
    # d sd / sd = d variance / (2 variance)
    return Moments(mean, sd, sd / np.sqrt(of_means), spread_of_squares / (2.0 * np.sqrt(of_squares)))


def limit(n_params: int) -> float:
    """What the largest of all standardised differences exceeds by chance with probability LEVEL."""
    return float(stats.norm.isf(LEVEL / (2 * 2 * n_params)))


def row(runs: list[Run], reference: Moments) -> dict[str, Any]:
    """One line of the table; ± are sds over seeds. Means and sds are of all seeds' draws together."""
    both = [sizes(run.draws) for run in runs]
    ess = [means if means.mean() < squares.mean() else squares for means, squares in both]
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
        "seconds_per_evaluation": sum(r.seconds[-1] for r in runs) / sum(r.evaluations[-1] for r in runs),
        "compile_s": runs[0].start.compile_s,
        "warm_s": float(np.mean([run.start.warm_s for run in runs])),
        "start_evaluations": float(np.mean([run.start.evaluations for run in runs])),
        **agreement(moments([run.draws for run in runs]), reference),
    }


def _truth(reference: Moments) -> Truth:
    return Truth(reference.mean, reference.sd, reference.mean_error / reference.sd, "reference")


def agreement(found: Moments, reference: Moments) -> dict[str, float]:
    """Largest difference of means (in sds) and of sds (relative) over coordinates, with its standard error,
    and the largest of all differences in units of their standard errors."""
    one = accuracy.errors(Answer(found.mean, found.sd, found.mean_error / found.sd), _truth(reference))
    mean_off, mean_error, sd_off = one.off, one.error, one.ratio - 1.0
    sd_error = np.hypot(found.sd_error, reference.sd_error)
    at, by = np.argmax(np.abs(mean_off)), np.argmax(np.abs(sd_off))
    return {
        "off_worst": float(np.abs(mean_off[at])),
        "off_worst_error": float(mean_error[at]),
        "sd_off": float(np.abs(sd_off[by])),
        "sd_off_error": float(sd_error[by]),
        "largest_z": float(max(np.abs(mean_off / mean_error).max(), np.abs(sd_off / sd_error).max())),
    }


def errors(run: Run, reference: Moments) -> dict[str, np.ndarray]:
    """Root mean square over coordinates of the running mean's error in posterior sds, along the run."""
    at = np.unique(np.geomspace(1, len(run.draws), POINTS).astype(int)) - 1
    running = np.cumsum(run.draws, axis=0)[at] / (at + 1)[:, None]
    off = accuracy.errors(Answer(running, np.empty((len(at), 0))), _truth(reference))
    return {
        "seconds": run.seconds[at],
        "evaluations": run.evaluations[at],
        "error": off.rms,
    }


def _sd(values: np.ndarray) -> float:
    return float(values.std(ddof=1)) if values.size > 1 else float("nan")
