"""Potts model: φ_ij = w_ij·1[x_i = x_j] over D values (De Sa et al. 2018, §3; β·A_ij there is w_ij)."""

from typing import Any, NamedTuple

import numpy as np

from flyrun.experiments.config import model as options
from flyrun.experiments.models.graphs import graph as graphs
from flyrun.experiments.models.graphs.pair_factors import (
    Pairs,
    bin_weights,
    neighbour_of,
    pair_bounds,
    pair_rows,
    pair_share,
    pairs_of,
    weight_difference,
    weight_of,
)
from flyrun.ground.numerics.compiled import implements


class Potts(NamedTuple):
    """ζ(x) = Σ_{i<j} φ_ij; a negative weight repels, see pair_factors.py."""

    pairs: Pairs
    bounds: graphs.Bounds


def potts(pairs: Pairs, n: int, n_values: int) -> Potts:
    """Potts model of n variables with D = n_values over the given pairs."""
    return Potts(pairs, pair_bounds(pairs, n, n_values))


def bind(config: options.Potts, data: Any) -> Potts:
    """Model of config.n_values values with w_ij = config.beta·A_ij, from a Grid or Edges."""
    return potts(pairs_of(data, config.beta), data.n, config.n_values)


@implements(graphs.local_energies, Potts)
def _local_energies(graph, i, x, energies):
    repulsion = graph.pairs.repulsion[i]
    for u in range(graph.bounds.sizes[i]):
        energies[u] = repulsion
    bin_weights(graph.pairs, i, x, energies)


@implements(graphs.energy_change, Potts)
def _energy_change(graph, i, x, u):
    return weight_difference(graph.pairs, i, x, u, x[i]) if u != x[i] else 0.0


@implements(graphs.total_energy, Potts)
def _total_energy(graph, x):
    pairs, total = graph.pairs, 0.0
    for f in range(pairs.strength.shape[0]):
        strength = pairs.strength[f]
        total += abs(strength) * pair_share(strength, x[pairs.ends[f, 0]] == x[pairs.ends[f, 1]])
    return total


implements(graphs.expect_factor, Potts)(lambda graph, f: None)


@implements(graphs.factor_share, Potts)
def _factor_share(graph, f, x, i, u):
    a, b = graph.pairs.ends[f, 0], graph.pairs.ends[f, 1]
    x_a = u if a == i else np.int64(x[a])
    x_b = u if b == i else np.int64(x[b])
    return pair_share(graph.pairs.strength[f], x_a == x_b)


@implements(graphs.current_share, Potts)
def _current_share(graph, i, r, x):
    same = x[i] == x[neighbour_of(graph.pairs, i, r)]
    if graph.bounds.exclusive:  # no weight is negative: no need to look this one up
        return 1.0 if same else 0.0
    return pair_share(weight_of(graph.pairs, i, r), same)


@implements(graphs.add_share, Potts)
def _add_share(graph, i, r, x, amount, energies):
    # One look at the neighbour. A repelling pair is active for every other value: less the same for all, that
    # is -amount at this one.
    if graph.bounds.exclusive or weight_of(graph.pairs, i, r) >= 0.0:
        energies[x[neighbour_of(graph.pairs, i, r)]] += amount
    else:
        energies[x[neighbour_of(graph.pairs, i, r)]] -= amount


@implements(graphs.add_log_share, Potts)
def _add_log_share(graph, i, r, x, boost, top, energies):
    graphs.add_share(graph, i, r, x, top, energies)


implements(graphs.visits, Potts)(lambda graph, i: 1)
implements(graphs.rows, Potts)(lambda graph: pair_rows(graph.pairs, graph.bounds.sizes.shape[0]))
implements(graphs.factor_masses, Potts)(lambda graph: np.abs(graph.pairs.strength))
