"""What the number of data costs, where arms have different ones."""

from __future__ import annotations

import math

from flyrun.report.arms import ArmResult, Run
from flyrun.report.render import ARM, SEEDS, Column, View, decimals, known, measured, plain, table_view
from flyrun.report.section import Row, Section, no_row
from flyrun.report.sections import ess
from flyrun.report.table import put


def row(run: Run, arm: ArmResult) -> Row:
    """Queries an effective draw, and memory: resident, pages of mapped files included, in 10⁶ bytes."""
    peaks = [peak for info in arm.infos for peak in info.get("memory", {}).values() if peak is not None]
    values: Row = {"peak_mb": max(peaks) / 1e6 if peaks else math.nan}
    put(values, "queries_per_ess", ess.per_seed(arm, "queries_per_ess"))
    return values


def _views(rows: list[Row]) -> list[View]:
    several = len({row["n_data"] for row in rows if known(row["n_data"])}) > 1
    return [table_view("Against the number of data", _COLUMNS, rows)] if several else []


_COLUMNS = [
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


def _legend(run: Run) -> list[str]:
    if len({arm.fact("n_data") for arm in run.arms if SECTION.about(arm)}) < 2:
        return []
    return [
        "queries/ESS: likelihood queries per effective sample, set-up left out. set-up s: MAP, bounds and"
        " rates. peak MB: the most resident memory, pages of mapped files included, that a process held "
        "while setting up or sampling."
    ]


SECTION = Section(
    "size",
    reads=("ess",),
    columns=("queries_per_ess", "queries_per_ess_sd", "peak_mb"),
    row=row,
    planned=no_row,
    views=_views,
    legend=_legend,
)
