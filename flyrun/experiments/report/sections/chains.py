"""How chains run: the log posterior from their start, queries by iteration, autocorrelation."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from flyrun.experiments.accuracy.truth import apart
from flyrun.experiments.report.arms import ArmResult, Run
from flyrun.experiments.report.colours import Look
from flyrun.experiments.report.draws import Draws
from flyrun.experiments.report.figures import band, common
from flyrun.experiments.report.metrics import table
from flyrun.experiments.report.section import Row, Section
from flyrun.experiments.report.sections import ess
from flyrun.ground.diagnostics import coda
from flyrun.ground.page.figures import INK, axes, legend_below, round_numbers
from flyrun.ground.page.metrics import Metric, put
from flyrun.ground.page.render import View, known

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_CURVE_BINS = 240
_SHORT_LAGS, _LONG_LAGS = 100, 250
_MAX_LAG = 6000
#: protocol.init, in words
_STARTS = {
    "prior": "at draws from the prior",
    "map": "near the posterior's mode",
    "ep": "near EP's mean",
    "zero": "at θ = 0",
}


def summarise(draws: Draws) -> Row:
    """binned_*: queries per iteration mean over bins of iterations, burn-in included (log-spaced).  trace_*:
    log posterior on a grid of iterations.  lags, autocorrelation: lags in iterations, mean over coordinates.
    """
    queries = draws.whole("queries")
    if not draws.real() or queries is None:
        return {}
    binned_iteration, binned_queries = _binned(queries)
    lags, autocorrelation = _autocorrelation(draws.positions(), int(draws.info.get("thin", 1)))
    trace = {name: draws.values("trace", name) for name in ("iteration", "log_posterior")}
    return {
        "binned_iteration": binned_iteration.tolist(),
        "binned_queries": binned_queries.tolist(),
        **{f"trace_{name}": [] if of is None else of.astype(float).tolist() for name, of in trace.items()},
        "lags": lags.tolist(),
        "autocorrelation": autocorrelation.tolist(),
    }


def _binned(queries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean queries in bins of iterations whose widths grow with the logarithm: (centres, means)."""
    edges = np.unique(np.geomspace(1, queries.size + 1, _CURVE_BINS + 1).astype(int)) - 1
    starts, widths = edges[:-1], np.diff(edges)
    return starts + (widths + 1) / 2, np.add.reduceat(queries, starts) / widths


