"""How many data are bright when the bounds touch k posterior sds away from the MAP, k by point."""

import math
from pathlib import Path
from typing import Any

import numpy as np

from flyrun.experiments.report.arms import Run
from flyrun.experiments.report.colours import KNOWN
from flyrun.experiments.runner.store import swept
from flyrun.ground.page.colours import BLUE
from flyrun.ground.page.figures import INK, grid

# Maclaurin & Adams (2014), Table 1: what the MAP-tuned OPV arm queries of what the regular one does; data.
PAPER_SHARE, PAPER_DATA = 575_528 / 18_182_764, 1_800_000


def bright_against_distance(run: Run, run_dir: Path) -> Any:
    """Bright data against the distance of the point where the bounds touch the likelihoods from the MAP, in
    posterior sds, every direction off by as much on average; mean ± 1 sd over chains. At the MAP they are a
    few, whatever the number of data; the paper's share needs a MAP estimate that is far off, the more sds the
    more data there are.

    None where no arm is done.
    """
    if not (points := distances(run)):
        return None
    figure, (axis,) = grid((6.4, 3.8))
    k, mean, sd = (np.array(column) for column in zip(*points, strict=True))
    n_data = next(arm.fact("n_data") for arm in run.arms if arm.done)
    at_map = mean[k == 0]
    if at_map.size:
        shown = np.concatenate([np.linspace(0, 1, 41), np.geomspace(1, k.max(), 80)[1:]])
        theory = at_map[0] * (1 + shown**2)
        near = theory < 0.03 * n_data
        label = "(1 + k²) × the count at the MAP"
        axis.plot(shown[near], theory[near], color=INK, linewidth=1.0, linestyle="--", label=label)
    colour = KNOWN["firefly_hmc"]
    axis.errorbar(k, mean, sd, color=colour, marker="o", capsize=3, linewidth=1.5, label="measured")
    axis.axhline(PAPER_SHARE * n_data, color=BLUE, linewidth=1.2, linestyle=":")
    here = share_distance(points, n_data)
    far = f":\n{here:.0f} sds here, {here * math.sqrt(PAPER_DATA / n_data):.0f} with its 1.8 million data"
    axis.annotate(
        f"the paper's share of queries on OPV, {PAPER_SHARE:.1%}" + far * math.isfinite(here),
        (0, PAPER_SHARE * n_data), (2, 4), textcoords="offset points", fontsize=8,
    )  # fmt: skip
    for x, y in zip(k, mean, strict=True):
        axis.annotate(f"{y:,.0f}", (x, y), (6, -10), zorder=3, textcoords="offset points", fontsize=8)
    axis.set_xscale("symlog", linthresh=1)
    axis.set_yscale("log")
    axis.set_xticks(k, [f"{value:g}" for value in k])
    axis.minorticks_off()
    axis.set(xlim=(-0.2, 1.8 * max(k.max(), 1)), ylim=(max(0.4 * mean.min(), 0.5), 2 * n_data))
    axis.set(
        xlabel="distance of the bounds' centre from the MAP (posterior sds)",
        ylabel=f"bright of {n_data:,} data",
    )
    axis.legend(loc="lower right")
    return figure


def share_distance(points: list[tuple[float, float, float]], n_data: int) -> float:
    """Sds at which the paper's share of n_data are bright, between points on logarithmic axes; NaN beyond.

    Of N' data the same share is bright at √(N'/N) times as many sds, which are as many times smaller.
    """
    k, bright, _ = np.array([point for point in points if point[0] > 0] or [(1.0, 1.0, 0.0)]).T
    at = np.interp(math.log(PAPER_SHARE * n_data), np.log(bright), np.log(k), math.nan, math.nan)
    return math.exp(at)


def distances(run: Run) -> list[tuple[float, float, float]]:
    """(k, mean bright count, its sd over seeds) of the finished arms along the axes at (0) and sds, by k.

    Those whose bound.offset_sds was typed are at another distance than their point's, and left out.
    """
    points = dict.fromkeys(swept(run.info, "at"), 0.0) | swept(run.info, "sds")
    rows = []
    for arm in run.arms:
        k = points.get(arm.name)
        if arm.has("bright_mean") and k is not None and k == arm.setting("bound", "offset_sds"):
            counts = arm.each("bright_mean")
            sd = float(counts.std(ddof=1)) if len(counts) > 1 else 0.0
            rows.append((float(k), float(counts.mean()), sd))
    return sorted(rows)


FIGURES = {"bound_distance": bright_against_distance}
