"""A fit held against the rows that it was fitted to: their distribution, and its calibration."""

from pathlib import Path
from typing import Any

import numpy as np

from flyrun.report.arms import Run
from flyrun.report.colours import PALETTE
from flyrun.report.figures import INK, axes

_MOST = 6  # classes that are drawn


def distribution(run: Run, run_dir: Path) -> Any:
    """Posterior predictive check: the table's targets (dots), and the mean (line) and 90 % intervals (band)
    of targets drawn anew for the same rows. Dots off the band are what the model does not reproduce.
    """
    fit = run.info.get("fit", {})
    if (told := fit.get("predictive", {}).get("distribution")) is None:
        return None
    edges = np.array(told["edges"])
    middle = 0.5 * (edges[1:] + edges[:-1])
    figure, (axis,) = axes(1, run.info.get("title", ""))
    axis.fill_between(middle, told["low"], told["high"], color=PALETTE[0], alpha=0.25, linewidth=0)
    axis.plot(middle, told["mean"], color=PALETTE[0], linewidth=1.2, label="drawn anew")
    axis.plot(middle, told["observed"], "o", color=INK, markersize=3.5, label="observed")
    axis.set_ylim(bottom=0.0)
    layout = fit["layout"]
    if layout["task"] == "counts":
        axis.xaxis.get_major_locator().set_params(integer=True)
    name = layout["target"]["name"]
    axis.set_xlabel(f"log({name})" if layout["log_target"] else name, parse_math=False)
    axis.set_ylabel("share of rows")
    axis.legend(loc="best")
    return figure


def calibration(run: Run, run_dir: Path) -> Any:
    """Calibration: rows alike in what is predicted of them, and what was observed (dots); the bars hold 90 %
    of what new rows would show. Dots off their bars are where the model is wrong on rows that it has seen.
    """
    fit = run.info.get("fit", {})
    if not (told := fit.get("predictive", {}).get("calibration")):
        return None
    figure, (axis,) = axes(1, run.info.get("title", ""))
    for k, one in enumerate(told[:_MOST]):
        colour = PALETTE[k]
        axis.vlines(one["predicted"], one["low"], one["high"], color=colour, linewidth=3.0, alpha=0.4)
        axis.plot(one["predicted"], one["observed"], "o", color=colour, markersize=3.5, label=one["class"])
    ends = np.array([[min(one["predicted"]), max(one["predicted"])] for one in told[:_MOST]])
    line = [ends[:, 0].min(), ends[:, 1].max()]
    axis.plot(line, line, color=INK, linewidth=0.7)
    target, task = fit["layout"]["target"], fit["layout"]["task"]
    what = f"log({target['name']})" if fit["layout"]["log_target"] else target["name"]
    if task == "successes":
        what = f"{what} a trial"
    elif task == "binary":
        what = f"share of {what} = {told[0]['class']}"
    elif len(told) > 1:
        what = f"share of each {what}"
        axis.legend(title=f"the first {_MOST}" if len(told) > _MOST else None, loc="best")
    axis.set_xlabel(f"predicted {what}", parse_math=False)
    axis.set_ylabel("observed")
    return figure


FIGURES = {"distribution": distribution, "calibration": calibration}
