"""Figures 2.1, 2.2, 6.1 and 6.2 of Angelino, Johnson & Adams (2016): what errors of a chain's estimates are.

Nothing is simulated: a chain on a grid of places has a transition matrix, from which follow the laws of its
positions and the moments of its averages. With S the sum of f over n steps, three matrices from x to y are
kept, P(X_n = y), E[S; X_n = y] and E[S²; X_n = y]; those of 2n steps are products of those of n.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.stats import norm

from flyrun.experiments.report.arms import Run
from flyrun.ground.page.colours import BLUE, GREEN, ORANGE
from flyrun.ground.page.figures import INK, grid, legend_below

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GRID = np.linspace(-8.0, 3.0, 111)
STEP, NOISE = 0.4, 1.5  # sds of a proposal, and of the error of a log ratio that few data give
SHARE = 0.05  # of an exact iteration's time, what an approximate one is taken to need
DOUBLINGS = 15  # the longest chain has 2^14 iterations
_LINES = {"squared bias": "--", "variance": ":", "their sum": "-"}
_TARGET = np.exp(1.5 * GRID - np.exp(GRID))  # the logarithm of a gamma variable of shape 1.5: skew
TARGET = _TARGET / _TARGET.sum()


class Errors(NamedTuple):
    """Squared bias and variance of an estimate of the mean, after each of some numbers of iterations."""

    bias: np.ndarray
    variance: np.ndarray


def exact() -> np.ndarray:
    """Transition matrix, (G, G), of random-walk Metropolis."""
    return _chain(np.minimum(0.0, np.log(TARGET[None, :] / TARGET[:, None])))


def approximate() -> np.ndarray:
    """The same, (G, G), where the log ratio is known up to normal noise, as by a test on part of the data."""
    ratio = np.log(TARGET[None, :] / TARGET[:, None])
    kept = norm.cdf(ratio / NOISE) + np.exp(ratio + NOISE**2 / 2) * norm.cdf(-NOISE - ratio / NOISE)
    return _chain(np.log(kept))


def _chain(log_acceptance: np.ndarray) -> np.ndarray:
    near = np.exp(-0.5 * ((GRID[None, :] - GRID[:, None]) / STEP) ** 2)
    moves = near / near.sum(axis=1).max() * np.exp(log_acceptance)
    np.fill_diagonal(moves, 0.0)
    return moves + np.diag(1.0 - moves.sum(axis=1))


class Steps(NamedTuple):
    """Of n steps from x to y, (G, G) each: the probability, times the positions' sum, times its square."""

    law: np.ndarray
    first: np.ndarray
    second: np.ndarray


def doubled(matrix: np.ndarray, doublings: int) -> list[Steps]:
    """Of 1, 2, 4, … steps of a matrix (G, G)."""
    steps = [Steps(matrix, matrix * GRID, matrix * GRID**2)]
    while len(steps) < doublings:
        law, first, second = steps[-1]
        steps.append(
            Steps(law @ law, first @ law + law @ first, second @ law + 2.0 * first @ first + law @ second)
        )
    return steps


def laws(steps: list[Steps]) -> np.ndarray:
    """Laws (T, G) of the positions after 1, 2, 4, … steps from the start, far off."""
    start = GRID.searchsorted(-6.0)
    return np.array([step.law[start] for step in steps])


def errors(steps: list[Steps], kept: str) -> Errors:
    """Of the mean of `all` positions, the `last half`, or the `last draw` alone, after 2, 4, … steps."""
    moments, start = [], GRID.searchsorted(-6.0)
    for k in range(1, len(steps)):
        if kept == "last draw":
            law = steps[k].law[start]
            moments.append((law @ GRID, law @ GRID**2))
        elif kept == "last half":
            law, n = steps[k - 1].law[start], 2 ** (k - 1)
            moments.append(
                (law @ steps[k - 1].first.sum(axis=1) / n, law @ steps[k - 1].second.sum(axis=1) / n**2)
            )
        else:
            moments.append((steps[k].first[start].sum() / 2**k, steps[k].second[start].sum() / 4**k))
    mean, square = np.array(moments).T
    return Errors((mean - float(TARGET @ GRID)) ** 2, square - mean**2)


