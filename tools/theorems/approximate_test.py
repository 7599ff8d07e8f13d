"""Theorem 3.1 of Angelino, Johnson & Adams (2016) where E_max can be computed: a chain on a grid, by events.

N trials of which a few are events, θ their logit on a grid, proposals even over it. Likelihood ratios take
two values, and so does what proxies leave of them. A test which reads batches then goes by the number of
events among the data read so far: its chance to accept, over all orders of the data and all u, is a finite
sum.
"""

import itertools
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from flyrun.experiments.samplers.chain.surrogate.remainder import leverage_reach

N, EVENTS = 1_000, 20
MODE = np.log(EVENTS / (N - EVENTS))
GRID = MODE + np.linspace(-1.2, 1.2, 5)
STEEPEST = 1.0 / (6.0 * np.sqrt(3.0))  # the largest third derivative of log(1 + e^θ)


class Told(NamedTuple):
    """What a test makes of the chain."""

    error: float  # E_max
    read: float  # share of the data that a test reads, mean over the pairs of positions
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


def proxy_ratios(here: float, there: float) -> tuple[float, float]:
    """The same of Taylor polynomials of order 2 at the mode, as acceptance.order=2 has them."""
    share, bend = EVENTS / N, 0.5 * EVENTS / N * (1.0 - EVENTS / N)
    squares = bend * ((there - MODE) ** 2 - (here - MODE) ** 2)
    return (1.0 - share) * (there - here) - squares, -share * (there - here) - squares


def chance(rule: Any, here: float, there: float, proxies: bool = False) -> tuple[float, float]:
    """α̃ of a rule of flyrun.experiments.samplers.chain.acceptance.sequential, and the share that it reads."""
    event, none = log_ratios(here, there)
    known, width = 0.0, abs(event - none)
    if proxies:
        of_event, of_none = proxy_ratios(here, there)
        event, none, known = event - of_event, none - of_none, EVENTS * of_event + (N - EVENTS) * of_none
        away = (np.array([theta - MODE]) for theta in (here, there))
        width = 2.0 * STEEPEST * leverage_reach(2, False, *away)
    seen, stages = np.arange(EVENTS + 1), []
    for size, by_sd, by_range in zip(rule.sizes, rule.by_sd, rule.by_range, strict=True):
        mean = (seen * event + (size - seen) * none) / size
        sd = abs(event - none) * np.sqrt(np.maximum(seen * (size - seen), 0) / (size * (size - 1.0)))
        last = size == N
        margin = np.zeros(EVENTS + 1) if last else by_sd * sd + by_range * width
        stages.append((int(size), mean, margin))
    # what is decided changes with u at these places alone
    ends = [np.exp(np.minimum(0.0, known + N * (m + s * c))) for _, m, c in stages for s in (-1, 1)]
    places = np.concatenate(ends)
    places = np.unique(np.concatenate([[0.0, 1.0], places[places > 1e-300]]))
    level = (np.log(0.5 * (places[1:] + places[:-1])) - known) / N
    reading, accepted, before = np.zeros((len(level), EVENTS + 1)), np.zeros(len(level)), 0
    reading[:, 0], read = 1.0, np.zeros(len(level))
    for size, mean, margin in stages:
        left = N - before
        more = seen[None, :] - seen[:, None]
        moves = stats.hypergeom.pmf(more, left, EVENTS - seen[:, None], size - before)
        reading = reading @ np.nan_to_num(moves)
        read += reading.sum(axis=1) * (size - before) / N
        gap = mean[None, :] - level[:, None]
        stops = np.abs(gap) >= margin[None, :]
        accepted += (reading * (stops & (gap > 0.0))).sum(axis=1)
        reading, before = np.where(stops, 0.0, reading), size
    return float(accepted @ np.diff(places)), float(read @ np.diff(places))


def kernel(chances: np.ndarray) -> np.ndarray:
    """Transition matrix of a chain with proposals even over the grid."""
    moves = chances / len(chances)
    np.fill_diagonal(moves, 0.0)
    return moves + np.diag(1.0 - moves.sum(axis=1))


def told(rule: Any, proxies: bool = False) -> Told:
    """E_max, the share read, and both sides of (3.36).

    A = 1, λ the contraction of h steps (3.37), and the best h.
    """
    right, wrong = np.ones((2, len(GRID), len(GRID)))
    read = []
    for i, j in itertools.permutations(range(len(GRID)), 2):
        right[i, j] = exact_chance(GRID[i], GRID[j])
        wrong[i, j], share = chance(rule, GRID[i], GRID[j], proxies)
        read.append(share)
    error = float(np.abs(wrong - right).max())
    step, best = kernel(right), np.inf
    power = np.eye(len(GRID))
    for h in range(1, 41):
        power = power @ step
        contraction = 0.5 * np.abs(power[:, None] - power[None]).sum(axis=2).max()
        best = min(best, h / (1.0 - contraction)) if contraction < 1.0 else best
    laws = [stationary(one) for one in (step, kernel(wrong))]
    return Told(
        error, float(np.mean(read)), float(0.5 * np.abs(laws[0] - laws[1]).sum()), float(best * error)
    )


def stationary(matrix: np.ndarray) -> np.ndarray:
    """The law that a chain leaves as it is."""
    size = len(matrix)
    system = np.vstack([matrix.T - np.eye(size), np.ones(size)])
    return np.linalg.lstsq(system, np.append(np.zeros(size), 1.0), rcond=None)[0]
