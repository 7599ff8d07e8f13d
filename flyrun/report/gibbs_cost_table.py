"""What an update costs as Δ, D, L and Ψ grow (De Sa et al. 2018, Table 1), and where minibatches win."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from flyrun.report.arms import ArmResult, Run
from flyrun.report.figures import common
from flyrun.report.gibbs_table import batch_text, note, per_seed
from flyrun.report.render import Column, View, measured, number, plain, plus_minus, seeds_text, table_view
from flyrun.report.slopes import COSTS, PARAMETERS, growing, slope
from flyrun.report.table import head, mean_sd

if TYPE_CHECKING:
    import pandas as pd

# Stable: people and scripts read these by name. New ones go to the end.
# fmt: off
COLUMNS = (
    "experiment", "graph", "arm", "sampler", "update", "exact", "seeds", "seeds_wanted", "updates",
    "n_variables", "D", "Delta", "L", "Psi", "batch", "mean_batches", "estimator", "factors_nominal",
    "factors_nominal_sd", "factors_actual", "factors_actual_sd", "us_per_update", "us_per_update_sd",
    "accept_rate", "error", "error_sd", "speedup_per_update", "gibbs_error_s", "speedup_equal_error",
    "compared", "note",
)
# fmt: on
_MEASURED = {
    "nominal": "factors_nominal",
    "actual": "factors_actual",
    "us_per_update": "us_per_update",
    "error": "error",
}
SYMBOL = {"Delta": "Δ", "D": "D", "L": "L", "Psi": "Ψ"}


def frame(run: Run) -> pd.DataFrame:
    """The table: COLUMNS, a row per arm; what is not known is empty."""
    import pandas as pd

    plain = {graph_of(arm): arm for arm in reversed(run.arms) if sampler_of(arm) == "gibbs"}
    rows = [_row(run, arm, plain.get(graph_of(arm))) for arm in run.arms]
    for row, held in zip(rows, _compared(rows), strict=True):
        row["compared"] = held
    return pd.DataFrame(rows, columns=list(COLUMNS))


def sampler_of(arm: ArmResult) -> str:
    """Its name; "" where no seed is done."""
    return arm.setting("sampler", "name", default="")


def graph_of(arm: ArmResult) -> str:
    """What the arms on one graph share."""
    return "; ".join(
        ", ".join(f"{key}={value}" for key, value in arm.setting(group, default={}).items())
        for group in ("dataset", "model")
    )


def _row(run: Run, arm: ArmResult, base: ArmResult | None) -> dict[str, Any]:
    row = head(run, arm, note(arm))
    if not arm.done:
        return row
    row |= {
        "graph": graph_of(arm),
        "sampler": sampler_of(arm),
        "update": arm.fact("update"),
        "exact": arm.fact("exact"),
        "updates": arm.infos[0].get("iterations", 0) * arm.fact("n_variables", 0),
        "n_variables": arm.fact("n_variables"),
        "D": arm.fact("n_values"),
        "Delta": arm.fact("largest_degree"),
        "L": arm.fact("local_energy_bound"),
        "Psi": arm.fact("total_energy_bound"),
        "batch": batch_text(arm),
        "mean_batches": " + ".join(number(size, 4) for size in arm.fact("batches", [])),
        "estimator": arm.fact("estimator"),
        "accept_rate": float(per_seed(arm, "accepted").mean()),
    }
    for name, column in _MEASURED.items():
        row[column], row[f"{column}_sd"] = mean_sd(per_seed(arm, name))
    if base is not None:
        row["speedup_per_update"] = per_seed(base, "us_per_update").mean() / row["us_per_update"]
        row["gibbs_error_s"], row["speedup_equal_error"] = equal_error(arm, base)
    return row


def equal_error(arm: ArmResult, base: ArmResult) -> tuple[float, float]:
    """Seconds until the arm's error is down to where plain Gibbs ends, and how many times sooner that is.

    Errors are means over seeds; the last time that the arm's falls through, read between points on
    logarithmic scales. NaN where it never does.
    """
    error, seconds = _curve(base)
    goal, whole = error[-1], seconds[-1]
    if arm is base:
        return float(whole), 1.0
    error, seconds = _curve(arm)
    above = np.flatnonzero(error > goal)
    if not above.size or above[-1] + 1 == error.size:
        return math.nan, math.nan
    k = above[-1]
    logs = np.log(error[k : k + 2]), np.log(seconds[k : k + 2])
    share = (logs[0][0] - math.log(goal)) / (logs[0][0] - logs[0][1])
    reached = math.exp(logs[1][0] + share * (logs[1][1] - logs[1][0]))
    return reached, float(whole / reached)


def _curve(arm: ArmResult) -> tuple[np.ndarray, np.ndarray]:
    error, seconds = (
        common(arm, "curve_updates", name)[1].mean(axis=0) for name in ("curve_error", "curve_seconds")
    )
    return error, seconds


def _compared(rows: list[dict[str, Any]]) -> list[str]:
    """For each row what it is compared in: parameters that grow ("Delta D"), "regime", or nothing."""
    names: list[list[str]] = [[] for _ in rows]
    for _, parameter, places in _grown(rows):
        for place in places:
            names[place].append(parameter)
    growing_graphs = {rows[place]["graph"] for place, found in enumerate(names) if found}
    return [
        " ".join(found) or ("regime" if row["seeds"] and row["graph"] not in growing_graphs else "")
        for row, found in zip(rows, names, strict=True)
    ]


def _grown(rows: list[dict[str, Any]]) -> Iterator[tuple[str, str, list[int]]]:
    """(sampler, parameter, places of the rows in which only that one grows, smallest first)."""
    done = [place for place, row in enumerate(rows) if row["seeds"] and row.get("sampler") in COSTS]
    for sampler in dict.fromkeys(rows[place]["sampler"] for place in done):
        own = [place for place in done if rows[place]["sampler"] == sampler]
        for parameter in PARAMETERS:
            found = growing([rows[place] for place in own], parameter)
            if found:
                yield sampler, parameter, [own[k] for k in found]


def sweeps(table: pd.DataFrame) -> list[tuple[str, str, list[dict[str, Any]]]]:
    """(sampler, parameter, its rows, smallest first) for whatever the table has at three sizes or more."""
    rows = table.to_dict("records")
    return [(name, parameter, [rows[k] for k in places]) for name, parameter, places in _grown(rows)]


def views(table: pd.DataFrame) -> list[View]:
    """Slopes, a table for each parameter; what each regime gives; and every arm."""
    found = []
    grown = sweeps(table)
    for parameter in PARAMETERS:
        rows = [
            _slopes(name, parameter, own) for name, own_parameter, own in grown if own_parameter == parameter
        ]
        if rows:
            found.append(table_view(_grown_title(parameter, rows[0]), _SLOPES, rows))
    regimes: dict[str, list[dict[str, Any]]] = {}
    for row in table.to_dict("records"):
        if row["compared"] == "regime":
            regimes.setdefault(row["graph"], []).append(row)
    found += [table_view(_regime_title(rows[0]), _REGIME, rows) for rows in regimes.values()]
    unfinished = [row for row in table.to_dict("records") if row["seeds"] < row["seeds_wanted"]]
    if unfinished:
        columns = [_ARM, Column("seeds", seeds_text), Column("why", lambda row: str(row["note"]))]
        found.append(table_view("Not finished", columns, unfinished))
    return found


def _slopes(sampler: str, parameter: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """One row of the table of slopes."""
    sizes = np.array([row[parameter] for row in rows], float)
    row: dict[str, Any] = {"sampler": sampler, "update": rows[0]["update"], "sizes": sizes, "held": rows[0]}
    for name, column in (("factors", "factors_actual"), ("time", "us_per_update")):
        cost = np.array([one[column] for one in rows], float)
        row[name], row[f"{name}_se"] = slope(sizes, cost)
        row[f"{name}_times"] = cost[-1] / cost[0]
    row["formula"] = slope(sizes, np.array([COSTS[sampler].at(one) for one in rows]))[0]
    row["exponent"] = COSTS[sampler].exponent(parameter)
    return row


def _grown_title(parameter: str, row: dict[str, Any]) -> str:
    held = row["held"]
    others = ", ".join(f"{SYMBOL[name]} = {held[name]:,.4g}" for name in PARAMETERS if name != parameter)
    first, last = row["sizes"][0], row["sizes"][-1]
    return f"Slopes as {SYMBOL[parameter]} grows from {first:,.4g} to {last:,.6g} ({others})"


def _regime_title(row: dict[str, Any]) -> str:
    sizes = ", ".join(f"{SYMBOL[name]} = {row[name]:,.6g}" for name in PARAMETERS)
    return f"Where minibatches can win: {row['n_variables']:,} variables, {sizes}"


def _times(name: str, digits: int = 3) -> Column:
    head = {"factors_times": "factors, last / first", "time_times": "time, last / first"}[name]
    return Column(head, lambda row: f"{number(row[name], digits)} ×")


def _fitted(name: str) -> Column:
    def text(row: dict[str, Any]) -> str:
        value, se = row[name], row[f"{name}_se"]
        return plus_minus(value, se) if se >= 0.005 else f"{value:.2f}"

    return Column({"factors": "slope of factors", "time": "slope of time"}[name], text)


def _won(name: str) -> Column:
    heads = {"speedup_per_update": "× faster an update", "speedup_equal_error": "× faster at equal error"}

    def text(row: dict[str, Any]) -> str:
        return "1" if row["sampler"] == "gibbs" else number(row[name])

    return Column(heads[name], text)


_ARM = Column("arm", lambda row: str(row["arm"]))
_UPDATE = Column("algorithm", lambda row: row["update"] + ("" if row.get("exact", True) else " (biased)"))
_SLOPES = [
    Column("algorithm", lambda row: str(row["update"])),
    _fitted("factors"),
    Column("as published", lambda row: str(row["exponent"])),
    Column("formula here", lambda row: f"{abs(row['formula']):.2f}"),
    _fitted("time"),
    _times("factors_times"),
    _times("time_times"),
]
_REGIME = [
    _UPDATE,
    Column("batch", lambda row: row["batch"] or "-"),
    Column("factors", plain("factors_actual", 4)),
    Column("µs", measured("us_per_update")),
    _won("speedup_per_update"),
    Column("accepted", plain("accept_rate", 3)),
    Column("error", measured("error")),
    _won("speedup_equal_error"),
]
