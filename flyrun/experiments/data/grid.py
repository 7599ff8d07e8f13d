"""Variables on a square grid, every pair interacting: A_ij = exp(−γ d_ij²) (De Sa et al. 2018, app. B)."""

from typing import NamedTuple

import numpy as np

from flyrun.experiments.config import dataset as options
from flyrun.experiments.data.lattice import lattice_edges
from flyrun.ground.archive import no_file as fingerprint  # noqa: F401


class Grid(NamedTuple):
    """weight: (n, n), the kernel.  ends: (E, 2) int32, pairs of nearest neighbours."""

    n: int
    weight: np.ndarray
    ends: np.ndarray


def load(config: options.graph_data.Grid) -> Grid:
    """Grid of side × side variables with kernel exp(−gamma·d²)."""
    return Grid(config.side**2, gaussian_kernel(config.side, config.gamma), grid_edges(config.side))


def gaussian_kernel(side: int, gamma: float) -> np.ndarray:
    """(n, n) of A_ij, n = side², variable i at (i // side, i % side); diagonal 0, far pairs underflow."""
    row, column = np.divmod(np.arange(side * side), side)
    squared = (row[:, None] - row) ** 2 + (column[:, None] - column) ** 2
    kernel = np.exp(-gamma * squared)
    np.fill_diagonal(kernel, 0.0)
    return kernel


def grid_edges(side: int) -> np.ndarray:
    """(F, 2) int32, F = 2·side·(side − 1): the pairs of nearest neighbours."""
    return lattice_edges(side, side).astype(np.int32)
