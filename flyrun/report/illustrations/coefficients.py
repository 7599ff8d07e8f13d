"""A fit's coefficients with their intervals, each per sd of its column, so that they can be compared."""

from pathlib import Path
from typing import Any

import numpy as np

from flyrun.report.arms import Run
from flyrun.report.colours import PALETTE
from flyrun.report.figures import INK, grid
from flyrun.report.sections.coefficients import UNITS, effect_per

MOST = 40


def intervals(run: Run, run_dir: Path) -> Any:
    """Effects: posterior means and 94 % intervals of the coefficients, per standard deviation of a column,
    for a category's level its difference from the first, for a column of two values the other's from the
    lower; largest first.

    None where there is no fit.
    """
    rows = [row for row in run.info.get("fit", {}).get("coefficients", []) if "effect_mean" in row]
    if not rows:
        return None
    largest: dict[str, float] = {}
    for row in rows:
        name = row["coefficient"]
        largest[name] = max(abs(row["effect_mean"]), largest.get(name, 0.0))
    shown = sorted(largest, key=lambda name: -largest[name])[:MOST]
    classes = list(dict.fromkeys(row["class"] for row in rows))
    height = 1.1 + 0.2 * len(shown) * max(1.0, 0.6 * len(classes))
    figure, (axis,) = grid((6.4, height))
    for k, one in enumerate(classes):
        mine = {row["coefficient"]: row for row in rows if row["class"] == one}
        place = np.arange(len(shown)) + (k - (len(classes) - 1) / 2) * 0.7 / len(classes)
        mean, low, high = (
            np.array([mine[name][f"effect_{key}"] for name in shown]) for key in ("mean", "q03", "q97")
        )
        colour = PALETTE[k % len(PALETTE)]
        axis.hlines(place, low, high, color=colour, linewidth=1.4)
        axis.plot(mean, place, "o", color=colour, markersize=3.5, label=str(one))
    axis.axvline(0.0, color=INK, linewidth=0.7)
    # of long names both ends, for levels of one column differ in the last
    short = [name if len(name) <= 32 else f"{name[:16]}…{name[-15:]}" for name in shown]
    axis.set_yticks(np.arange(len(shown)), short, parse_math=False)
    axis.set_ylim(len(shown) - 0.4, -0.6)
    layout, link = run.info["fit"]["layout"], run.info["fit"]["link"]
    per = effect_per(run)
    unit = f"{per}s of the target" if link == "identity" else UNITS[link]
    axis.set_xlabel(f"effect: coefficient per {per} of its column, or of a level ({unit})")
    left_out = f" (the {MOST} largest of {len(largest)})" if len(largest) > MOST else ""
    axis.set_title(f"{run.info.get('title', '')}{left_out}", parse_math=False, wrap=True)
    if len(classes) > 1:
        axis.legend(title=f"against {layout['target']['levels'][0]}", loc="best")
    return figure


FIGURES = {"coefficients": intervals}
