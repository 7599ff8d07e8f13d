"""A rectangle of variables, nearest neighbours interacting with weight 1, nothing beyond the border."""

import numpy as np

from flyrun.experiments.config import dataset as options
from flyrun.experiments.data.edge_list import Edges
from flyrun.ground.archive import no_file as fingerprint  # noqa: F401


def load(config: options.graph_data.Lattice) -> Edges:
    """rows × columns variables, variable i at (i // columns, i % columns)."""
    ends = lattice_edges(config.rows, config.columns)
    return Edges(config.rows * config.columns, ends, np.ones(len(ends)))


def lattice_edges(rows: int, columns: int) -> np.ndarray:
    """(E, 2) int64: pairs of nearest neighbours."""
    number = np.arange(rows * columns).reshape(rows, columns)
    across = np.stack([number[:, :-1].ravel(), number[:, 1:].ravel()], axis=1)
    down = np.stack([number[:-1].ravel(), number[1:].ravel()], axis=1)
    return np.concatenate([across, down])
