"""Ising model: φ_ij = β A_ij (s_i s_j + 1), s = ±1 (De Sa et al. 2018, §2).

With x = (s + 1)/2 in {0, 1} this is w_ij·1[x_i = x_j], w_ij = 2 β A_ij: a Potts model of two values, of which
one weighted sum gives both local energies. All else is as there.
"""

from typing import Any, NamedTuple

import numpy as np

from flyrun.experiments.config import model as options
from flyrun.experiments.models.graphs import graph as graphs
from flyrun.experiments.models.graphs.pair_factors import Pairs, pair_bounds, pairs_of, weight_of_ones
from flyrun.experiments.models.graphs.potts import Potts
from flyrun.ground.numerics.compiled import implements


class Ising(NamedTuple):
    """ζ(x) = Σ_{i<j} φ_ij; a negative weight repels, see pair_factors.py."""

    pairs: Pairs
    field: np.ndarray  # (n,): Σ_j w_ij
    bounds: graphs.Bounds


def ising(pairs: Pairs, n: int) -> Ising:
    """Ising model of n variables over the given pairs, of weights w_ij = 2 β A_ij."""
    field = np.bincount(pairs.ends.ravel(), np.repeat(pairs.strength, 2), minlength=n)
    return Ising(pairs, field, pair_bounds(pairs, n, 2))


def bind(config: options.Ising, data: Any) -> Ising:
    """Model with w_ij = 2·config.beta·A_ij, from a Grid or Edges."""
    return ising(pairs_of(data, 2.0 * config.beta), data.n)


@implements(graphs.local_energies, Ising)
def _local_energies(graph, i, x, energies):
    ones = weight_of_ones(graph.pairs, i, x)
    repulsion = graph.pairs.repulsion[i]
    energies[0] = repulsion + graph.field[i] - ones
    energies[1] = repulsion + ones


@implements(graphs.energy_change, Ising)
def _energy_change(graph, i, x, u):
    change = 0.0
    if u != x[i]:
        change = (u - x[i]) * (2.0 * weight_of_ones(graph.pairs, i, x) - graph.field[i])
    return change


# what Potts has and is not written here is as there
for _function in vars(graphs).values():
    _bodies = getattr(_function, "methods", {})
    if Potts in _bodies and Ising not in _bodies:
        implements(_function, Ising)(_bodies[Potts])
