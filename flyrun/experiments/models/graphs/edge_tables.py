"""A complete graph whose every edge has a D × D table of its own, worked out at each look instead of stored.

5·10⁷ edges (n = 10,000) with stored tables would fill 40 GB. Here the entry of edge (i, j), i < j, at values
(a, b) is a number mixed from the edge's own number and k = (a − b) mod D, as a hash table mixes its keys:

    φ/M = α·1[k = 0] + (1 − α)·U_ij(k),   U_ij(k) of 16 bits, as good as uniform and independent,

so there is nothing to count and no row to share: plain Gibbs has to look at every edge at every value, D·Δ
looks. What looks it does make cost it least: they run along a row, eight or more at once in vector registers
and without waiting for memory. A shift of all values changes no energy: marginals are uniform.
"""

from typing import Any, NamedTuple

import numpy as np

from flyrun.experiments.config import model as options
from flyrun.experiments.models.graphs import graph as graphs
from flyrun.ground.numerics.compiled import implements, jit

TOP = 65_535  # shares are whole multiples of 1/TOP: sums of them are exact, in any order
_WORD = 0xFFFFFFFF
_EDGE, _VALUE = 0x9E3779B1, 0x85EBCA77


class EdgeTables(NamedTuple):
    """ζ(x) = mass · Σ_{i<j} share_ij(x_i, x_j)."""

    n: int
    n_values: int
    seed: int
    noise: int  # (1 − α)·2¹⁶
    agree: int  # what k = 0 adds, of TOP
    mass: float  # M, the same for every edge
    bounds: graphs.Bounds


def edge_tables(n: int, n_values: int, local: float, agreement: float, seed: int) -> EdgeTables:
    """Complete graph of n variables with L = local, α = agreement."""
    noise = round((1.0 - agreement) * (TOP + 1))
    agree = TOP - (TOP * noise >> 16)
    sizes, degree = np.full(n, n_values), np.full(n, n - 1)
    bounds = graphs.make_bounds(sizes, degree, np.full(n, float(local)), 0.5 * n * local, False, False)
    return EdgeTables(n, n_values, seed * 0xC2B2AE35 & _WORD, noise, agree, local / (n - 1), bounds)


def bind(config: options.EdgeTables, data: Any) -> EdgeTables:
    """Model of a CompleteGraph."""
    return edge_tables(data.n, config.n_values, config.local, config.agreement, config.seed)


@jit
def _level(word, k, noise, agree):
    """share·TOP of the edge with this word at k: two rounds of multiply and shift (murmur's finish)."""
    h = (word + k * _VALUE) & _WORD
    h ^= h >> 16
    h = (h * 0x7FEB352D) & _WORD
    h ^= h >> 15
    h = (h * 0x846CA68B) & _WORD
    return ((h >> 16) * noise >> 16) + (agree if k == 0 else 0)


@jit
def _share(graph, i, j, x_i, x_j):
    """φ/M of the edge between i and j at values x_i, x_j."""
    if i < j:
        word, k = (i * graph.n + j) * _EDGE + graph.seed, x_i - x_j
    else:
        word, k = (j * graph.n + i) * _EDGE + graph.seed, x_j - x_i
    return _level(word & _WORD, k + graph.n_values if k < 0 else k, graph.noise, graph.agree) / TOP


@jit
def _sum_along(values, word, step, n_values, noise, agree, u, sign):
    """Σ share·TOP over edges whose words begin at `word` and go up by `step`: k = sign·(u − values) mod D."""
    total = 0
    for j in range(values.shape[0]):  # a slice, counted from 0: only so does it run in vector registers
        k = sign * (u - int(values[j]))
        k += n_values if k < 0 else 0
        total += _level((word + j * step) & _WORD, k, noise, agree)
    return total


@jit
def _later(graph, i, x, u):
    """Σ share·TOP over the edges of i to later variables, at x_i = u."""
    word = ((i * graph.n + i + 1) * _EDGE + graph.seed) & _WORD
    return _sum_along(x[i + 1 :], word, _EDGE, graph.n_values, graph.noise, graph.agree, u, 1)


@jit
def _energy(graph, i, x, u):
    """Σ share·TOP over all edges of i, at x_i = u."""
    word, step = (i * _EDGE + graph.seed) & _WORD, (graph.n * _EDGE) & _WORD
    earlier = _sum_along(x[:i], word, step, graph.n_values, graph.noise, graph.agree, u, -1)
    return earlier + _later(graph, i, x, u)


@implements(graphs.local_energies, EdgeTables)
def _local_energies(graph, i, x, energies):
    for u in range(graph.n_values):
        energies[u] = graph.mass * (_energy(graph, i, x, u) / TOP)


@implements(graphs.energy_change, EdgeTables)
def _energy_change(graph, i, x, u):
    return graph.mass * ((_energy(graph, i, x, u) - _energy(graph, i, x, int(x[i]))) / TOP)


@implements(graphs.total_energy, EdgeTables)
def _total_energy(graph, x):
    total = 0
    for i in range(graph.n - 1):
        total += _later(graph, i, x, int(x[i]))
    return graph.mass * (total / TOP)


implements(graphs.expect_factor, EdgeTables)(lambda graph, f: None)


@implements(graphs.factor_share, EdgeTables)
def _factor_share(graph, f, x, i, u):
    # edges by how far apart their ends are round a ring: found from f without a list of them
    a = f % graph.n
    b = (a + f // graph.n + 1) % graph.n
    return _share(graph, a, b, u if a == i else int(x[a]), u if b == i else int(x[b]))


@implements(graphs.current_share, EdgeTables)
def _current_share(graph, i, r, x):
    j = graphs.other_end(i, r)
    return _share(graph, i, j, int(x[i]), int(x[j]))


@implements(graphs.add_share, EdgeTables)
def _add_share(graph, i, r, x, amount, energies):
    j = graphs.other_end(i, r)
    for u in range(graph.n_values):
        energies[u] += amount * _share(graph, i, j, u, int(x[j]))


@implements(graphs.add_log_share, EdgeTables)
def _add_log_share(graph, i, r, x, boost, top, energies):
    j = graphs.other_end(i, r)
    for u in range(graph.n_values):
        energies[u] += np.log1p(boost * _share(graph, i, j, u, int(x[j])))


implements(graphs.visits, EdgeTables)(lambda graph, i: graph.n_values)


@implements(graphs.rows, EdgeTables)
def _rows(graph):
    # one number, seen n(n − 1) times: no memory
    return np.arange(graph.n + 1) * (graph.n - 1), np.broadcast_to(graph.mass, graph.n * (graph.n - 1))


@implements(graphs.factor_masses, EdgeTables)
def _factor_masses(graph):
    return np.broadcast_to(graph.mass, graph.n * (graph.n - 1) // 2)
