"""How well functions are predicted: errors at test rows against cost, and the band beside the exact one's."""

from typing import Any

import numpy as np

from flyrun.report import words
from flyrun.report.arms import ArmResult, Run
from flyrun.report.colours import Look
from flyrun.report.draws import Draws
from flyrun.report.figures import INK, band, common, legend_below, new_figure, round_numbers
from flyrun.report.render import ARM, NOTHING, SEEDS, Column, View, measured, plain, table_view
from flyrun.report.section import Row, Section
from flyrun.report.table import put

_SCORES = ("rmse", "log_density", "equal_rmse", "equal_log_density", "effective")
_COSTS = ("visits", "queries", "seconds")
_MOST_KEPT = 1_000  # predictions kept for a figure, and to be held against the exact process'


def summarise(draws: Draws) -> Row:
    """Scores and costs at the end; final_prediction, final_sd: at the test rows, where they are few. curve_*:
    by snapshot.
    """
    last = {
        name: float(values[-1])
        for name in (*_SCORES, *_COSTS)
        if (values := draws.values("estimate", name)) is not None and len(values)
    }
    mean, variance = (draws.values("estimate", name) for name in ("prediction", "variance"))
    if "rmse" not in last or mean is None or variance is None:
        return {}
    few = mean.shape[1] <= _MOST_KEPT
    kernels = draws.whole("kernel_evaluations")
    return {
        **{f"final_{name}": value for name, value in last.items()},
        "final_prediction": mean[-1].tolist() if few else [],
        "final_sd": np.sqrt(variance[-1]).tolist() if few else [],
        "kernel_evaluations": float("nan") if kernels is None else float(kernels.sum()),
        **{f"curve_{name}": draws.file["estimate"][name][:].tolist() for name in ("rmse", *_COSTS)},
    }


def _exact(arms: list[ArmResult], arm: ArmResult) -> ArmResult | None:
    """The arm with the exact process on an arm's data, whose predictions are kept."""
    known = (one for one in arms if one.fact("exact") and one.cells[0].final_prediction)
    return next((one for one in known if one.problem == arm.problem), None)


def _row(run: Run, arm: ArmResult) -> Row:
    row: Row = {}
    for name in (*_SCORES, *_COSTS):
        if arm.has(f"final_{name}"):
            put(row, name, arm.each(f"final_{name}"))
    put(row, "kernel_evaluations", arm.each("kernel_evaluations"))
    base = _exact(SECTION.arms(run), arm)
    if base is not None and base is not arm:
        mean, sd = np.array(base.cells[0].final_prediction), np.array(base.cells[0].final_sd)
        off = [np.sqrt(np.mean(((np.array(cell.final_prediction) - mean) / sd) ** 2)) for cell in arm.cells]
        put(row, "off_exact", np.array(off))
        put(row, "sd_ratio", np.array([np.mean(np.array(cell.final_sd) / sd) for cell in arm.cells]))
    return row


_COLUMNS = [
    ARM,
    Column("RMSE", measured("rmse")),
    Column("log density", measured("log_density")),
    Column("RMSE, equal weights", measured("equal_rmse")),
    Column("weights' effective number", measured("effective")),
    Column("off the exact process (sds)", measured("off_exact")),
    Column("sd ratio", measured("sd_ratio")),
    Column("visits", plain("visits")),
    Column("queries", plain("queries")),
    Column("kernel values", plain("kernel_evaluations")),
    Column("seconds", measured("seconds")),
    SEEDS,
]
_LEGEND = """
RMSE: of the predicted function at the test rows, at the end, in the target's units; log density: mean of the
test targets' under prediction and noise; equal weights: the same predictions of the particles, averaged
without their weights, whose effective number stands beside. off the exact process: root mean square distance
of the mean from the exact process' in its sds; sd ratio: mean of the sds over its sds. visits: rows read;
queries: rows times sets of inducing inputs; kernel values: in all, predictions at test rows not charged.
"""


