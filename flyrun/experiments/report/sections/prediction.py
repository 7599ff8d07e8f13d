"""How well functions are predicted: errors at test rows against cost, and the band beside the exact one's."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from flyrun.experiments.accuracy.posterior_errors import Answer, Truth, errors
from flyrun.experiments.report.arms import ArmResult, Run
from flyrun.experiments.report.colours import Look
from flyrun.experiments.report.draws import Draws
from flyrun.experiments.report.figures import band, common
from flyrun.experiments.report.metrics import EFFECTIVE, KERNELS, OFF, SD_RATIO, TRUTH
from flyrun.experiments.report.section import Row, Section
from flyrun.ground.page.figures import INK, grid, legend_below, round_numbers
from flyrun.ground.page.metrics import Metric, put

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SCORES = ("rmse", "log_density", "equal_rmse", "equal_log_density", "effective")
_COSTS = ("visits", "queries", "seconds")
_EARLY = (1, 5, 10, 20, 50, 80)  # and 0, the steps of Figure 4 of Dai et al. (2016); or the nearest kept
_MOST_KEPT = 1_000  # predictions kept for a figure, and to be held against the exact process'


def summarise(draws: Draws) -> Row:
    """Scores and costs at the end; final_prediction, final_sd: at the test rows, where they are few. curve_*:
    by snapshot.  early: steps, the prior's 0 first, and predictions and sds after them.
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
    kernels, step = draws.whole("kernel_evaluations"), draws.values("estimate", "step")
    near = [] if step is None else [int(np.abs(step - early).argmin()) for early in _EARLY]
    start = [[0, *([value] * mean.shape[1] for value in draws.facts["prior"])]] if few and near else []
    return {
        "early": start
        + [
            [int(step[i]), mean[i].tolist(), np.sqrt(variance[i]).tolist()]
            for i in sorted(set(near))
            if few and step is not None
        ],
        **{f"final_{name}": value for name, value in last.items()},
        "final_prediction": mean[-1].tolist() if few else [],
        "final_sd": np.sqrt(variance[-1]).tolist() if few else [],
        "kernel_evaluations": float("nan") if kernels is None else float(kernels.sum()),
        **{f"curve_{name}": draws.file["estimate"][name][:].tolist() for name in ("rmse", *_COSTS)},
    }


def _exact(arms: list[ArmResult], arm: ArmResult) -> ArmResult | None:
    """The arm with the exact process on an arm's data, whose predictions are kept."""
    known = (other for other in arms if other.fact("exact") and other.cells[0].final_prediction)
    return next((other for other in known if other.problem == arm.problem), None)


def _handed_in(arm: ArmResult) -> np.ndarray:
    """Predictions and their sds at the end, (2, S, rows)."""
    return np.array([[cell.final_prediction, cell.final_sd] for cell in arm.cells]).swapaxes(0, 1)


def _row(run: Run, arm: ArmResult) -> Row:
    row: Row = {}
    for name in (*_SCORES, *_COSTS):
        if arm.has(f"final_{name}"):
            put(row, name, arm.each(f"final_{name}"))
    put(row, "kernel_evaluations", arm.each("kernel_evaluations"))
    base = _exact(SECTION.arms(run), arm)
    if base is not None and base is not arm:
        mean, sd = _handed_in(base)[:, 0]
        gap = errors(Answer(*_handed_in(arm)), Truth(mean, sd, np.zeros(len(mean)), base.name))
        put(row, "off", gap.rms)
        put(row, "sd_ratio", gap.sd_ratio)
        row["truth"] = f"arm {base.name}"
    return row


METRICS = [
    Metric(
        "rmse", "RMSE", by_seed=True,
        means="of the predicted function at the test rows, at the end, in the target's units",
    ),
    Metric(
        "log_density", "log density", by_seed=True,
        means="mean over the test targets, under prediction and noise",
    ),
    Metric(
        "equal_rmse", "RMSE, equal weights", by_seed=True,
        means="of the particles' predictions averaged without their weights",
    ),
    Metric("equal_log_density", by_seed=True),
    replace(EFFECTIVE, head="weights' effective number", of=None, means=""),
    replace(
        OFF, head="off the exact process (sds)",
        means="root mean square distance of predictions from the exact process', in its sds",
    ),
    replace(SD_RATIO, means="sds of predictions over the exact process', geometric mean"),
    Metric("visits", "visits", means="rows read", by_seed=True, alone=True),
    Metric("queries", "queries", means="rows times sets of inducing inputs", by_seed=True, alone=True),
    replace(
        KERNELS, head="kernel values",
        means="in all; predictions at test rows are not charged",
    ),
    Metric("seconds", "seconds", by_seed=True),
    TRUTH,
]  # fmt: skip


def _curves(arms: list[ArmResult], styles: dict[str, Look], title: str) -> Any:
    """Error of predictions at test rows against rows read and against likelihood queries (rows times sets of
    inducing inputs); bands: one sd over seeds; dots: arms of one step.
    """
    figure, panels = grid((8.0, 3.4), title, columns=2, sharey=True)
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


