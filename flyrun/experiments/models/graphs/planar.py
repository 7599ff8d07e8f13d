"""The Ising model of a lattice in closed form: Kac and Ward's determinant (1952), free borders.

Z = 2ⁿ (cosh β)^E det(I − W)^½ with W over directed edges, W_ef = tanh(β) e^{iα/2} where f begins where e
ends and is not its reverse, α the angle turned there. The mean of s_i s_j over neighbours is ∂ log Z/∂β /
E.
"""

import functools
from typing import Any

import numpy as np

from flyrun.experiments.data.lattice import lattice_edges

MOST_VARIABLES = 500


def of_lattice(dataset: Any, model: Any) -> float | None:
    """E s_i s_j of neighbours of an Ising model on a lattice; None of others, and of those too large."""
    if (dataset.name, model.name) != ("lattice", "ising"):
        return None
    n = dataset.rows * dataset.columns
    return pair_correlation(dataset.rows, dataset.columns, model.beta) if 1 < n <= MOST_VARIABLES else None


@functools.cache  # arms share their lattice; of 500 variables it takes seconds
def pair_correlation(rows: int, columns: int, beta: float) -> float:
    """Mean of E s_i s_j over pairs of nearest neighbours, energies β s_i s_j."""
    ends = lattice_edges(rows, columns)
    ends = np.concatenate([ends, ends[:, ::-1]])
    place = np.stack(np.divmod(ends, columns), axis=-1).astype(float)  # edges, ends, coordinates
    way = place[:, 1] - place[:, 0]
    angle = np.arctan2(way[:, 1], way[:, 0])
    turned = angle[None, :] - angle[:, None]
    turned -= 2.0 * np.pi * np.round(turned / (2.0 * np.pi))
    follows = (ends[:, None, 1] == ends[None, :, 0]) & (ends[:, None, 0] != ends[None, :, 1])
    tanh, n_directed = np.tanh(beta), len(ends)
    weights = np.where(follows, tanh * np.exp(0.5j * turned), 0.0)
    trace = np.trace(np.linalg.inv(np.eye(n_directed) - weights)).real
    return float(tanh - (1.0 - tanh**2) / tanh * (trace - n_directed) / n_directed)
