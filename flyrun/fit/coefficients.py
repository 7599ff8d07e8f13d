"""Coefficients on the columns' own scales: their draws, the summary of each, and the file of the draws."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5netcdf
import h5py
import numpy as np

from flyrun import files
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
        factor = np.array([sd_y / column.sd for column in columns] + [sd_y])
        means = np.array([column.mean if column.levels is None else 0.0 for column in columns] + [0.0])
        return Scales(factor, means, mean_y)

    def apply(self, theta: np.ndarray) -> np.ndarray:
        """β, (..., D), of θ, (..., D)."""
        beta = theta * self.factor
        beta[..., -1] += self.shift - beta @ self.means
        return beta


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
    """A row per coefficient: names, mean, sd, interval, ESS, R-hat, and its effect per sd of its column.

    The intercept is first in its class. effect: mean and quantiles of the coefficient times what its column
    is divided by (its sd; of two values their difference), in log odds or in sds of the target. most: numbers
    that R-hat and ESS are worked out from; the ESS of fewer draws is at most that of all.
    """
    flat = beta.reshape(*beta.shape[:2], -1)
    found = ess.summary(judged(beta, most))
    low, high = np.quantile(flat, INTERVAL, axis=(0, 1))
    mean, sd = flat.mean(axis=(0, 1)), flat.std(axis=(0, 1), ddof=1)
    told = {"mean": mean, "sd": sd, "q03": low, "q97": high}
    told |= {"ess_bulk": found.bulk, "ess_tail": found.tail, "rhat": found.rhat}
    effect = 1.0 / Scales.of(layout).factor
    names, width = layout.names, len(layout.names)
    levels = (layout.target.levels or [])[1:] if layout.task == "classes" else [""]
    order = [k * width + d for k in range(len(levels)) for d in (width - 1, *range(width - 1))]
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
    with files.replacing(path) as temporary:
        files.reserve(path.parent, int(1.2 * beta.nbytes) + (1 << 20))
        with h5netcdf.File(temporary, "w") as file:
            file.attrs.update(attrs)
            _write_group(file.create_group("posterior"), axes, {"beta": beta})
            _write_group(file.create_group("sample_stats"), steps, stats)


def _write_group(group: Any, axes: dict[str, Any], variables: dict[str, np.ndarray]) -> None:
    """Variables over these axes, each with its values along it."""
    for name, along in axes.items():
        group.dimensions[name] = len(along)
        words = isinstance(along[0], str)
        values = np.array(along, dtype=object if words else np.int64)
        group.create_variable(name, (name,), h5py.string_dtype() if words else "i8")[:] = values
    for name, values in variables.items():
        group.create_variable(name, tuple(axes), values.dtype)[:] = values
