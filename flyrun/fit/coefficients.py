"""Coefficients on the columns' own scales: their draws, the summary of each, and the file of the draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray

from flyrun import files
from flyrun.data.table.layout import INTERCEPT, Layout
from flyrun.diagnostics import ess
from flyrun.runner.store import StoredCell

RHAT, ESS = 1.01, 400
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
    theta = _of_chains(cells, "posterior", "theta").astype(np.float64)
    if layout.task == "classes":
        theta = theta.reshape(*theta.shape[:2], -1, len(layout.names))
        theta = theta[:, :, 1:] - theta[:, :, :1]
    return Scales.of(layout).apply(theta)


def _of_chains(cells: Sequence[StoredCell], group: str, name: str) -> np.ndarray:
    """(C, T, ...)."""
    chains = []
    for cell in cells:
        with cell.tree() as tree:
            stored: Any = tree[group]
            chains.append(np.array(stored[name].values[0]))
    return np.stack(chains)


def summarise(beta: np.ndarray, layout: Layout) -> list[dict[str, Any]]:
    """A row per coefficient: names, mean, sd, interval, ESS, R-hat, and its effect per sd of its column.

    The intercept is first in its class. effect: mean and quantiles of the coefficient times its column's sd,
    in log odds or in sds of the target.
    """
    flat = beta.reshape(*beta.shape[:2], -1)
    found = ess.summary(flat)
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
    draw = np.arange(beta.shape[1]) * thin + first + thin - 1
    steps: dict[str, Any] = {"chain": [cell.seed for cell in cells], "draw": draw}
    coords, dims = steps | {"coefficient": layout.names}, ["chain", "draw", "coefficient"]
    if beta.ndim == 4:
        dims.insert(2, "class")
        coords["class"] = (layout.target.levels or [])[1:]
    stats = {name: _of_chains(cells, "sample_stats", name)[:, thin - 1 :: thin] for name in _STATS}
    tree = xarray.DataTree.from_dict(
        {
            "/": xarray.Dataset(attrs=attrs),
            "/posterior": xarray.Dataset({"beta": (dims, beta)}, coords),
            "/sample_stats": xarray.Dataset({key: (list(steps), each) for key, each in stats.items()}, steps),
        }
    )
    with files.replacing(path) as temporary:
        files.reserve(path.parent, int(1.2 * beta.nbytes) + (1 << 20))
        tree.to_netcdf(temporary, engine="h5netcdf")
