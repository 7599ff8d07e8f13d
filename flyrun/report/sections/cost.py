"""What draws cost in time and memory, what setting up does, and how both depend on the number of data."""

import math
from typing import Any

import numpy as np

from flyrun.report import words
from flyrun.report.arms import ArmResult, Run
from flyrun.report.colours import Look
from flyrun.report.draws import Draws
from flyrun.report.figures import axes, band, common, legend_below, round_numbers
from flyrun.report.render import (
    ARM,
    SEEDS,
    Column,
    View,
    bounded,
    decimals,
    known,
    measured,
    plain,
    table_view,
)
from flyrun.report.section import Row, Section, no_row
from flyrun.report.sections import ess
from flyrun.report.table import put

_GROWTH_POINTS, _GROWTH_COORDINATES = 8, 8  # the caption names the latter


def summarise(draws: Draws) -> Row:
    """growth_s, growth_ess: effective draws (mean over a few coordinates) after so many seconds."""
    if not draws.real():
        return {}
    positions = draws.positions()
    chosen = np.unique(np.linspace(0, positions.shape[1] - 1, _GROWTH_COORDINATES).astype(int))
    shares = np.arange(1, _GROWTH_POINTS + 1) / _GROWTH_POINTS
    sizes = [float(np.mean(ess.sizes(positions[: int(one * len(positions)), chosen]))) for one in shares]
    return {"growth_s": (shares * float(draws.info["timings"]["sampling_s"])).tolist(), "growth_ess": sizes}


def row(run: Run, arm: ArmResult) -> Row:
    """Times of sampling; queries an effective draw; memory: resident, mapped files' too, in 10⁶ bytes."""
    base = ess.base_of(run, arm)
    peaks = [peak for info in arm.infos for peak in info.get("memory", {}).values() if peak is not None]
    values: Row = {"peak_mb": max(peaks) / 1e6 if peaks else math.nan}
    for name in ("us_per_iter", "ess_per_s", "queries_per_ess"):
        put(values, name, ess.per_seed(arm, name))
    if base is not None:
        ours, theirs = ess.per_seed(arm, "ess_per_s"), ess.per_seed(base, "ess_per_s")
        speedup = values["wall_speedup"] = ess.ratio(values["ess_per_s"], theirs.mean())
        values["wall_speedup_sd"] = 0.0 if arm is base else speedup * ess.cv_of_ratio(ours, theirs)
    return values


def _views(rows: list[Row]) -> list[View]:
    several = len({row["n_data"] for row in rows if known(row["n_data"])}) > 1
    against_size = [table_view("Against the number of data", _AGAINST_SIZE, rows)] if several else []
    return [table_view("Cost", _COLUMNS, rows), *against_size]


_COLUMNS = [
    ARM,
    Column("µs/iter", measured("us_per_iter")),
    Column("ESS/s", measured("ess_per_s")),
    Column("wall speedup", bounded("wall_speedup")),
    Column("set-up queries", plain("setup_queries")),
    Column("set-up s", plain("setup_s", 2)),
    SEEDS,
]

_AGAINST_SIZE = [
    ARM,
    Column("data", plain("n_data")),
    Column("queries/ESS", measured("queries_per_ess")),
    Column("ESS/s", measured("ess_per_s")),
    Column("bright mean", plain("bright_mean")),
    Column("set-up queries", plain("setup_queries")),
    Column("set-up s", plain("setup_s", 2)),
    Column("peak MB", decimals("peak_mb", 0)),
    SEEDS,
]


_LEGEND = """
ESS/s and wall speedup: R-CODA's ESS by the time of sampling after burn-in, compiling and set-up left out.

{% if candidates %}
{{ candidates | spec(",d") }} data were read because a bound allowed that they mattered; none went beyond its
bound, which would have ended its chain.
{% endif %}

{% if several_sizes %}
queries/ESS: likelihood queries per effective sample, set-up left out. set-up s: MAP, bounds and rates. peak
MB: the most resident memory, pages of mapped files included, that a process held while setting up or
sampling.
{% endif %}
{% if beyond is not none %}
bound=local: at most {{ "%.1g" % beyond }} of the posterior lies where the looser bounds serve, proved from
the least curvature where the tighter ones do.
{% endif %}
"""


def _legend(run: Run) -> list[str]:
    several_sizes = len({arm.fact("n_data") for arm in SECTION.arms(run)}) > 1
    facts = [info.get("facts", {}) for arm in SECTION.arms(run) for info in arm.infos]
    candidates = sum(one.get("candidates", 0) for one in facts)
    beyond = max((one["mass_beyond"] for one in facts if "mass_beyond" in one), default=None)
    return words.lines(_LEGEND, several_sizes=several_sizes, candidates=candidates, beyond=beyond)


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
    "cost",
    columns="""
        us_per_iter ess_per_s wall_speedup setup_queries setup_s us_per_iter_sd ess_per_s_sd wall_speedup_sd
        queries_per_ess queries_per_ess_sd peak_mb
    """,
    reads=("growth_ess",), summarise=summarise, row=row, planned=no_row, views=_views,
    figures={"ess_time": _ess_against_time}, legend=_legend,
    code=("flyrun.report.sections.ess", "flyrun.diagnostics.coda"),
)  # fmt: skip
