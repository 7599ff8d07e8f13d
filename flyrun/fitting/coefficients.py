"""Coefficients on the columns' own scales: their draws, the summary of each, and the file of the draws."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from flyrun import files, netcdf
from flyrun.data.table.layout import INTERCEPT, Layout
from flyrun.diagnostics import ess
from flyrun.runner.store import StoredCell

RHAT, ESS = 1.01, 400
_FEWEST = 250  # draws of a chain that R-hat and ESS are always worked out from
INTERVAL = (0.03, 0.97)
_STATS = ("log_joint", "accepted", "queries", "bright")


@dataclass(frozen=True)
class Scales:
    """How θ, on standardised columns, becomes β: β = factor·θ, and the intercept takes up means and shift."""

    factor: np.ndarray  # (D,), the intercept last
    means: np.ndarray  # (D,) of the columns, 0 for levels and the intercept
    shift: float

    @staticmethod
    def of(layout: Layout) -> Scales:
        """The scales of a table."""
        columns = [column for column in layout.features for _ in column.encoded]
        sd_y, mean_y = layout.target.sd, layout.target.mean
        factor = np.array([sd_y / column.sd for column in columns] + [sd_y * layout.ones])
        means = np.array([column.mean if column.levels is None else 0.0 for column in columns] + [0.0])
        return Scales(factor, means, mean_y)

    def apply(self, theta: np.ndarray) -> np.ndarray:
        """β, (..., D), of θ, (..., D)."""
        beta = theta * self.factor
        beta[..., -1] += self.shift - beta @ self.means
        return beta

    def undo(self, beta: np.ndarray) -> np.ndarray:
        """θ, (..., D), of β, (..., D)."""
        theta = beta.copy()
        theta[..., -1] -= self.shift - beta @ self.means
        return theta / self.factor


def draws(cells: Sequence[StoredCell], layout: Layout) -> np.ndarray:
    """β of finished chains of equal length: (C, T, D); for K classes (C, T, K-1, D), against the first."""
    theta = np.stack([cell.arrays("posterior/theta")[0] for cell in cells]).astype(np.float64)
    if layout.task == "classes":
        theta = theta.reshape(*theta.shape[:2], -1, len(layout.names))
        theta = theta[:, :, 1:] - theta[:, :, :1]
    return Scales.of(layout).apply(theta)


def judged(beta: np.ndarray, most: float = math.inf) -> np.ndarray:
    """Every k-th draw, (C, T // k, P), so few that they hold at most so many numbers, or _FEWEST a chain."""
    flat = beta.reshape(*beta.shape[:2], -1)
    return flat[:, :: max(1, min(math.ceil(flat.size / most), flat.shape[1] // _FEWEST))]


def summarise(beta: np.ndarray, layout: Layout, most: float = math.inf) -> list[dict[str, Any]]:
    """A row per coefficient, as `_rows`, of chains' draws (C, T, ...), with ESS and R-hat.

    most: numbers that R-hat and ESS are worked out from; the ESS of fewer draws is at most that of all.
    """
    return _rows(_of_chains(beta.reshape(*beta.shape[:2], -1), most), layout)


def _of_chains(flat: np.ndarray, most: float = math.inf) -> dict[str, np.ndarray]:
    """Of chains' draws (C, T, P): mean, sd, ends of the interval, ESS and R-hat, (P,) each."""
    found = ess.summary(judged(flat, most), wanted=("bulk", "tail", "rhat"))
    low, high = np.quantile(flat, INTERVAL, axis=(0, 1))
    told = {"mean": flat.mean(axis=(0, 1)), "sd": flat.std(axis=(0, 1), ddof=1), "q03": low, "q97": high}
    return told | {"ess_bulk": found.bulk, "ess_tail": found.tail, "rhat": found.rhat}


def summarise_chains(draws: dict[str, np.ndarray], layout: Layout) -> list[dict[str, Any]]:
    """A row per coefficient and auxiliary number of chains' draws: beta (C, T, ...) and others (C, T)."""
    others = ((name, _of_chains(values[:, :, None])) for name, values in draws.items() if name != "beta")
    return [*summarise(draws["beta"], layout), *(_auxiliary(name, told) for name, told in others)]


def summarise_weighted(
    draws: dict[str, np.ndarray], weights: np.ndarray, layout: Layout
) -> list[dict[str, Any]]:
    """A row per coefficient, as `_rows`, and per auxiliary number, of weighted draws.

    draws: beta (S, ...) and auxiliary numbers (S,) by name; weights: (S,) of sum 1. ess: how many independent
    draws would tell the mean as well.
    """
    rows = _rows(_weighted(draws["beta"].reshape(len(weights), -1), weights), layout)
    others = ((name, values[:, None]) for name, values in draws.items() if name != "beta")
    return [*rows, *(_auxiliary(name, _weighted(values, weights)) for name, values in others)]


def _auxiliary(name: str, told: dict[str, np.ndarray]) -> dict[str, Any]:
    """The row of an auxiliary number."""
    return {"class": "", "coefficient": name} | {key: float(one[0]) for key, one in told.items()}


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
    return {"mean": mean, "sd": np.sqrt(variance), "q03": ends[0], "q97": ends[1], "ess": known}


def _rows(told: dict[str, np.ndarray], layout: Layout) -> list[dict[str, Any]]:
    """A row per coefficient: names, what is told of it, and its effect per sd of its column.

    The intercept is first in its class. effect: mean and quantiles of the coefficient times what its column
    is divided by (its sd; of two values their difference), on the scale of
    the link: log odds, logs, probits, or sds of the target.
    """
    effect = 1.0 / Scales.of(layout).factor
    levels = (layout.target.levels or [])[1:] if layout.task == "classes" else [""]
    names = layout.names[: len(told["mean"]) // len(levels)]  # ordered classes have no intercept
    width, plain = len(names), len(layout.names) - 1
    order = [k * width + d for k in range(len(levels)) for d in (*range(plain, width), *range(plain))]
    rows = []
    for i in order:
        row = {"class": levels[i // width], "coefficient": names[i % width]}
        row |= {key: float(values[i]) for key, values in told.items()}
        if names[i % width] != INTERCEPT:
            scale = effect[i % width]
            row |= {f"effect_{key}": float(told[key][i] * scale) for key in ("mean", "q03", "q97")}
        rows.append(row)
    return rows


def agreed(rows: list[dict[str, Any]]) -> bool:
    """Whether every coefficient has R-hat below RHAT and a bulk ESS of at least ESS."""
    return all(row["rhat"] < RHAT and row["ess_bulk"] >= ESS for row in rows)


def write(
    path: Path, beta: np.ndarray, cells: Sequence[StoredCell], layout: Layout, attrs: dict[str, Any]
) -> None:
    """All chains in one netCDF tree: posterior with beta by name, and sample_stats."""
    first, thin = int(cells[0].info["burn_in"]), int(cells[0].info["thin"])
    steps = {
        "chain": [cell.seed for cell in cells],
        "draw": np.arange(beta.shape[1]) * thin + first + thin - 1,
    }
    axes: dict[str, Any] = steps | {"coefficient": layout.names}
    if beta.ndim == 4:
        axes = steps | {"class": (layout.target.levels or [])[1:], "coefficient": layout.names}
    stored = (cell.arrays(*(f"sample_stats/{name}" for name in _STATS)) for cell in cells)
    stats = {
        name: np.stack(chains)[:, thin - 1 :: thin] for name, *chains in zip(_STATS, *stored, strict=True)
    }
    _write(path, attrs, {"posterior": (axes, {"beta": beta}), "sample_stats": (steps, stats)})


def write_draws(
    path: Path,
    even: dict[str, np.ndarray],
    weighted: dict[str, np.ndarray],
    layout: Layout,
    attrs: dict[str, Any],
    further: dict[str, tuple[dict, dict]] | None = None,
) -> None:
    """A netCDF tree: `posterior`, draws (C, T, ...) of even weight, and `weighted`, (S, ...), if any.

    further: other groups of the file, each its axes and its variables over the first of them.
    """
    own: dict[str, Any] = {"coefficient": layout.names[: even["beta"].shape[-1]]}
    if even["beta"].ndim == 4:
        own = {"class": (layout.target.levels or [])[1:]} | own
    chains, length = even["beta"].shape[:2]
    groups = {"posterior": ({"chain": range(chains), "draw": range(length)} | own, even)}
    if weighted:
        groups["weighted"] = ({"draw": range(len(weighted["beta"]))} | own, weighted)
    _write(path, attrs, groups | (further or {}))


def _write(path: Path, attrs: dict[str, Any], groups: dict[str, tuple[dict, dict]]) -> None:
    """A netCDF file of groups, each its axes and its variables over the first of them."""
    size = sum(values.nbytes for _, variables in groups.values() for values in variables.values())
    with files.replacing(path) as temporary:
        files.reserve(path.parent, int(1.2 * size) + (1 << 20))
        with netcdf.create(temporary) as file:
            file.attrs.update(attrs)
            for name, (axes, variables) in groups.items():
                _write_group(netcdf.group(file, name), axes, variables)


def _write_group(group: h5py.Group, axes: dict[str, Any], variables: dict[str, np.ndarray]) -> None:
    """Variables over as many of these axes as they have, the first ones; each axis with its values."""
    for name, along in axes.items():
        netcdf.dimension(group, name, along)
    for name, values in variables.items():
        netcdf.variable(group, name, tuple(axes)[: values.ndim], values.dtype)[:] = values