def _autocorrelation(draws: np.ndarray, thin: int) -> tuple[np.ndarray, np.ndarray]:
    """Lags in iterations and autocorrelations of draws (T, D), averaged over coordinates that move."""
    max_lag = max(1, min(draws.shape[0] // 4, _MAX_LAG))
    covariance = coda.autocovariance(np.ascontiguousarray(draws.T), max_lag)
    moving = covariance[:, 0] > 0
    # A chain at rest keeps its value for ever.
    values = np.ones(max_lag + 1)
    if moving.any():
        values = (covariance[moving] / covariance[moving, :1]).mean(axis=0)
    # Every lag where a fast chain forgets, fewer further out.
    far = np.geomspace(1, max_lag, _LONG_LAGS).astype(int)
    lags = np.union1d(np.arange(min(_SHORT_LAGS, max_lag) + 1), far)
    return lags * thin, values[lags]


def _settled_level(arms: list[ArmResult]) -> float:
    """The highest 5th percentile of arms' last quarters, below which settled chains seldom go.

    Of arms whose log posterior no longer climbs: from the third quarter to the last its mean moves by less
    than its sd. Infinite where there is none.
    """
    levels: list[float] = []
    for arm in arms:
        quarters = np.array_split(common(arm, "trace_iteration", "trace_log_posterior")[1], 4, axis=1)
        if abs(quarters[3].mean() - quarters[2].mean()) < quarters[3].std():
            levels.append(float(np.percentile(quarters[3], 5)))
    return max(levels, default=np.inf)


def _traced(arm: ArmResult) -> bool:
    return bool(arm.cells) and all(getattr(cell, "trace_log_posterior", None) for cell in arm.cells)


def _burn_in(run: Run, arm: ArmResult) -> Row:
    """burn_in_needed: how many iterations the log posterior takes to the level of settled chains, by seed.

    {} of chains that start near the mode, or of which one never gets there.
    """
    traced = [other for other in run.arms if _traced(other)]
    if arm.setting("protocol", "init") in ("map", "ep") or not _traced(arm):
        return {}
    level = _settled_level([other for other in traced if other.problem == arm.problem])
    iteration, values = common(arm, "trace_iteration", "trace_log_posterior")
    there = values >= level
    row: Row = {}
    if there.any(axis=1).all():
        put(row, "burn_in_needed", iteration[there.argmax(axis=1)] + 1)
    return row


def _convergence(arms: list[ArmResult], styles: dict[str, Look], title: str) -> Any:
    """Log posterior from the chains' start, which the title names, (above) and likelihood queries per
    iteration (below), mean ± 1 sd over seeds; the legend says which chains had not settled. The log
    posterior's axis is logarithmic below the values of settled chains; its queries are not counted.
    """
    if not any(map(_traced, arms)):
        return None  # counts of queries alone tell nothing of convergence
    starts = {str(arm.setting("protocol", "init")): None for arm in arms}
    where = " or ".join(_STARTS[init] for init in starts if init in _STARTS)
    if "prior" in starts and any(arm.setting("bound", "name", default="") == "local" for arm in arms):
        where += ", brought in to where bounds are tight of arms with local bounds"
    title += f"\nchains start {where}" if where else ""
    figure, (top, bottom) = axes(2, title, height=5.6)
    plotted, least = [], 0.5
    for arm in arms:
        if _traced(arm):
            iteration, values = common(arm, "trace_iteration", "trace_log_posterior")
            band(top, iteration + 1, values, styles[arm.name], _named(arm))
            plotted.append(values)
        iteration, values = common(arm, "binned_iteration", "binned_queries")
        band(bottom, iteration, values, styles[arm.name], _named(arm), positive=True)
        least = min(least, values.mean() / 2 or least)  # whatever seldom reads a likelihood is seen, too
    burn_in = {info.get("burn_in") for arm in arms for info in arm.infos}
    if len(burn_in) == 1 and (end := burn_in.pop()):
        for axis in (top, bottom):
            axis.axvline(end, color=INK, linewidth=0.8, linestyle=":", alpha=0.8)
        top.margins(y=0.14)  # room for words below all lines
        top.annotate(
            "end of burn-in", (end, 0.02), (-4, 0), xycoords=("data", "axes fraction"),
            textcoords="offset points", ha="right", fontsize=8,
        )  # fmt: skip
    top.yaxis.set_major_formatter("{x:,.10g}")
    _deficit_scale(top, plotted)
    top.set_ylabel("log posterior")
    bottom.set(ylabel="likelihood queries per iteration", xlabel="iteration", xscale="log", yscale="log")
    bottom.set_ylim(bottom=max(bottom.get_ylim()[0], least))
    round_numbers(bottom.yaxis)
    legend_below(figure, top, bottom)
    return figure


def _named(arm: ArmResult) -> str:
    """An arm's name, with a mark where its chains of one target do not agree."""
    rhat = np.nanmax([1.0, *(getattr(arm.pooled, "rhat", None) or ())])
    return f"{arm.name} (not settled)" if rhat > ess.SETTLED_RHAT and not apart(arm) else arm.name


def _deficit_scale(axis: "Axes", plotted: list[np.ndarray]) -> None:
    """Linear around the values, (S, T), of settled chains, logarithmic below: a prior draw is far away."""
    finite = np.concatenate([np.empty(0), *(values[np.isfinite(values)] for values in plotted)])
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


def _autocorrelations(arms: list[ArmResult], styles: dict[str, Look], title: str) -> Any:
    """Autocorrelation after burn-in, averaged over coordinates, mean ± 1 sd over seeds; lags on a logarithmic
    axis, from the first on.
    """
    figure, (axis,) = axes(1, title)
    reach, lowest = 10.0, -0.15  # a decade at least
    for arm in arms:
        lags, values = common(arm, "lags", "autocorrelation")
        band(axis, lags[1:], values[:, 1:], styles[arm.name], arm.name)
        lowest = min(lowest, 1.1 * float(values.mean(axis=0).min()))
        correlated = np.flatnonzero(values.mean(axis=0) > 0.05)
        reach = max(reach, 1.3 * lags[correlated[-1]] if correlated.size else 0)
    first, longest = (min(arm.cells[0].lags[1] for arm in arms), max(arm.cells[0].lags[-1] for arm in arms))
    axis.set(xlabel="lag (iterations)", ylabel="autocorrelation", xscale="log", ylim=(lowest, 1.02))
    axis.set_xlim(first, max(2 * first, min(reach, longest)))
    round_numbers(axis.xaxis)
    axis.axhline(0, color=INK, linewidth=0.6)
    legend_below(figure, axis)
    return figure


METRICS = [
    Metric(
        "burn_in_needed", "iterations",
        means="until the log posterior is as high as in all but a twentieth of settled chains' iterations",
        by_seed=True, digits=3,
    )
]  # fmt: skip


def _views(rows: list[Row]) -> list[View]:
    """Of chains that start far off and have settled."""
    settled = any(known(row.get("burn_in_needed")) for row in rows)
    return [table("Burn-in from far off (mean ± sd over seeds)", METRICS, rows)] if settled else []


SECTION = Section(
    "chains", place=250, reads=("autocorrelation",), summarise=summarise, row=_burn_in, metrics=METRICS,
    views=_views, code=("flyrun.ground.diagnostics.coda",),
    figures={"convergence": _convergence, "autocorrelation": _autocorrelations},
)  # fmt: skip
