"""Figures: convergence (Figure 4 of Maclaurin & Adams 2014), autocorrelation, ESS against time."""

from __future__ import annotations

import importlib
import io
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from flyrun.errors import FlyrunError
from flyrun.paths import illustrations
from flyrun.report.arms import ArmResult, Run
from flyrun.report.colours import Look, looks
from flyrun.report.summaries import GROWTH_COORDINATES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Plots = dict[str, tuple[str, Callable[..., Any]]]

# Text and axes are drawn in this colour, which a page replaces by its own.
INK = "#4d4d4c"
_STYLE: dict[Any, Any] = {
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 10,
    "font.size": 9,
    "legend.frameon": False,
    "svg.fonttype": "path",
    "svg.hashsalt": "flyrun",
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


def draw(run: Run, folder: Path, plots: Plots, styles: dict[str, Look]) -> dict[str, tuple[str, str]]:
    """Write every figure as .png and .svg; name -> (caption, SVG text). Arms not yet run are left out.

    plots: name -> (caption, plot), plot(arms, styles, title) returning a matplotlib Figure,
    or None where there is nothing to show.
    """
    import matplotlib

    arms = [arm for arm in run.arms if arm.done]
    if not arms:
        return {}
    folder.mkdir(parents=True, exist_ok=True)
    made = {}
    for name, (caption, plot) in plots.items():
        with matplotlib.rc_context(_STYLE):
            figure = plot(arms, styles, str(run.info.get("title") or run.info.get("name") or ""))
            if figure is not None:
                made[name] = (caption, _save(figure, folder / name))
    return made


def draw_further(run: Run, run_dir: Path) -> tuple[dict[str, tuple[str, str]], list[str]]:
    """The figures that the experiment asks for by name (report/illustrations), and why some are left out."""
    import matplotlib

    made: dict[str, tuple[str, str]] = {}
    left_out = []
    for name in run.info.get("figures") or ():
        if name not in illustrations():
            left_out.append(f"figures: {name} is no figure that this flyrun draws.")
            continue
        module = importlib.import_module(f"flyrun.report.illustrations.{name}")
        for figure_name, (caption, plot) in module.FIGURES.items():
            try:
                with matplotlib.rc_context(_STYLE):
                    figure = plot(run, run_dir)
                    if figure is not None:
                        (run_dir / "figures").mkdir(parents=True, exist_ok=True)
                        made[figure_name] = (caption, _save(figure, run_dir / "figures" / figure_name))
            except FlyrunError as error:
                left_out.append(f"figure {figure_name} is left out: {error}.")
    return made, left_out


def looks_of(run: Run) -> dict[str, Look]:
    """A look for each arm, by its name."""
    return looks({arm.name: arm.name for arm in run.arms})


def _convergence(arms: list[ArmResult], styles: dict[str, Look], title: str) -> Figure:
    figure, (top, bottom) = axes(2, title, height=5.6)
    plotted = []
    for arm in arms:
        iteration, values = common(arm, "trace_iteration", "trace_log_posterior")
        band(top, iteration + 1, values, styles[arm.name], arm.name)
        plotted.append(values)
        iteration, values = common(arm, "curve_iteration", "curve_queries")
        band(bottom, iteration, values, styles[arm.name], arm.name, positive=True)
    burn_in = {info.get("burn_in") for arm in arms for info in arm.infos}
    if len(burn_in) == 1 and (end := burn_in.pop()):
        for axis in (top, bottom):
            axis.axvline(end, color=INK, linewidth=0.8, linestyle=":", alpha=0.8)
        top.annotate(
            "end of burn-in", (end, 0.04), (-4, 0), xycoords=("data", "axes fraction"),
            textcoords="offset points", ha="right", fontsize=8,
        )  # fmt: skip
    top.yaxis.set_major_formatter("{x:,.10g}")
    _deficit_scale(top, plotted)
    top.set_ylabel("log posterior")
    bottom.set(ylabel="likelihood queries per iteration", xlabel="iteration", xscale="log", yscale="log")
    bottom.set_ylim(bottom=max(bottom.get_ylim()[0], 0.5))
    round_numbers(bottom.yaxis)
    legend_below(figure, top)
    return figure


def _deficit_scale(axis, plotted: list[np.ndarray]) -> None:
    """Linear around the values of the settled chains, logarithmic below: a prior draw is far away."""
    finite = np.concatenate([values[np.isfinite(values)] for values in plotted])
    if finite.size == 0:
        return
    best = finite.max()
    settled = np.concatenate([values[:, values.shape[1] // 2 :].ravel() for values in plotted])
    spread = max(best - np.nanpercentile(settled, 5), 1e-9)
    linear = 3 * spread
    if best - finite.min() < 10 * linear:
        return

    def forward(y):
        gap = (best - np.asarray(y, float)) / linear
        return -np.where(gap <= 1, gap, 1 + np.log(np.maximum(gap, 1)))

    def inverse(z):
        gap = -np.asarray(z, float)
        return best - linear * np.where(gap <= 1, gap, np.exp(np.maximum(gap - 1, 0)))

    axis.set_yscale("function", functions=(forward, inverse))
    deepest = best - finite.min()
    axis.set_yticks(ticks := _round_ticks(best, linear, deepest, forward), [f"{tick:,.0f}" for tick in ticks])
    axis.minorticks_off()
    axis.set_ylim(best - 1.3 * deepest, best + 0.5 * linear)


def _round_ticks(best: float, nearest: float, deepest: float, forward: Callable) -> list[float]:
    """Round numbers below `best`, at growing distances, that do not crowd on the transformed axis."""
    gaps = [digit * 10.0**power for power in range(-3, 12) for digit in (1, 2, 5)]
    room = 0.09 * (forward(best) - forward(best - deepest))
    ticks: list[float] = []
    for gap in (gap for gap in gaps if nearest / 8 <= gap <= deepest):
        unit = 10.0 ** np.floor(np.log10(gap))
        tick = np.round((best - gap) / unit) * unit
        if tick < best and (not ticks or forward(ticks[-1]) - forward(tick) > room):
            ticks.append(float(tick))
    return ticks


def _autocorrelation(arms: list[ArmResult], styles: dict[str, Look], title: str) -> Figure:
    figure, (axis,) = axes(1, title)
    reach = 10.0  # a decade at least
    for arm in arms:
        lags, values = common(arm, "lags", "autocorrelation")
        band(axis, lags[1:], values[:, 1:], styles[arm.name], arm.name)
        correlated = np.flatnonzero(values.mean(axis=0) > 0.05)
        reach = max(reach, 1.3 * lags[correlated[-1]] if correlated.size else 0)
    first, longest = (min(arm.cells[0].lags[1] for arm in arms), max(arm.cells[0].lags[-1] for arm in arms))
    axis.set(
        xlabel="lag (iterations)", ylabel="autocorrelation", xscale="log", xlim=(first, min(reach, longest)),
        ylim=(-0.15, 1.02),
    )  # fmt: skip
    round_numbers(axis.xaxis)
    axis.axhline(0, color=INK, linewidth=0.6)
    legend_below(figure, axis)
    return figure


def _ess_against_time(arms: list[ArmResult], styles: dict[str, Look], title: str) -> Figure:
    figure, (axis,) = axes(1, title)
    for arm in arms:
        seconds, values = common(arm, "growth_s", "growth_ess")
        # Seeds take different times for the same share of a run.
        seconds = np.mean([cell.growth_s for cell in arm.cells], axis=0)
        band(axis, seconds, values, styles[arm.name], arm.name, positive=True, marker="o")
    axis.set(xlabel="seconds of sampling, one chain", ylabel="effective draws", xscale="log", yscale="log")
    round_numbers(axis.xaxis)
    round_numbers(axis.yaxis)
    legend_below(figure, axis)
    return figure


FIGURES: Plots = {
    "convergence": (
        "Log posterior from the start of the chain (above) and likelihood queries per iteration (below), "
        "mean ± 1 sd over runs. The log posterior's axis is logarithmic below the values of settled chains; "
        "it is computed after the run and not counted as queries.",
        _convergence,
    ),
    "autocorrelation": (
        "Autocorrelation after burn-in, averaged over coordinates, mean ± 1 sd over runs; lags on a "
        "logarithmic axis, from the first on.",
        _autocorrelation,
    ),
    "ess_time": (
        f"Effective draws (R-CODA, mean over at most {GROWTH_COORDINATES} coordinates) against seconds of "
        "sampling after burn-in, mean ± 1 sd over runs.",
        _ess_against_time,
    ),
}


def axes(rows: int, title: str, height: float = 3.4):
    """A figure of so many panels, one above the other, and its axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, height), layout="constrained")
    panels = figure.subplots(rows, 1, sharex=True, squeeze=False)[:, 0]
    # A title is text, never mathematics: "$" from a config stays a dollar.
    panels[0].set_title(title, parse_math=False, wrap=True)
    return figure, list(panels)


def legend_below(figure: Figure, *panels: Any) -> None:
    """One legend of these panels under the figure, which grows by it: lines may run anywhere."""
    lines: dict[str, Any] = {}
    for panel in panels:
        handles, labels = panel.get_legend_handles_labels()
        lines |= dict(zip(labels, handles, strict=True))
    width = 0.75 + 0.055 * max(map(len, lines), default=0)  # inches that the longest takes, roughly
    rows = math.ceil(len(lines) / min(4, max(1, int(figure.get_figwidth() / width))))
    columns = math.ceil(len(lines) / rows) if rows else 1  # of even length
    figure.set_figheight(figure.get_figheight() + 0.2 * rows)
    figure.legend(list(lines.values()), list(lines), loc="outside lower center", ncols=columns, fontsize=8)


def round_numbers(axis: Any) -> None:
    """Ticks of a logarithmic axis at 1, 2 and 5 times powers of ten, on a long one at these, written out."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 1000 * low else (1,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def common(arm: ArmResult, x: str, y: str) -> tuple[np.ndarray, np.ndarray]:
    """x (G,) of the shortest seed and y (S, G) of all seeds."""
    size = min(len(getattr(cell, x)) for cell in arm.cells)
    values = np.array([getattr(cell, y)[:size] for cell in arm.cells], dtype=float)
    return np.array(getattr(arm.cells[0], x)[:size], dtype=float), values


def band(axis, x, values, look: Look, label: str, positive: bool = False, marker: str | None = None) -> None:
    """Mean line and a band of one sd; on a logarithmic axis the band stays above 0."""
    mean = values.mean(axis=0)
    axis.plot(
        x, mean, color=look.colour, linestyle=look.line, label=label.replace("_", " "), linewidth=1.4,
        marker=marker, markersize=3,
    )  # fmt: skip
    if len(values) > 1:
        sd = values.std(axis=0, ddof=1)
        low = np.maximum(mean - sd, 0.1 * mean) if positive else mean - sd
        axis.fill_between(x, low, mean + sd, color=look.colour, alpha=0.25, linewidth=0)


def _save(figure: Figure, path: Path) -> str:
    """Write path.png (white) and path.svg (transparent); returns the SVG's text."""
    figure.savefig(path.with_suffix(".png"), dpi=160)
    buffer = io.StringIO()
    # No date, so that the same run gives the same file.
    figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    path.with_suffix(".svg").write_text(text, encoding="utf-8")
    return text
