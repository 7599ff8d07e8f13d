"""Error of running marginals against updates, factor evaluations, seconds (De Sa et al. 2018, Fig. 1, 2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from flyrun.report.arms import ArmResult, Run
from flyrun.report.colours import Look, looks
from flyrun.report.figures import Plots, axes, band, common, legend_below, round_numbers
from flyrun.report.gibbs_table import batch_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Marks tell arms apart without colour.
MARKERS = "os^Dv<>P"
_MARKS_PER_LINE = 8


def looks_of(run: Run) -> dict[str, Look]:
    """A colour for each sampler, a line for each of its batch sizes."""
    return looks({arm.name: arm.setting("sampler", "name", default=arm.name) for arm in run.arms})


def label(arm: ArmResult) -> str:
    """What the legend calls an arm: its sampler, its batch sizes, and that it is biased where it is."""
    words = [str(arm.fact("update") or arm.name), batch_text(arm)]
    return ", ".join(word for word in words if word) + ("" if arm.fact("exact", True) else " (biased)")


def _error_against(x: str, name: str):
    def plot(arms: list[ArmResult], styles: dict[str, Look], title: str) -> Figure:
        figure, (axis,) = axes(1, title, height=3.8)
        for number, arm in enumerate(arms):
            _, error = common(arm, "curve_updates", "curve_error")
            # Seeds differ in what the same number of updates costs.
            along = common(arm, "curve_updates", x)[1].mean(axis=0)
            band(axis, along, error, styles[arm.name], label(arm), positive=True)
            every = max(1, len(along) // _MARKS_PER_LINE)
            places = np.arange(number * 3 % every, len(along), every)
            mark = {"marker": MARKERS[number % len(MARKERS)], "markersize": 4}
            line = axis.lines[-1]
            line.set(**mark, markevery=places.tolist())
        axis.set(xlabel=name, ylabel="error: mean ℓ2 distance\nof marginals to uniform")
        axis.set(xscale="log", yscale="log")
        round_numbers(axis.yaxis)
        legend_below(figure, axis)
        return figure

    return plot


_CAPTION = "Error of the running marginals (mean ℓ2 distance to uniform) against {}, mean ± 1 sd over seeds. "
_BLIND = "It cannot see a bias: by symmetry a biased sampler may look better than plain Gibbs. "
FIGURES: Plots = {
    "error_updates": (
        _CAPTION.format("single-variable updates") + _BLIND + "Batch sizes are our choice.",
        _error_against("curve_updates", "updates of one variable"),
    ),
    "error_factors": (
        _CAPTION.format("factor evaluations") + "Counted nominally: each batch at its full size, as if every "
        "factor in it were looked at, whichever estimator was used.",
        _error_against("curve_factors", "factor evaluations (nominal)"),
    ),
    "error_seconds": (
        _CAPTION.format("seconds of sampling, one chain on one core")
        + "Without compiling and without what watching the chain costs.",
        _error_against("curve_seconds", "seconds of sampling"),
    ),
}
