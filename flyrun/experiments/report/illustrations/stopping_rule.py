"""Figure 3.1 of Angelino, Johnson & Adams (2016), after Bardenet, Doucet & Holmes (2014), Figure 2."""

import math
from pathlib import Path
from typing import Any

import numpy as np

from flyrun.experiments.report.arms import Run
from flyrun.ground.page.colours import BLUE, ORANGE
from flyrun.ground.page.figures import INK, grid, legend_below

N_DATA, BATCH, GROWTH = 100_000, 100, 1.5
MEAN, THRESHOLD, DELTA = 0.05, -0.07, 0.01
_EXPONENT = 2.0  # of the rounds, over which DELTA is shared out


def rounds() -> list[tuple[int, float, float]]:
    """(m, mean of m log ratios, c_m by the empirical Bernstein bound (3.25)) until the data are all read."""
    ratios = np.clip(np.random.default_rng(3).normal(MEAN, 0.5, N_DATA), -2.0, 2.0)
    steps: list[tuple[int, float, float]] = []
    m, reach = BATCH, float(np.abs(ratios).max())
    while True:
        share = DELTA * (_EXPONENT - 1.0) / (_EXPONENT * (len(steps) + 1) ** _EXPONENT)
        log, read = math.log(3.0 / share), ratios[:m]
        steps.append(
            (m, float(read.mean()), float(read.std() * math.sqrt(2 * log / m) + 6 * reach * log / m))
        )
        if m == N_DATA:
            return steps
        m = min(N_DATA, round(GROWTH * m))


def stopping(run: Run, run_dir: Path) -> Any:
    """The rule that stops reading by a concentration bound (Angelino, Johnson & Adams 2016, Figure 3.1): the
    mean log ratio of the data read so far, with an interval that holds the mean of all with probability 0.99
    through all rounds. The step is decided once the threshold, which the draw u sets, is outside (circle):
    simulated log ratios of 100,000 data, the empirical Bernstein bound.
    """
    m, mean, reach = np.array(rounds()).T
    decided = int(np.argmax(np.abs(mean - THRESHOLD) > reach))
    figure, (axis,) = grid((6.4, 3.2))
    axis.fill_between(m, mean - reach, mean + reach, color=BLUE, alpha=0.25, linewidth=0, label="± c")
    axis.plot(m, mean, color=BLUE, linewidth=1.4, label="mean log ratio of the data read")
    axis.axhline(mean[-1], color=INK, linewidth=0.8, linestyle=":", label="of all data")
    axis.axhline(THRESHOLD, color=ORANGE, linewidth=1.2, linestyle="--", label="threshold by u")
    axis.plot(m[decided], mean[decided], color=BLUE, marker="o", markersize=7, fillstyle="none")
    axis.axvline(m[decided], color=INK, linewidth=0.6)
    axis.set(xscale="log", xlabel="data read", ylabel="log ratio", ylim=(-0.6, 0.6))
    legend_below(figure, axis)
    return figure


FIGURES = {"stopping_rule": stopping}
