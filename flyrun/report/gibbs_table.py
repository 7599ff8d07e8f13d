"""One row per arm of a run on a graph: error, cost of an update, and what the error cannot see."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from flyrun.report.arms import ArmResult, Run
from flyrun.report.gibbs_reference import FAR, difference, mean_se, reference
from flyrun.report.render import NOTHING, Column, View, measured, number, plain, seeds_text, table_view
from flyrun.report.table import head, mean_sd

if TYPE_CHECKING:
    import pandas as pd

# Stable: people and scripts read these by name. New ones go to the end.
# fmt: off
COLUMNS = (
    "experiment", "dataset", "model", "update", "arm", "exact", "seeds", "seeds_wanted", "iterations",
    "burn_in", "updates", "n_variables", "n_values", "L", "Psi", "Delta", "batch", "mean_batches",
    "estimator", "error", "error_sd", "error_ratio", "error_ratio_se", "factors_nominal",
    "factors_nominal_sd", "factors_actual", "factors_actual_sd", "us_per_update",
    "us_per_update_sd", "time_ratio", "accept_rate",
    "accept_rate_sd", "changed", "changed_sd", "energy", "energy_se", "energy_off", "agreement",
    "agreement_se", "agreement_off", "setup_s", "note", "reference", "reference_energy",
    "reference_energy_se", "reference_agreement", "reference_agreement_se",
)
# fmt: on
# Summary -> column of its mean over seeds; its sd is beside it.
_MEASURED = {
    "error": "error",
    "nominal": "factors_nominal",
    "actual": "factors_actual",
    "us_per_update": "us_per_update",
    "accepted": "accept_rate",
    "changed": "changed",
}
# What the options batch, second_batch of a sampler are multiples of.
_UNITS = {
    "min_gibbs": ("Ψ²",),
    "local_minibatch": ("factors",),
    "mgpmh": ("L²",),
    "double_min": ("L²", "Ψ²"),
    "poisson_gibbs": ("L²",),
}


def plain_gibbs(run: Run) -> ArmResult | None:
    """The arm that the others are compared with: the first of plain Gibbs sampling that has a seed."""
    return next((arm for arm in run.arms if arm.setting("sampler", "name") == "gibbs"), None)


def frame(run: Run) -> pd.DataFrame:
    """The table: COLUMNS, a row per arm; what is not known is empty."""
    import pandas as pd

    return pd.DataFrame([_row(run, arm) for arm in run.arms], columns=list(COLUMNS))


def per_seed(arm: ArmResult, name: str) -> np.ndarray:
    """One value per finished seed of a field of its summaries."""
    return np.array([getattr(cell, name) for cell in arm.cells], dtype=float)


def batch_text(arm: ArmResult) -> str:
    """The batch sizes as they were asked: "4 Ψ²", "1 L², 4 Ψ²", "40 factors"; "" for plain Gibbs."""
    units = _UNITS.get(arm.setting("sampler", "name", default=""), ())
    asked = [arm.setting("sampler", key) for key in ("batch", "second_batch")]
    return ", ".join(f"{size:g} {unit}" for size, unit in zip(asked, units, strict=False))


def _row(run: Run, arm: ArmResult) -> dict[str, Any]:
    row = head(run, arm, note(arm))
    if not arm.done:
        return row
    info = arm.infos[0]
    row |= {
        "dataset": arm.setting("dataset", "name"),
        "model": arm.setting("model", "name"),
        "update": arm.fact("update"),
        "exact": arm.fact("exact"),
        "iterations": info.get("iterations"),
        "burn_in": info.get("burn_in"),
        "updates": info.get("iterations", 0) * arm.fact("n_variables", 0),
        "n_variables": arm.fact("n_variables"),
        "n_values": arm.fact("n_values"),
        "L": arm.fact("local_energy_bound"),
        "Psi": arm.fact("total_energy_bound"),
        "Delta": arm.fact("largest_degree"),
        "batch": batch_text(arm),
        "mean_batches": " + ".join(number(size, 4) for size in arm.fact("batches", [])),
        "estimator": arm.fact("estimator"),
        "setup_s": float(np.mean([one["facts"]["setup_s"] for one in arm.infos])),
    }
    for name, column in _MEASURED.items():
        row[column], row[f"{column}_sd"] = mean_sd(per_seed(arm, name))
    base, long_run = plain_gibbs(run), reference(run)
    for name in ("energy", "agreement"):
        row[name], row[f"{name}_se"] = mean_se(per_seed(arm, name))
        if long_run is not None:
            theirs = getattr(long_run, name)
            row[f"reference_{name}"], row[f"reference_{name}_se"] = mean_se(theirs)
            if long_run.arm != arm.name:
                row[f"{name}_off"] = difference(per_seed(arm, name), theirs)
    row["reference"] = long_run.what if long_run is not None else None
    if base is not None:
        row["error_ratio"], row["error_ratio_se"] = _ratio(per_seed(arm, "error"), per_seed(base, "error"))
        row["time_ratio"] = _ratio(per_seed(arm, "us_per_update"), per_seed(base, "us_per_update"))[0]
        if base is arm:
            row["error_ratio_se"] = 0.0
    return row


def note(arm: ArmResult) -> str:
    """What this row lacks, and that its sampler is biased."""
    parts = []
    if arm.done < arm.wanted:
        kinds = [state for state in arm.states.values() if state != "done"]
        counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
        parts.append(f"{arm.done}/{arm.wanted} seeds ({counts})")
    if arm.fact("exact") is False:
        parts.append("biased: has no known stationary distribution")
    return "; ".join(parts)


def _ratio(ours: np.ndarray, theirs: np.ndarray) -> tuple[float, float]:
    """Ratio of two independent means and its standard error, to first order."""
    (mean, se), (base, base_se) = mean_se(ours), mean_se(theirs)
    if not base or not mean:
        return math.nan, math.nan
    return mean / base, mean / base * math.hypot(se / mean, base_se / base)


def views(table: pd.DataFrame) -> list[View]:
    """Three tables from one: the error, the cost of an update, and the look for a bias."""
    rows = table.to_dict("records")
    return [
        table_view(f"Error at the end, mean ± sd{_constants(rows)}", _ERROR, rows),
        table_view("Cost of an update (mean ± sd over seeds)", _COST, rows),
        table_view(_BIAS_TITLE, _BIAS, [*_long_run(rows), *rows]),
    ]


def _long_run(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for the long Gibbs run, where it is none of the arms."""
    known = next((row for row in rows if str(row["reference"]).startswith("stored")), None)
    if known is None:
        return []
    values = {
        name: known[f"reference_{name}"] for name in ("energy", "energy_se", "agreement", "agreement_se")
    }
    return [{"arm": "long Gibbs run", "exact": True, "energy_off": None, "agreement_off": None} | values]