def _views(rows: list[Row]) -> list[View]:
    some = [column for column in _COLUMNS if any(column.text(row) != NOTHING for row in rows)]
    return [table_view("Predictions at the end (mean ± sd over seeds)", some, rows)]


def _curves(arms: list[ArmResult], styles: dict[str, Look], title: str) -> Any:
    """Error of predictions at test rows against rows read and against likelihood queries (rows times sets of
    inducing inputs); bands: one sd over seeds; dots: arms of one step.
    """
    figure = new_figure(figsize=(8.0, 3.4), layout="constrained")
    figure.suptitle(title, parse_math=False, fontsize=10)
    panels = figure.subplots(1, 2, sharey=True)
    for axis, cost in zip(panels, _COSTS, strict=False):
        for arm in arms:
            x, values = common(arm, f"curve_{cost}", "curve_rmse")
            marker = "o" if len(x) == 1 else None
            band(axis, x, values, styles[arm.name], arm.name, positive=True, marker=marker)
        axis.set(xscale="log", yscale="log", xlabel=cost)
    round_numbers(panels[0].yaxis)
    panels[0].set_ylabel("RMSE at test rows")
    legend_below(figure, panels[0])
    return figure


def _bands(arms: list[ArmResult], styles: dict[str, Look], title: str) -> Any:
    """Predicted function ± 2 sds, first seed (colour); the exact process' (grey) and the truth (dashed).

    Only for functions of one variable.
    """
    own = [arm for arm in arms if arm.fact("test_inputs") and arm.cells[0].final_prediction]
    shown = [arm for arm in own if not arm.fact("exact")] or own
    if not shown:
        return None
    across = min(3, len(shown))
    rows = -(-len(shown) // across)
    figure = new_figure(figsize=(9.0, 0.4 + 2.4 * rows), layout="constrained")
    figure.suptitle(title, parse_math=False, fontsize=10)
    panels = figure.subplots(rows, across, sharex=True, sharey=True, squeeze=False).ravel()
    for axis, arm in zip(panels, shown, strict=False):
        x = np.array(arm.fact("test_inputs"))
        for one, colour, line in ((_exact(own, arm), INK, ":"), (arm, styles[arm.name].colour, "-")):
            if one is not None:
                mean, sd = np.array(one.cells[0].final_prediction), np.array(one.cells[0].final_sd)
                axis.fill_between(x, mean - 2 * sd, mean + 2 * sd, color=colour, alpha=0.25, linewidth=0)
                axis.plot(x, mean, color=colour, linewidth=1.2, linestyle=line)
        axis.plot(x, arm.fact("test_targets"), color=INK, linewidth=0.8, linestyle="--")
        axis.set_title(arm.name.replace("_", " "), parse_math=False, fontsize=9)
    for axis in panels[len(shown) :]:
        axis.set_visible(False)
    return figure


def _arm_caveats(run: Run, arm: ArmResult) -> list[str]:
    few = arm.has("final_effective") and float(arm.each("final_effective").mean()) < 1.5
    text = "its weights are all on one set of inducing inputs: the work on the others is lost."
    return [text] if few else []


SECTION = Section(
    "prediction",
    columns="""
        experiment dataset model update arm n_data n_params seeds iterations exact seeds_wanted note setup_s
        rmse rmse_sd log_density log_density_sd equal_rmse equal_rmse_sd equal_log_density
        equal_log_density_sd effective effective_sd off_exact off_exact_sd sd_ratio sd_ratio_sd visits
        visits_sd queries queries_sd kernel_evaluations kernel_evaluations_sd seconds seconds_sd
    """,
    reads=("final_rmse",), summarise=summarise, row=_row, views=_views,
    legend=lambda run: words.lines(_LEGEND), arm_caveats=_arm_caveats, replaces=("functionals",),
    figures={"prediction_errors": _curves, "predicted_function": _bands},
)  # fmt: skip
