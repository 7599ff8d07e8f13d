"""One row per arm: our means and sds over seeds, the paper's values, diagnostics and costs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from flyrun.report.arms import ArmResult, Run

if TYPE_CHECKING:
    import pandas as pd

# Stable: people and scripts read these by name. New ones go to the end of MORE_COLUMNS.
# fmt: off
COLUMNS = (
    "experiment", "dataset", "model", "update", "arm", "n_data", "n_params", "seeds", "iterations",
    "queries_per_iter", "queries_per_iter_sd", "ess_per_1000", "ess_per_1000_sd", "speedup", "speedup_sd",
    "paper_queries_per_iter", "paper_ess_per_1000", "paper_speedup", "ess_bulk_min_per_1000", "rhat_max",
    "accept_rate", "bright_mean", "us_per_iter", "ess_per_s", "wall_speedup", "setup_queries", "setup_s",
    "exact",
)
MORE_COLUMNS = (
    "seeds_wanted", "burn_in", "ess_median_per_1000", "ess_min_per_1000", "ess_tail_min_per_1000",
    "ess_square_min_per_1000", "ess_bulk_min", "us_per_iter_sd", "ess_per_s_sd", "wall_speedup_sd",
    "accept_target", "note",
    "ess_gauge_free_per_1000", "ess_gauge_free_per_1000_sd", "speedup_gauge_free", "speedup_gauge_free_sd",
    "ess_square_per_1000", "ess_square_per_1000_sd", "ess_worse_per_1000", "ess_worse_per_1000_sd",
    "speedup_worse", "speedup_worse_sd", "ess_gauge_free_bulk_min_per_1000",
    "ess_gauge_free_square_min_per_1000", "gradients", "queries_per_ess", "queries_per_ess_sd", "peak_mb",
)
# fmt: on
_TEXT = {"experiment", "dataset", "model", "update", "arm", "exact", "note", "gradients"}
# ESS by which arms are compared -> the column of the ratio.
_SPEEDUPS = {
    "ess_per_1000": "speedup",
    "ess_gauge_free_per_1000": "speedup_gauge_free",
    "ess_worse_per_1000": "speedup_worse",
}
_COUNTS = {"n_data", "n_params", "seeds", "iterations", "seeds_wanted", "burn_in"}


def frame(run: Run) -> pd.DataFrame:
    """The table, one row per arm in the run's order, COLUMNS then MORE_COLUMNS; NaN where nothing is known.

    ess_per_1000: R-CODA, mean over coordinates, per 1,000 iterations after burn-in; mean ± sd over seeds.
    speedup: (ess_per_1000 / queries_per_iter) over the baseline arm's. speedup_sd treats the two arms as
    independent: speedup · sqrt(cv² + cv_baseline²), cv = sd / mean over seeds of ess / queries.
    *_gauge_free: without what the likelihood ignores (gauge.py), NaN where there is nothing.  ess_square: of
    (θ - mean)², gauge-free where there is a gauge.  *_worse: the smaller of the means' and the squares' ESS,
    gauge-free too, and the speedup that it gives.  peak_mb: resident memory, pages of mapped files included.
    """
    import pandas as pd

    rows = [_row(run, arm) for arm in run.arms]
    table = pd.DataFrame(rows, columns=[*COLUMNS, *MORE_COLUMNS])
    for name in table.columns:
        if name in _COUNTS:
            table[name] = pd.array(table[name], dtype="Int64")
        elif name not in _TEXT:
            table[name] = table[name].astype(float)
    return table


def head(run: Run, arm: ArmResult, note: str) -> dict[str, Any]:
    """What every table says of an arm, finished or not."""
    return {
        "experiment": run.info.get("experiment") or run.info.get("name"),
        "arm": arm.name,
        "seeds": arm.done,
        "seeds_wanted": arm.wanted,
        "note": note,
    }


def _row(run: Run, arm: ArmResult) -> dict[str, Any]:
    row = head(run, arm, note(run, arm)) | {f"paper_{key}": value for key, value in arm.paper.items()}
    if not arm.done:
        return row
    info = arm.infos[0]
    row |= {
        "dataset": arm.setting("dataset", "name"),
        "model": arm.setting("model", "name"),
        "update": arm.fact("update"),
        "n_data": arm.fact("n_data"),
        "n_params": arm.fact("n_params"),
        "iterations": info.get("iterations"),
        "burn_in": info.get("burn_in"),
        "exact": arm.fact("exact"),
        "gradients": arm.fact("gradients"),
        "accept_rate": np.mean([cell.accept_rate for cell in arm.cells]),
        "accept_target": arm.setting("sampler", "target_accept"),
        "bright_mean": np.mean([cell.bright_mean for cell in arm.cells]),
        "setup_queries": _mean_fact(arm, "setup_queries"),
        "setup_s": _mean_fact(arm, "setup_s"),
        "peak_mb": _peak_mb(arm),
        "ess_median_per_1000": np.mean([1000 * np.median(c.ess) / c.n_iterations for c in arm.cells]),
        "ess_min_per_1000": np.mean([1000 * np.min(c.ess) / c.n_iterations for c in arm.cells]),
        **_pooled(arm),
    }
    for name in (
        "queries_per_iter",
        "us_per_iter",
        "ess_per_s",
        *_SPEEDUPS,
        "ess_square_per_1000",
        "queries_per_ess",
    ):
        row[name], row[f"{name}_sd"] = mean_sd(per_seed(arm, name))
    base = run.baseline
    if base and base.done:
        for ess, name in _SPEEDUPS.items():
            row[name], row[f"{name}_sd"] = _speedup(arm, base, ess)
        row["wall_speedup"] = _ratio(row["ess_per_s"], per_seed(base, "ess_per_s").mean())
        times = per_seed(arm, "ess_per_s"), per_seed(base, "ess_per_s")
        # A ratio of a number with itself has no spread.
        row["wall_speedup_sd"] = 0.0 if arm is base else row["wall_speedup"] * _cv_of_ratio(*times)
    return row


def _speedup(arm: ArmResult, base: ArmResult, ess: str) -> tuple[float, float]:
    """Ratio of the arms' `ess` per query, and its sd."""
    (ours, theirs), (queries, base_queries) = (
        [per_seed(one, name) for one in (arm, base)] for name in (ess, "queries_per_iter")
    )
    ratio = _ratio(_ratio(ours.mean(), queries.mean()), _ratio(theirs.mean(), base_queries.mean()))
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = _cv_of_ratio(ours / queries, theirs / base_queries)
    return ratio, 0.0 * ratio if arm is base else ratio * spread


