"""Theorem 3.1 of Angelino, Johnson & Adams (2016) where E_max can be computed: a chain on a grid, by events.

N trials of which a few are events, θ their logit on a grid, proposals even over it. Likelihood ratios take
two values, so that a test which reads batches goes by the number of events among the data read so far: its
chance to accept, over all orders of the data and all u, is a finite sum.
"""

import itertools
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

N, EVENTS = 1_000, 20
GRID = np.log(EVENTS / (N - EVENTS)) + np.linspace(-1.2, 1.2, 5)


class Told(NamedTuple):
    """What a test makes of the chain."""

    error: float  # E_max
    apart: float  # total variation of the stationary laws
    claimed: float  # A·h·E_max/(1 − λ)


def log_ratios(here: float, there: float) -> tuple[float, float]:
    """log p(x|there) − log p(x|here) of an event, and of none."""
    none = float(np.logaddexp(0.0, here) - np.logaddexp(0.0, there))
    return there - here + none, none


def exact_chance(here: float, there: float) -> float:
    """α of Metropolis & Hastings."""
    event, none = log_ratios(here, there)
    return float(np.exp(min(0.0, EVENTS * event + (N - EVENTS) * none)))


def chance(rule: Any, here: float, there: float) -> float:
    """α̃ of a sequential rule (flyrun.experiments.samplers.chain.acceptance.sequential)."""
    event, none = log_ratios(here, there)
    seen, stages = np.arange(EVENTS + 1), []
    for size, by_sd, by_range in zip(rule.sizes, rule.by_sd, rule.by_range, strict=True):
        mean = (seen * event + (size - seen) * none) / size
        sd = abs(event - none) * np.sqrt(np.maximum(seen * (size - seen), 0) / (size * (size - 1.0)))
        last = size == N
        margin = np.zeros(EVENTS + 1) if last else by_sd * sd + by_range * abs(event - none)
        stages.append((int(size), mean, margin))
    # what is decided changes with u at these places alone
    ends = np.concatenate([np.exp(np.minimum(0.0, N * (m + s * c))) for _, m, c in stages for s in (-1, 1)])
    ends = np.unique(np.concatenate([[0.0, 1.0], ends[ends > 1e-300]]))
    level = np.log(0.5 * (ends[1:] + ends[:-1])) / N
    reading, accepted, before = np.zeros((len(level), EVENTS + 1)), np.zeros(len(level)), 0
    reading[:, 0] = 1.0
    for size, mean, margin in stages:
        left = N - before
        more = seen[None, :] - seen[:, None]
        moves = stats.hypergeom.pmf(more, left, EVENTS - seen[:, None], size - before)
        reading = reading @ np.nan_to_num(moves)
        gap = mean[None, :] - level[:, None]
        stops = np.abs(gap) >= margin[None, :]
        accepted += (reading * (stops & (gap > 0.0))).sum(axis=1)
        reading, before = np.where(stops, 0.0, reading), size
    return float(accepted @ np.diff(ends))


def kernel(chances: np.ndarray) -> np.ndarray:
    """Transition matrix of a chain with proposals even over the grid."""
    moves = chances / len(chances)
    np.fill_diagonal(moves, 0.0)
    return moves + np.diag(1.0 - moves.sum(axis=1))


def told(rule: Any) -> Told:
    """E_max, and both sides of (3.36), with A = 1, λ the contraction of h steps (3.37) and the best h."""
    right, wrong = np.ones((2, len(GRID), len(GRID)))
    for i, j in itertools.permutations(range(len(GRID)), 2):
        right[i, j], wrong[i, j] = exact_chance(GRID[i], GRID[j]), chance(rule, GRID[i], GRID[j])
    error = float(np.abs(wrong - right).max())
    step, best = kernel(right), np.inf
    power = np.eye(len(GRID))
    for h in range(1, 41):
        power = power @ step
        contraction = 0.5 * np.abs(power[:, None] - power[None]).sum(axis=2).max()
        best = min(best, h / (1.0 - contraction)) if contraction < 1.0 else best
    laws = [stationary(one) for one in (step, kernel(wrong))]
    return Told(error, float(0.5 * np.abs(laws[0] - laws[1]).sum()), float(best * error))


def stationary(matrix: np.ndarray) -> np.ndarray:
    """The law that a chain leaves as it is."""
    size = len(matrix)
    system = np.vstack([matrix.T - np.eye(size), np.ones(size)])
    return np.linalg.lstsq(system, np.append(np.zeros(size), 1.0), rcond=None)[0]