def _drawn(axis: "Axes", arm: ArmResult, predicted: list, colour: str, base: ArmResult | None) -> None:
    """A prediction, its mean and sd, over the exact arm's where there is one, and the truth."""
    x, lines = np.array(arm.fact("test_inputs")), [(predicted, colour, "-", "prediction ± 2 sds")]
    if base is not None:
        exact = [base.cells[0].final_prediction, base.cells[0].final_sd]
        lines.insert(0, (exact, INK, ":", "exact process ± 2 sds"))
    for values, shade, line, label in lines:
        mean, sd = np.array(values)
        axis.fill_between(x, mean - 2 * sd, mean + 2 * sd, color=shade, alpha=0.25, linewidth=0)
        axis.plot(x, mean, color=shade, linewidth=1.2, linestyle=line, label=label)
    axis.plot(x, arm.fact("test_targets"), color=INK, linewidth=0.8, linestyle="--", label="the truth")


def _named(figure: "Figure", panels: "list[Axes] | np.ndarray", shown: int, across: int) -> "Figure":
    """The figure with names of its axes and lines, and without the panels that nothing is in."""
    for axis in panels[shown:]:
        axis.remove()
    for axis in panels[max(shown - across, 0) : shown]:
        axis.set_xlabel("input")
        axis.tick_params(labelbottom=True)
    for axis in panels[:shown:across]:
        axis.set_ylabel("function")
    legend_below(figure, panels[0])
    return figure


def _bands(arms: list[ArmResult], styles: dict[str, Look], title: str) -> Any:
    """Predicted function ± 2 sds, first seed (colour); the exact process' (grey) and the truth (dashed).

    Only for functions of one variable.
    """
    kept = [arm for arm in arms if arm.fact("test_inputs") and arm.cells[0].final_prediction]
    shown = [arm for arm in kept if not arm.fact("exact")] or kept
    if not shown:
        return None
    across = min(3, len(shown))
    rows = -(-len(shown) // across)
    figure, panels = grid((9.0, 0.4 + 2.4 * rows), title, rows, across, sharex=True, sharey=True)
    for axis, arm in zip(panels, shown, strict=False):
        predicted = [arm.cells[0].final_prediction, arm.cells[0].final_sd]
        _drawn(axis, arm, predicted, styles[arm.name].colour, _exact(kept, arm))
        axis.set_title(arm.name.replace("_", " "), parse_math=False, fontsize=9)
    return _named(figure, panels, len(shown), across)


def _steps(arms: list[ArmResult], styles: dict[str, Look], title: str) -> Any:
    """The first arm's predicted function ± 2 sds, by the prior and after steps, first seed (colour); the
    exact process' (grey) and the truth (dashed).
    """
    kept = [arm for arm in arms if arm.fact("test_inputs") and arm.cells[0].early and not arm.fact("exact")]
    if not kept:
        return None
    arm, base = kept[0], _exact(arms, kept[0])
    rows = -(-len(arm.cells[0].early) // 4)
    title = f"{title}: {arm.name.replace('_', ' ')}"
    figure, panels = grid((10.0, 0.4 + 2.4 * rows), title, rows, 4, sharex=True, sharey=True)
    for axis, (step, *predicted) in zip(panels, arm.cells[0].early, strict=False):
        _drawn(axis, arm, predicted, styles[arm.name].colour, base)
        axis.set_title(f"after {step} step{'s' * (step != 1)}", fontsize=9)
    return _named(figure, panels, len(arm.cells[0].early), 4)


def _settling(arms: list[ArmResult], styles: dict[str, Look], title: str) -> Any:
    """Distance of predictions from the exact process' in its sds, root mean square over test rows, and the
    ratio of sds, against steps; bands: one sd over seeds.
    """
    several = (arm for arm in arms if len(arm.cells[0].early) > 2)
    pairs = [(arm, base) for arm in several if (base := _exact(arms, arm)) not in (None, arm)]
    if not pairs:
        return None
    figure, panels = grid((8.0, 3.4), title, columns=2)
    for arm, base in pairs:
        mean, sd = _handed_in(base)[:, 0]
        steps = [step for step, *_ in arm.cells[0].early]
        predicted = np.array([[after[1:] for after in cell.early] for cell in arm.cells])  # (S, T, 2, rows)
        answer = Answer(predicted[:, :, 0], predicted[:, :, 1])
        gap = errors(answer, Truth(mean, sd, np.zeros(len(mean)), base.name))
        for axis, values in zip(panels, (gap.rms, gap.sd_ratio), strict=True):
            band(axis, steps, values, styles[arm.name], arm.name, positive=True, marker="o")
    for axis, label in zip(panels, ("off the exact process, sds", "sd ratio"), strict=True):
        axis.set(yscale="log", xlabel="steps, 0 the prior", ylabel=label)
        axis.set_xscale("symlog", linthresh=1)
        axis.set_xlim(0)
        axis.set_xticks(ticks := [0, 1, 10, 100], [str(tick) for tick in ticks])
        round_numbers(axis.yaxis)
    panels[1].axhline(1.0, color=INK, linewidth=0.8)
    legend_below(figure, panels[0])
    return figure


def _arm_caveats(run: Run, arm: ArmResult) -> list[str]:
    few = arm.has("final_effective") and not float(arm.each("final_effective").mean()) >= 1.5
    text = "its weights are all on one set of inducing inputs: the work on the others is lost."
    return [text] if few else []


SECTION = Section(
    "prediction", place=80, metrics=METRICS, title="Predictions at the end (mean ± sd over seeds)",
    reads=("final_rmse",), summarise=summarise, row=_row, arm_caveats=_arm_caveats,
    replaces=("functionals",),
    figures={
        "prediction_errors": _curves, "predicted_function": _bands, "posterior_by_steps": _steps,
        "posterior_convergence": _settling,
    },
)  # fmt: skip
