"""Coefficients on the columns' own scales: the summary of each."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from flyrun.fitting.column_scales import Scales
from flyrun.fitting.weight_tails import few_decide
from flyrun.ground.diagnostics import ess
from flyrun.ground.schema import listing
from flyrun.tables.layout import INTERCEPT, Layout

RHAT, ESS = 1.01, 400
INTERVAL = (0.03, 0.97)


def _of_chains(flat: np.ndarray) -> dict[str, np.ndarray]:
    """Of chains' draws (C, T, P): mean, sd, ends of the interval, ESS and R-hat, (P,) each."""
    summary = ess.summary(flat, wanted=("bulk", "tail", "rhat"))
    low, high = np.quantile(flat, INTERVAL, axis=(0, 1))
    mean, sd, draws = flat.mean(axis=(0, 1)), flat.std(axis=(0, 1), ddof=1), flat.reshape(-1, flat.shape[-1])
    sd[few_decide((draws - mean) ** 2)] = np.nan
    moments = {"mean": mean, "sd": sd, "q03": low, "q97": high}
    return moments | {"ess_bulk": summary.bulk, "ess_tail": summary.tail, "rhat": summary.rhat}


def summarise_chains(draws: dict[str, np.ndarray], layout: Layout) -> list[dict[str, Any]]:
    """A row per coefficient and auxiliary number of chains' draws, (C, T, ...) by name."""
    moments = {name: _of_chains(values.reshape(*values.shape[:2], -1)) for name, values in draws.items()}
    return _all_rows(moments, layout)


def summarise_weighted(
    draws: dict[str, np.ndarray], weights: np.ndarray, layout: Layout
) -> list[dict[str, Any]]:
    """A row per coefficient, as `_rows`, and per auxiliary number, of weighted draws.

    draws: (S, ...) by name; weights: (S,) of sum 1. ess: how many independent draws would tell the mean as
    well.
    """
    flat = {name: values.reshape(len(weights), -1) for name, values in draws.items()}
    return _all_rows({name: _weighted(values, weights) for name, values in flat.items()}, layout)


def _all_rows(moments: dict[str, dict[str, np.ndarray]], layout: Layout) -> list[dict[str, Any]]:
    """The rows of coefficients, then of auxiliary numbers or their columns. moments: (P,) each, by name.

    Where a tail takes the mean out of the interval, few draws decide it, and none is told, nor an sd.
    """
    for its in moments.values():
        beyond = ~((its["q03"] <= its["mean"]) & (its["mean"] <= its["q97"]))
        its |= {key: np.where(beyond, np.nan, its[key]) for key in ("mean", "sd")}
    rows = _rows(moments["beta"], layout)
    for name, its in moments.items():
        if name != "beta":
            numbers = names_of(name, layout)
            order = range(-1, len(numbers) - 1)  # the intercept first
            rows += [
                {"class": "", "coefficient": numbers[d]}
                | {key: float(value[d]) for key, value in its.items()}
                for d in order
            ]
    return rows


def labelled(
    rows: list[dict[str, Any]], labels: dict[str, list[str]], layout: Layout
) -> list[dict[str, Any]]:
    """Rows each with its label. labels: of the numbers of draws, by name, in the draws' order."""
    classes = (layout.target.levels or [])[1:] if layout.task == "classes" else [""]
    width = len(labels["beta"]) // len(classes)
    keys = [(level, name) for level in classes for name in layout.names[:width]]
    by_key = dict(zip(keys, labels["beta"], strict=True))
    for parameter, its in labels.items():
        if parameter != "beta":
            by_key |= {
                ("", name): label for name, label in zip(names_of(parameter, layout), its, strict=True)
            }
    return [row | {"prior_data": by_key[row["class"], row["coefficient"]]} for row in rows]


