"""How far every arm's moments are from exact ones, where quadrature has these."""

import functools
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from flyrun.gold.reference import bound
from flyrun.report import by_size, words
from flyrun.report.arms import ArmResult, Run
from flyrun.report.colours import Look
from flyrun.report.draws import Draws
from flyrun.report.render import ARM, SEEDS, Column, View, exact, known, measured, number, plain, table_view
from flyrun.report.section import Row, Section
from flyrun.report.table import put

if TYPE_CHECKING:
    from flyrun.gold.recipe import Moments


def summarise(draws: Draws) -> Row:
    """moment_mean, moment_sd: by coordinate, as handed in at the end.  moment_evidence: log, NaN for none."""
    mean, square = (draws.values("estimate", name) for name in ("mean", "square"))
    if mean is None or square is None or not len(mean) or mean.ndim != 2:
        return {}
    told = (draws.values("estimate", name) for name in ("log_evidence", "evidence_bound"))
    evidence = next((value for value in told if value is not None), np.full(1, math.nan))
    return {
        "moment_mean": mean[-1].tolist(),
        "moment_sd": np.sqrt(np.maximum(square[-1] - mean[-1] ** 2, 0.0)).tolist(),
        "moment_evidence": float(evidence[-1]),
    }


def pool(chains: list[Draws]) -> Row:
    """exact_mean, exact_sd: by coordinate.  exact_evidence: its logarithm."""
    settings = chains[0].info["settings"]
    problem = {group: settings[group] for group in ("dataset", "model", "prior")}
    found = _exact(json.dumps(problem, sort_keys=True), chains[0].cell.folder.parents[1] / "setup")
    return {
        "exact_mean": found.mean.tolist(),
        "exact_sd": np.sqrt(found.variance).tolist(),
        "exact_evidence": found.log_z,
    }


@functools.lru_cache(maxsize=4)  # arms of one problem come one after the other, or in a few processes
def _exact(settings: str, folder: Path) -> "Moments":
    from flyrun.gold import by_coordinate  # late: numba, which most reports do without

    return by_coordinate.moments(*bound(json.loads(settings), folder))


def _errors(arm: ArmResult) -> tuple[np.ndarray, np.ndarray]:
    """|Errors of means| in exact sds, and ratios of sds, (seeds, D)."""
    mean, sd = np.array(arm.pooled.exact_mean), np.array(arm.pooled.exact_sd)
    off = np.abs(np.array([cell.moment_mean for cell in arm.cells]) - mean) / sd
    return off, np.array([cell.moment_sd for cell in arm.cells]) / sd


def _row(run: Run, arm: ArmResult) -> Row:
    pooled, (off, ratio) = arm.pooled, _errors(arm)
    row: Row = {"exact_coordinates": off.shape[1], "exact_evidence": pooled.exact_evidence}
    put(row, "mean_off_rms", np.sqrt(np.mean(off**2, axis=1)))
    for name, values in (("mean_off", off), ("sd_by_exact", ratio)):
        for kind in (np.median, np.min, np.max):
            put(row, f"{name}_{kind.__name__}", kind(values, axis=1))
    evidence = arm.each("moment_evidence")
    if np.isfinite(evidence).all():
        put(row, "evidence_off", evidence - pooled.exact_evidence)
    for name in ("total_queries", "total_seconds"):
        put(row, name, arm.each(name))
    return row


def _sd_range(row: Row) -> str:
    """The least and the greatest ratio of a coordinate's sds, means over seeds."""
    ends = row.get("sd_by_exact_min"), row.get("sd_by_exact_max")
    return " to ".join(map(number, ends)) if all(map(known, ends)) else "-"


_COLUMNS = [
    ARM,
    Column("mean off (sds), median", measured("mean_off_median")),
    Column("rms", measured("mean_off_rms")),
    Column("largest", measured("mean_off_max")),
    Column("sd ratio, median", measured("sd_by_exact_median")),
    Column("least to greatest", _sd_range),
    Column("log evidence off", measured("evidence_off")),
    Column("queries", plain("total_queries")),
    Column("seconds", measured("total_seconds")),
    exact("no"),
    SEEDS,
]


def _views(rows: list[Row]) -> list[View]:
    several = any(row.get("exact_coordinates", 1) > 1 for row in rows)
    spread = ("rms", "largest", "least to greatest")
    columns = [column for column in _COLUMNS if several or column.head not in spread]
    return [table_view("Moments beside exact ones (mean ± sd over seeds)", columns, rows)]


_LEGEND = """
mean off: distance of E θ_d from the exact mean, in sds of the posterior, by quadrature, median, root mean
square and largest over coordinates; sd ratio: of θ_d's sd to the exact one; log evidence off: what an arm
makes of log p(data), a bound on it or an estimate, less the exact value. queries, seconds: of a seed, set-up
included.
"""


def _by_size(arms: list[ArmResult], styles: dict[str, Look], title: str) -> Any:
    """Errors of means in sds of the exact posterior, and ratios of sds, medians over coordinates and means
    over seeds, against the number of rows a coordinate; bands: one sd over seeds.
    """

    def medians(arm: ArmResult) -> tuple[np.ndarray, np.ndarray]:
        off, ratio = _errors(arm)
        return np.median(off, axis=1), np.median(ratio, axis=1)

    labels = "rows a coordinate", "mean off, sds", "sd ratio"
    return by_size.draw(by_size.lines_of(arms, _rows), _rows, medians, styles, labels, title)


def _rows(arm: ArmResult) -> float:
    return float(arm.fact("n_data")) / len(arm.pooled.exact_mean)


_FAR = 1.0  # sds: half of the coordinates are further from the exact mean


def _arm_caveats(run: Run, arm: ArmResult) -> list[str]:
    off = _row(run, arm)["mean_off_median"]
    return [f"half of its means are {number(off, 2)} sds off or more: it has ended elsewhere."] * (off > _FAR)


SECTION = Section(
    "quadrature",
    columns="""
        experiment dataset model update arm n_data n_params seeds iterations exact seeds_wanted note
        exact_coordinates mean_off_median mean_off_median_sd mean_off_rms mean_off_rms_sd mean_off_min
        mean_off_min_sd mean_off_max mean_off_max_sd sd_by_exact_median sd_by_exact_median_sd
        sd_by_exact_min sd_by_exact_min_sd sd_by_exact_max sd_by_exact_max_sd
        evidence_off evidence_off_sd exact_evidence
        total_queries total_queries_sd total_seconds total_seconds_sd
    """,
    reads=("moment_mean", "total_queries"), only="quadrature", summarise=summarise, pool=pool, row=_row,
    views=_views, legend=lambda run: words.lines(_LEGEND), arm_caveats=_arm_caveats, replaces=("estimates",),
    figures={"quadrature": _by_size}, code=("flyrun.gold.by_coordinate",),
)  # fmt: skip