def _constants(rows: list[dict[str, Any]]) -> str:
    """L, Ψ and Δ of the graph, to four digits or more."""
    known = next((row for row in rows if row["seeds"]), None)
    if known is None:
        return ""
    return f"; L = {known['L']:.5g}, Ψ = {known['Psi']:.5g}, Δ = {known['Delta']:,.0f}"


def _text(name: str) -> Column:
    def text(row: dict[str, Any]) -> str:
        return row[name] if isinstance(row[name], str) and row[name] else NOTHING

    return Column({"batch": "batch (our choice)", "mean_batches": "mean batch"}.get(name, name), text)


def _exact(row: dict[str, Any]) -> str:
    return {True: "yes", False: "no: biased"}.get(row["exact"], NOTHING)


def _off(name: str) -> Column:
    def text(row: dict[str, Any]) -> str:
        value = row[f"{name}_off"]
        if value is None or math.isnan(value):
            return NOTHING
        return f"{value:+.1f} s.e." + (" !" if abs(value) > FAR else "")

    return Column("off", text)


_ARM = Column("arm", lambda row: str(row["arm"]))
_EXACT, _SEEDS = Column("exact", _exact), Column("seeds", seeds_text)
_ERROR = [
    _ARM,
    _text("batch"),
    _text("mean_batches"),
    Column("error", measured("error")),
    Column("× Gibbs (± s.e.)", measured("error_ratio", "error_ratio_se")),
    _EXACT,
    _SEEDS,
]
_COST = [
    _ARM,
    _text("estimator"),
    Column("factors nominal", plain("factors_nominal", 4)),
    Column("factors actual", plain("factors_actual", 4)),
    Column("µs", measured("us_per_update")),
    Column("accepted", plain("accept_rate", 3)),
    _EXACT,
]
_BIAS_TITLE = f"Bias, which that error cannot see (mean ± s.e.; off a long Gibbs run, ! beyond {FAR:g})"
_BIAS = [
    _ARM,
    Column("⟨ζ⟩/Ψ", measured("energy", "energy_se")),
    _off("energy"),
    Column("neighbours agree", measured("agreement", "agreement_se")),
    _off("agreement"),
    _EXACT,
]