def without_mean(rows: list[dict[str, Any]]) -> list[str]:
    """A line for numbers of which no mean is told, and one for those of which no sd is."""
    no_mean = [row["coefficient"] for row in rows if math.isnan(row["mean"])]
    no_sd = [row["coefficient"] for row in rows if math.isnan(row["sd"]) and not math.isnan(row["mean"])]
    return [
        f"{listing(names)}: a long tail, on which few draws decide, leaves no {what} to tell; the 3 % and "
        "97 % quantiles say what the data know"
        for names, what in ((no_mean, "mean"), (no_sd, "sd"))
        if names
    ]


def names_of(parameter: str, layout: Layout) -> list[str]:
    """What people call a parameter's numbers: its name, or that with each of its columns, the ones last."""
    part = layout.parameters.get(parameter)
    return [parameter] if part is None else [f"{parameter}[{name}]" for name in part.names]


def _weighted(values: np.ndarray, weights: np.ndarray) -> dict[str, np.ndarray]:
    """Of weighted draws (S, P): mean, sd, ends of the interval and effective draws, (P,) each."""
    mean = weights @ values
    away = (values - mean) ** 2
    variance = weights @ away
    order = np.argsort(values, axis=0)
    below = np.cumsum(weights[order], axis=0)
    ends = []
    for share in INTERVAL:
        first = np.minimum((below < share).sum(axis=0), len(values) - 1)
        ends.append(np.take_along_axis(values, np.take_along_axis(order, first[None], 0), 0)[0])
    known = variance / np.maximum(weights**2 @ away, 1e-300)
    sd = np.where(few_decide(weights[:, None] * away), np.nan, np.sqrt(variance))
    return {"mean": mean, "sd": sd, "q03": ends[0], "q97": ends[1], "ess": known}


def too_few(rows: list[dict[str, Any]]) -> str:
    """What weighted draws tell by fewer effective ones than ESS, of all these rows; "" where nothing."""
    least = min(rows, key=lambda row: row["ess"])
    if least["ess"] >= ESS:
        return ""
    return f"only {least['ess']:,.0f} effective ones tell {least['coefficient']}"


def _rows(moments: dict[str, np.ndarray], layout: Layout) -> list[dict[str, Any]]:
    """A row per coefficient: names, its moments of (P,) each, and its effect per sd of its column.

    The intercept is first in its class. effect: mean and quantiles of the coefficient times what its column
    is divided by (its sd; of two values their difference), on the scale of
    the link: log odds, logs, probits, or sds of the target.
    """
    effect = 1.0 / Scales.of(layout).factor
    levels = (layout.target.levels or [])[1:] if layout.task == "classes" else [""]
    names = layout.names[: len(moments["mean"]) // len(levels)]  # ordered classes have no intercept
    width, plain = len(names), len(layout.names) - 1
    order = [k * width + d for k in range(len(levels)) for d in (*range(plain, width), *range(plain))]
    rows = []
    for i in order:
        row = {"class": levels[i // width], "coefficient": names[i % width]}
        row |= {key: float(values[i]) for key, values in moments.items()}
        if names[i % width] != INTERCEPT:
            scale = effect[i % width]
            row |= {f"effect_{key}": float(moments[key][i] * scale) for key in ("mean", "q03", "q97")}
        rows.append(row)
    return rows


def agreed(rows: list[dict[str, Any]]) -> bool:
    """Whether every coefficient has R-hat below RHAT and a bulk ESS of at least ESS."""
    return all(row["rhat"] < RHAT and row["ess_bulk"] >= ESS for row in rows)


def of_variances(x: np.ndarray) -> np.ndarray:
    """The relative error of each number's variance, (P,), by chains' draws x (C, T, P).

    R-hat and effective draws say little of a long tail where few draws are. 0 where few draws decide, for
    no sd is told then.
    """
    away = (x - x.mean(axis=(0, 1))) ** 2
    relative = away.std(axis=(0, 1)) / np.maximum(away.mean(axis=(0, 1)), 1e-300)
    error = relative / np.sqrt(ess.summary(x, wanted=("square",)).square)
    error[few_decide(away.reshape(-1, x.shape[-1]))] = 0.0
    return np.asarray(np.nan_to_num(error, nan=np.inf))
