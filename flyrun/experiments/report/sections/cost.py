"""What draws cost in time and memory, what setting up does, and how both depend on the number of data."""

import math
from typing import Any

import numpy as np

from flyrun.experiments.report.arms import ArmResult, Run
from flyrun.experiments.report.colours import Look
from flyrun.experiments.report.draws import Draws
from flyrun.experiments.report.figures import band, common
from flyrun.experiments.report.metrics import table
from flyrun.experiments.report.section import Row, Section, no_row
from flyrun.experiments.report.sections import ess
from flyrun.ground.page import words
from flyrun.ground.page.figures import axes, legend_below, round_numbers
from flyrun.ground.page.metrics import Metric
from flyrun.ground.page.render import View, bounded, decimals, known, plain

_GROWTH_POINTS, _GROWTH_COORDINATES = 8, 8  # the caption names the latter


def summarise(draws: Draws) -> Row:
    """growth_s, growth_ess: effective draws (mean over a few coordinates) after so many seconds."""
    if not draws.real():
        return {}
    positions = draws.positions()
    chosen = np.unique(np.linspace(0, positions.shape[1] - 1, _GROWTH_COORDINATES).astype(int))
    shares = np.arange(1, _GROWTH_POINTS + 1) / _GROWTH_POINTS
    sizes = [float(np.mean(ess.sizes(positions[: int(share * len(positions)), chosen]))) for share in shares]
    return {"growth_s": (shares * float(draws.info["timings"]["sampling_s"])).tolist(), "growth_ess": sizes}


def _peak(run: Run, arm: ArmResult) -> float:
    """The most resident memory, mapped files' too, in 10⁶ bytes."""
    peaks = [peak for info in arm.infos for peak in info.get("memory", {}).values() if peak is not None]
    return max(peaks) / 1e6 if peaks else math.nan


def _speedup(run: Run, arm: ArmResult) -> Row:
    base = ess.base_of(run, arm)
    if base is None:
        return {}
    ours, theirs = (ess.per_seed(side, "ess_per_s") for side in (arm, base))
    speedup = ess.ratio(ours.mean(), theirs.mean())
    spread = 0.0 if arm is base else speedup * ess.cv_of_ratio(ours, theirs)
    return {"wall_speedup": speedup, "wall_speedup_sd": spread}


_DATA = Metric("", "data", text=plain("n_data"))
_SETUP = [
    Metric("setup_queries", "set-up queries"),
    Metric("setup_s", "set-up s", means="MAP, bounds and rates; compiling is left out", digits=2),
]
_PER_SECOND = Metric(
    "ess_per_s", "ESS/s", ess.each("ess_per_s"),
    "R-CODA's effective draws per second of sampling after burn-in", by_seed=True,
)  # fmt: skip
_COST = [
    Metric("us_per_iter", "µs/iter", ess.each("us_per_iter"), by_seed=True),
    _PER_SECOND,
    Metric(
        "wall_speedup", "wall speedup", means="of ESS/s, relative to the regular arm", by_seed=True,
        text=bounded("wall_speedup"),
    ),
]  # fmt: skip
_PER_ESS = Metric(
    "queries_per_ess", "queries/ESS", ess.each("queries_per_ess"),
    "likelihood queries per effective draw, set-up left out", by_seed=True,
)  # fmt: skip
_PEAK = Metric(
    "peak_mb", "peak MB", _peak, "the most resident memory of a process, mapped files included",
    text=decimals("peak_mb", 0),
)  # fmt: skip
METRICS = [*_COST, _PER_ESS, _PEAK]


def _views(rows: list[Row]) -> list[View]:
    views = [table("Cost", [*_COST, *_SETUP], rows)]
    if len({row["n_data"] for row in rows if known(row["n_data"])}) > 1:
        bright = Metric("bright_mean", "bright mean")
        columns = [_DATA, _PER_ESS, _PER_SECOND, bright, *_SETUP, _PEAK]
        views.append(table("Against the number of data", columns, rows))
    return views


_LEGEND = """
{% if candidates %}
{{ candidates | spec(",d") }} data were read because a bound allowed that they mattered; none went beyond its
bound, which would have ended its chain.
{% endif %}

{% if beyond is not none %}
bound=local: at most {{ "%.1g" % beyond }} of the posterior lies where the looser bounds serve, proved from
the least curvature where the tighter ones do.
{% endif %}
"""


def _legend(run: Run) -> list[str]:
    facts = [info.get("facts", {}) for arm in SECTION.arms(run) for info in arm.infos]
    candidates = sum(fact.get("candidates", 0) for fact in facts)
    beyond = max((fact["mass_beyond"] for fact in facts if "mass_beyond" in fact), default=None)
    return words.lines(_LEGEND, candidates=candidates, beyond=beyond)


def _ess_against_time(arms: list[ArmResult], styles: dict[str, Look], title: str) -> Any:
    """Effective draws (R-CODA, mean over at most 8 coordinates) against seconds of sampling after burn-in,
    mean ± 1 sd over runs.
    """
    figure, (axis,) = axes(1, title)
    for arm in arms:
        _, values = common(arm, "growth_s", "growth_ess")
        # Seeds take different times for the same share of a run.
        seconds = np.mean([cell.growth_s for cell in arm.cells], axis=0)
        band(axis, seconds, values, styles[arm.name], arm.name, positive=True, marker="o")
    axis.set(xlabel="seconds of sampling, one chain", ylabel="effective draws", xscale="log", yscale="log")
    round_numbers(axis.xaxis)
    round_numbers(axis.yaxis)
    legend_below(figure, axis)
    return figure


SECTION = Section(
    "cost", place=240,
    metrics=METRICS, reads=("growth_ess",), summarise=summarise, row=_speedup, planned=no_row,
    views=_views, figures={"ess_time": _ess_against_time}, legend=_legend,
    code=("flyrun.experiments.report.sections.ess", "flyrun.ground.diagnostics.coda"),
)  # fmt: skip
