"""How far every arm's moments are from exact ones, where quadrature has these."""

import functools
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from flyrun.experiments.accuracy.posterior_errors import Answer, Errors, errors
from flyrun.experiments.accuracy.truth import truth_of
from flyrun.experiments.gold.reference import bound
from flyrun.experiments.report import by_size
from flyrun.experiments.report.arms import ArmResult, Run
from flyrun.experiments.report.colours import Look
from flyrun.experiments.report.draws import Draws
from flyrun.experiments.report.metrics import (
    EXACT,
    OFF,
    OFF_WORST,
    SD_RATIO,
    SD_RATIO_LEAST,
    SD_RATIO_MOST,
    TOTAL_QUERIES,
    TOTAL_SECONDS,
    table,
)
from flyrun.experiments.report.section import Row, Section
from flyrun.experiments.report.sections import accuracy
from flyrun.ground.page.metrics import Metric, put
from flyrun.ground.page.render import NOTHING, View, known, number, spec

if TYPE_CHECKING:
    from flyrun.experiments.gold.recipe import Moments


def summarise(draws: Draws) -> Row:
    """moment_mean, moment_sd: by coordinate, as handed in at the end.  moment_evidence: log, NaN for none."""
    mean, square = (draws.values("estimate", name) for name in ("mean", "square"))
    if mean is None or square is None or not len(mean) or mean.ndim != 2:
        return {}
    evidences = (draws.values("estimate", name) for name in ("log_evidence", "evidence_bound"))
    evidence = next((value for value in evidences if value is not None), np.full(1, math.nan))
    return {
        "moment_mean": mean[-1].tolist(),
        "moment_sd": np.sqrt(np.maximum(square[-1] - mean[-1] ** 2, 0.0)).tolist(),
        "moment_evidence": float(evidence[-1]),
    }


def pool(chains: list[Draws]) -> Row:
    """exact_mean, exact_sd: by coordinate.  exact_evidence: its logarithm."""
    settings = chains[0].info["settings"]
    problem = {group: settings[group] for group in ("dataset", "model", "prior")}
    posterior = _exact(json.dumps(problem, sort_keys=True), chains[0].cell.folder.parents[1] / "setup")
    return {
        "exact_mean": posterior.mean.tolist(),
        "exact_sd": np.sqrt(posterior.variance).tolist(),
        "exact_evidence": posterior.log_z,
    }


@functools.lru_cache(maxsize=4)  # arms of one problem come one after the other, or in a few processes
def _exact(settings: str, folder: Path) -> "Moments":
    from flyrun.experiments.gold import by_coordinate  # late: numba, which most reports do without

    return by_coordinate.moments(*bound(json.loads(settings), folder))


def _errors(arm: ArmResult) -> Errors:
    mean, sd = (
        np.array([getattr(cell, name) for cell in arm.cells]) for name in ("moment_mean", "moment_sd")
    )
    truth = truth_of(Run({}, (), ""), arm)
    assert truth is not None  # the exact moments that `pool` worked out
    return errors(Answer(mean, sd), truth)


def _row(run: Run, arm: ArmResult) -> Row:
    gap, evidence = _errors(arm), arm.each("moment_evidence")
    row: Row = {"exact_coordinates": gap.off.shape[1], "exact_evidence": arm.pooled.exact_evidence}
    row |= accuracy.distances(gap)
    put(row, "off_median", np.median(np.abs(gap.off), axis=1))
    row["off_far"] = int((np.abs(gap.off) > _FAR).sum())
    row["off_told"] = gap.off.size
    if np.isfinite(evidence).all():
        put(row, "evidence_off", evidence - arm.pooled.exact_evidence)
    for name in ("total_queries", "total_seconds"):
        put(row, name, arm.each(name))
    return row


_FAR = 1.0  # sds: a mean that is further off has ended elsewhere


def _far(row: Row) -> str:
    counts = (spec(row.get(name, math.nan), ",.0f") for name in ("off_far", "off_told"))
    return " of ".join(counts) if known(row.get("off_far")) else NOTHING


_OF_SEVERAL = ("off_median", "off_worst", "sd_ratio_least", "sd_ratio_most")
METRICS = [
    replace(
        OFF,
        means="distance of the mean from the exact one, by quadrature, in sds of the posterior, root mean "
        "square over all coordinates",
    ),
    Metric("off_far", "beyond 1", text=_far, means="means of all seeds further off than that"),
    Metric("off_told"),
    Metric("off_median", "median", by_seed=True),
    OFF_WORST,
    replace(SD_RATIO, means="sds over the exact ones, geometric mean over coordinates, least and most"),
    SD_RATIO_LEAST,
    SD_RATIO_MOST,
    Metric(
        "evidence_off", "log evidence off", by_seed=True,
        means="an arm's estimate of log p(data), or its bound, less the exact value",
    ),
    TOTAL_QUERIES,
    TOTAL_SECONDS,
    EXACT,
    Metric("exact_coordinates"),
    Metric("exact_evidence"),
]  # fmt: skip


def _views(rows: list[Row]) -> list[View]:
    several = any(row.get("exact_coordinates", 1) > 1 for row in rows)
    metrics = [metric for metric in METRICS if several or metric.name not in _OF_SEVERAL]
    return [table("Moments beside exact ones (mean ± sd over seeds)", metrics, rows)]


def _by_size(arms: list[ArmResult], styles: dict[str, Look], title: str) -> Any:
    """Errors of means in sds of the exact posterior, root mean square over all coordinates, and ratios of
    sds, their geometric mean, against rows a coordinate; lines: means over seeds, bands: one sd.
    """

    def of_all(arm: ArmResult) -> tuple[np.ndarray, np.ndarray]:
        gap = _errors(arm)
        return gap.rms, gap.sd_ratio

    labels = "rows a coordinate", "off, sds", "sd ratio"
    return by_size.draw(by_size.lines_of(arms, _rows), _rows, of_all, styles, labels, title)


def _rows(arm: ArmResult) -> float:
    return float(arm.fact("n_data")) / len(arm.pooled.exact_mean)


def _arm_caveats(run: Run, arm: ArmResult) -> list[str]:
    off = np.abs(_errors(arm).off)
    far = int((~(off <= _FAR)).sum())
    text = f"{far:,} of {off.size:,} means are more than 1 sd off, the farthest {number(off.max(), 2)}: "
    return [text + "there it has ended elsewhere."] * bool(far)


SECTION = Section(
    "quadrature", place=70, metrics=METRICS, reads=("moment_mean", "total_queries"), only="quadrature",
    summarise=summarise, pool=pool, row=_row, views=_views, arm_caveats=_arm_caveats,
    replaces=("accuracy",), figures={"quadrature": _by_size}, by_sweep=("quadrature",),
    code=("flyrun.experiments.gold.by_coordinate",),
)  # fmt: skip