def _quantiles(laws: np.ndarray, at: float) -> np.ndarray:
    return np.array([np.interp(at, np.cumsum(law), GRID) for law in laws])


def _marginals(axis: "Axes", x: np.ndarray, laws: np.ndarray, colour: str, label: str) -> None:
    axis.fill_between(x, _quantiles(laws, 0.05), _quantiles(laws, 0.95), color=colour, alpha=0.2, linewidth=0)
    axis.plot(x, _quantiles(laws, 0.5), color=colour, linewidth=1.4, label=label)


def _target(axis: "Axes") -> None:
    for at in (0.05, 0.5, 0.95):
        axis.axhline(_quantiles(TARGET[None], at)[0], color=INK, linewidth=0.8, linestyle=(0, (5, 5)))
    axis.set_ylabel("law of the iterate:\nmedian, 90 %")


def _errors(axis: "Axes", x: np.ndarray, of_kept: Errors, colour: str, label: str) -> None:
    for line, values in zip(_LINES.values(), (*of_kept, of_kept.bias + of_kept.variance), strict=True):
        width = 1.6 if line == "-" else 1.1
        axis.plot(
            x, values, color=colour, linestyle=line, linewidth=width, label=label if line == "-" else None
        )
    axis.set(xscale="log", yscale="log", ylabel="squared error of the mean", ylim=(1e-4, 60.0))


def _kinds(axis: "Axes") -> None:
    for label, line in _LINES.items():
        axis.plot([], [], color=INK, linestyle=line, linewidth=1.1, label=label)


def estimators(run: Run, run_dir: Path) -> Any:
    """What errors of a chain's estimates are made of (Angelino, Johnson & Adams 2016, Figures 2.1 and 2.2):
    the laws of the iterates come to the target (above; thin dashed lines: its quantiles), squared bias and
    variance of averages of all iterates, of the last half (2.41), and of the last one alone (2.40) (below).
    Worked out from the transition matrix of a random walk on a skew target, started far off.
    """
    figure, (top, bottom) = grid((6.8, 5.0), rows=2, sharex=True, height_ratios=(1, 1.5))
    steps, at = doubled(exact(), DOUBLINGS), 2.0 ** np.arange(DOUBLINGS)
    _marginals(top, at, laws(steps), BLUE, "")
    _target(top)
    for kept, colour in (("all", BLUE), ("last half", ORANGE), ("last draw", GREEN)):
        _errors(bottom, at[1:], errors(steps, kept), colour, kept)
    _kinds(bottom)
    bottom.set_xlabel("iterations")
    legend_below(figure, bottom)
    return figure


def by_time(run: Run, run_dir: Path) -> Any:
    """Exact chains, and approximate ones that are taken to need a twentieth of the time (Angelino, Johnson &
    Adams 2016, Figures 6.1 and 6.2): approximate iterates come nearer sooner, to another law (above), and
    their error falls sooner to a bias that stays (below; averages of the last half). Worked out from
    transition matrices, the approximate one's log ratio with normal noise: time is in iterations, no clock's.
    """
    figure, (top, bottom) = grid((6.8, 5.0), rows=2, sharex=True, height_ratios=(1, 1.5))
    for label, matrix, share, colour in (
        ("exact", exact(), 1.0, BLUE),
        ("approximate", approximate(), SHARE, ORANGE),
    ):
        doublings = round(DOUBLINGS - np.log2(share))
        steps, at = doubled(matrix, doublings), share * 2.0 ** np.arange(doublings)
        _marginals(top, at, laws(steps), colour, label)
        _errors(bottom, at[1:], errors(steps, "last half"), colour, label)
    _target(top)
    _kinds(bottom)
    bottom.set_xlabel("time, in iterations of the exact chain (modelled)")
    legend_below(figure, bottom)
    return figure


FIGURES = {"errors_of_estimators": estimators, "errors_by_time": by_time}