def per_seed(arm: ArmResult, name: str) -> np.ndarray:
    """One value per finished seed of a column of the table; NaN for what its cells do not have."""
    ess, square, free, free_square = (
        np.array([np.mean(sizes) if (sizes := getattr(cell, name)) else math.nan for cell in arm.cells])
        for name in ("ess", "square", "free", "free_square")
    )
    squares = np.where(np.isnan(free), square, free_square)
    queries = np.array([cell.queries_per_iter for cell in arm.cells])
    n_iterations = np.array([cell.n_iterations for cell in arm.cells], dtype=float)
    seconds = np.array([info["timings"]["sampling_s"] for info in arm.infos], dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        values = {
            "queries_per_iter": queries,
            "ess_per_1000": 1000 * ess / n_iterations,
            "ess_gauge_free_per_1000": 1000 * free / n_iterations,
            "ess_square_per_1000": 1000 * squares / n_iterations,
            "ess_worse_per_1000": 1000
            * np.minimum(np.where(np.isnan(free), ess, free), squares)
            / n_iterations,
            "queries_per_ess": queries * n_iterations / ess,
            "us_per_iter": 1e6 * seconds / n_iterations,
            "ess_per_s": ess / seconds,
        }
    return values[name]


def mean_sd(values: np.ndarray) -> tuple[float, float]:
    """Mean and sample sd; the sd of one value is NaN."""
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else math.nan


def note(run: Run, arm: ArmResult) -> str:
    """What this row lacks, in plain words; "" when it lacks nothing."""
    parts = []
    if arm.done < arm.wanted:
        kinds = [state for state in arm.states.values() if state != "done"]
        counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
        parts.append(f"{arm.done}/{arm.wanted} seeds ({counts})")
    base = run.baseline
    if base is None:
        parts.append("no speedup: this run has no arm to compare with")
    elif not base.done:
        parts.append(f"no speedup: arm '{base.name}' has no finished seed")
    elif base.done < base.wanted and arm is not base:
        parts.append(f"speedup against {base.done}/{base.wanted} seeds of '{base.name}'")
    return "; ".join(parts)


def _pooled(arm: ArmResult) -> dict[str, float]:
    assert arm.pooled is not None, "only asked of arms with a finished seed"
    n_iterations = sum(cell.n_iterations for cell in arm.cells)
    smallest = {kind: float(np.min(getattr(arm.pooled, kind))) for kind in ("bulk", "tail", "square")}
    for kind in ("bulk", "square"):
        smallest[f"gauge_free_{kind}"] = float(np.min(getattr(arm.pooled, f"free_{kind}") or math.nan))
    rhat = np.array(arm.pooled.rhat)
    return {
        **{f"ess_{kind}_min_per_1000": 1000 * size / n_iterations for kind, size in smallest.items()},
        "ess_bulk_min": smallest["bulk"],
        "rhat_max": float(np.nanmax(rhat)) if not np.isnan(rhat).all() else math.nan,
    }


def _mean_fact(arm: ArmResult, key: str) -> float:
    values = [info.get("facts", {}).get(key) for info in arm.infos]
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else math.nan


def _peak_mb(arm: ArmResult) -> float:
    """Most memory that a process held over this arm's set-up and chains, in 10⁶ bytes."""
    peaks = [peak for info in arm.infos for peak in info.get("memory", {}).values() if peak is not None]
    return max(peaks) / 1e6 if peaks else math.nan


def _ratio(a: float, b: float) -> float:
    return float(a / b) if b else math.nan


def _cv_of_ratio(a: np.ndarray, b: np.ndarray) -> float:
    """Coefficient of variation of a ratio of two independent means, to first order."""
    cvs = [_ratio(sd, mean) for mean, sd in (mean_sd(a), mean_sd(b))]
    return math.hypot(*cvs)
