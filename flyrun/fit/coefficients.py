"""Coefficients on the columns' own scales: their draws, the summary of each, and the file of the draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray

from flyrun import files
from flyrun.data.table.columns import INTERCEPT, Layout
from flyrun.diagnostics import ess
from flyrun.runner.store import StoredCell

RHAT, ESS = 1.01, 400
INTERVAL = (0.03, 0.97)
_STATS = ("log_joint", "accepted", "queries", "bright")


@dataclass(frozen=True)
class Scales:
    """How θ, on standardised columns, becomes β: β = factor·θ, and the intercept takes up means and shift."""

    factor: np.ndarray
    """(D,), the intercept last."""
    means: np.ndarray
    """(D,) of the columns, 0 for levels and the intercept."""
    shift: float

    @staticmethod
    def of(layout: Layout) -> Scales:
        """The scales of a table."""
        columns = [column for column in layout.features for _ in range(column.width)]
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
    scales, chains = Scales.of(layout), []
    for cell in cells:
        with cell.tree() as tree:
            posterior: Any = tree["posterior"]
            chains.append(np.array(posterior["theta"].values[0], dtype=np.float64))
    theta = np.stack(chains)
    if layout.task == "classes":
        theta = theta.reshape(*theta.shape[:2], -1, len(layout.names))
        theta = theta[:, :, 1:] - theta[:, :, :1]
    return scales.apply(theta)


def summarise(beta: np.ndarray, layout: Layout) -> list[dict[str, Any]]:
    """A row per coefficient: names, mean, sd, interval, ESS, R-hat, and its effect per sd of its column.

    The intercept is first in its class. effect: mean and quantiles of the coefficient times its column's sd,
    in log odds or in sds of the target.
    """
    flat = beta.reshape(*beta.shape[:2], -1)
    found = ess.summary(flat)
    low, high = np.quantile(flat, INTERVAL, axis=(0, 1))
    mean, sd = flat.mean(axis=(0, 1)), flat.std(axis=(0, 1), ddof=1)
    effect = 1.0 / Scales.of(layout).factor
    names, width = layout.names, len(layout.names)
    levels = (layout.target.levels or [])[1:] if layout.task == "classes" else [""]
    order = [k * width + d for k in range(len(levels)) for d in (width - 1, *range(width - 1))]
    return [
        {
            "class": levels[i // width],
            "coefficient": names[i % width],
            "mean": float(mean[i]),
            "sd": float(sd[i]),
            "q03": float(low[i]),
            "q97": float(high[i]),
            "ess_bulk": float(found.bulk[i]),
            "ess_tail": float(found.tail[i]),
            "rhat": float(found.rhat[i]),
            **(
                {}
                if names[i % width] == INTERCEPT
                else {
                    f"effect_{key}": float(value[i] * effect[i % width])
                    for key, value in (("mean", mean), ("q03", low), ("q97", high))
                }
            ),
        }
        for i in order
    ]


def agreed(rows: list[dict[str, Any]]) -> bool:
    """Whether every coefficient has R-hat below RHAT and a bulk ESS of at least ESS."""
    return all(row["rhat"] < RHAT and row["ess_bulk"] >= ESS for row in rows)


def write(
    path: Path, beta: np.ndarray, cells: Sequence[StoredCell], layout: Layout, attrs: dict[str, Any]
) -> None:
    """All chains in one netCDF tree: posterior with beta by name, and sample_stats."""
    first = int(cells[0].info["burn_in"])
    thin = int(cells[0].info["thin"])
    chains = [cell.seed for cell in cells]
    dims = ["chain", "draw", "coefficient"]
    coords: dict[str, Any] = {
        "chain": chains,
        "draw": np.arange(beta.shape[1]) * thin + first + thin - 1,
        "coefficient": layout.names,
    }
    if beta.ndim == 4:
        dims.insert(2, "class")
        coords["class"] = (layout.target.levels or [])[1:]
    stats = {}
    for name in _STATS:
        values = []
        for cell in cells:
            with cell.tree() as tree:
                group: Any = tree["sample_stats"]
                values.append(np.array(group[name].values[0][thin - 1 :: thin]))
        stats[name] = (["chain", "draw"], np.stack(values))
    steps = {key: coords[key] for key in ("chain", "draw")}
    tree = xarray.DataTree.from_dict(
        {
            "/": xarray.Dataset(attrs=attrs),
            "/posterior": xarray.Dataset({"beta": (dims, beta)}, coords),
            "/sample_stats": xarray.Dataset(stats, steps),
        }
    )
    with files.replacing(path) as temporary:
        files.reserve(path.parent, int(1.2 * beta.nbytes) + (1 << 20))
        tree.to_netcdf(temporary, engine="h5netcdf")
