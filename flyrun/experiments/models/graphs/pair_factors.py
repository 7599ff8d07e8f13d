"""Pairwise factors w·1[x_i = x_j], the stuff of Ising and Potts models: a full matrix or compressed rows.

A negative weight stands for |w|·1[x_i ≠ x_j] = |w| + w·1[x_i = x_j], so that every factor is at least 0 and
all factors are two-valued: M = |w|. A graph of n variables whose every pair has a factor is stored as a
matrix: without a list of neighbours to look up, its row is read at the speed of the memory.
"""

from typing import Any, NamedTuple

import numpy as np

from flyrun.experiments.models.graphs.graph import Bounds, make_bounds, other_end
from flyrun.ground.numerics.compiled import dot_jit, implements, inlined, jit


class DensePairs(NamedTuple):
    """A factor for every pair."""

    weight: np.ndarray  # (n, n), symmetric, 0 on the diagonal
    repulsion: np.ndarray  # (n,): Σ |w| over the negative weights of each variable
    ends: np.ndarray  # (F, 2) int32: the pair of each factor, i < j
    strength: np.ndarray  # (F,): its weight


class SparsePairs(NamedTuple):
    """Factors of some pairs."""

    first: np.ndarray  # (n + 1,) int64: where each variable's row begins
    neighbour: np.ndarray  # (2F,) int32
    weight: np.ndarray  # (2F,)
    repulsion: np.ndarray  # (n,)
    ends: np.ndarray  # (F, 2) int32
    strength: np.ndarray  # (F,)


Pairs = DensePairs | SparsePairs


def dense_pairs(weight: np.ndarray) -> DensePairs:
    """All pairs, from a symmetric (n, n) matrix of which the diagonal is not used."""
    weight = np.array(weight, np.float64)
    np.fill_diagonal(weight, 0.0)
    ends = np.stack(np.triu_indices(len(weight), 1), axis=1)
    strength = weight[ends[:, 0], ends[:, 1]]
    return DensePairs(weight, np.maximum(-weight, 0.0).sum(axis=1), ends.astype(np.int32), strength)


def sparse_pairs(n: int, ends: np.ndarray, strength: np.ndarray) -> SparsePairs:
    """Factors of the listed pairs, (F, 2), among n variables."""
    ends = np.ascontiguousarray(ends, np.int32).reshape(-1, 2)
    strength = np.ascontiguousarray(strength, np.float64)
    owner = ends.T.ravel()
    order = np.argsort(owner, kind="stable")
    first = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=n))])
    neighbour = ends[:, ::-1].T.ravel()[order]
    repulsion = np.bincount(owner, np.tile(np.maximum(-strength, 0.0), 2), minlength=n)
    return SparsePairs(first, neighbour, np.tile(strength, 2)[order], repulsion, ends, strength)


def pairs_of(data: Any, scale: float) -> Pairs:
    """Factors with the data's weights times `scale`: of every pair for a Grid, of those listed for Edges."""
    if data.weight.ndim == 2:
        return dense_pairs(scale * data.weight)
    return sparse_pairs(data.n, data.ends, scale * data.weight)


def pair_bounds(pairs: Pairs, n: int, n_values: int) -> Bounds:
    """Bounds of a graph of such factors."""
    sizes = np.full(n, n_values)
    masses = np.abs(pairs.strength)
    local = np.bincount(pairs.ends.ravel(), np.repeat(masses, 2), minlength=n)
    degree = np.bincount(pairs.ends.ravel(), minlength=n)
    return make_bounds(sizes, degree, local, masses.sum(), True, bool((pairs.strength >= 0).all()))


def pair_rows(pairs: Pairs, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of maximum energies: (n + 1,) where each begins, and M of its factors in the order of r."""
    if isinstance(pairs, SparsePairs):
        return pairs.first, np.abs(pairs.weight)
    off_diagonal = ~np.eye(n, dtype=bool)
    return np.arange(n + 1) * (n - 1), np.abs(pairs.weight[off_diagonal])


@inlined
def neighbour_of(pairs, i, r):
    """The other variable of variable i's factor r."""


@inlined
def weight_of(pairs, i, r):
    """The weight of variable i's factor r."""


@inlined
def bin_weights(pairs, i, x, energies):
    """energies[u] += Σ w_ij over the neighbours with x_j = u."""


@inlined
def weight_of_ones(pairs, i, x):
    """Σ w_ij x_j: for two values, the weight of the neighbours at 1."""


@inlined
def weight_difference(pairs, i, x, u, v):
    """Σ w_ij (1[x_j = u] − 1[x_j = v])."""


@jit
def pair_share(strength, same):
    """φ/M of a factor whose variables agree (same) or not."""
    return 1.0 if same == (strength >= 0.0) else 0.0


implements(neighbour_of, DensePairs)(lambda pairs, i, r: other_end(i, r))
implements(weight_of, DensePairs)(lambda pairs, i, r: pairs.weight[i, other_end(i, r)])


@implements(bin_weights, DensePairs)
def _dense_bins(pairs, i, x, energies):
    row = pairs.weight[i]
    for j in range(row.shape[0]):
        energies[x[j]] += row[j]


@dot_jit
def _dot(row, x):
    total = 0.0
    for j in range(row.shape[0]):
        total += row[j] * x[j]
    return total


implements(weight_of_ones, DensePairs)(lambda pairs, i, x: _dot(pairs.weight[i], x))


@dot_jit
def _matching(row, x, u, v):
    total = 0.0
    for j in range(row.shape[0]):
        total += row[j] * (int(x[j] == u) - int(x[j] == v))
    return total


implements(weight_difference, DensePairs)(lambda pairs, i, x, u, v: _matching(pairs.weight[i], x, u, v))
implements(neighbour_of, SparsePairs)(lambda pairs, i, r: pairs.neighbour[pairs.first[i] + r])
implements(weight_of, SparsePairs)(lambda pairs, i, r: pairs.weight[pairs.first[i] + r])


@implements(bin_weights, SparsePairs)
def _sparse_bins(pairs, i, x, energies):
    for k in range(pairs.first[i], pairs.first[i + 1]):
        energies[x[pairs.neighbour[k]]] += pairs.weight[k]


@implements(weight_of_ones, SparsePairs)
def _sparse_ones(pairs, i, x):
    total = 0.0
    for k in range(pairs.first[i], pairs.first[i + 1]):
        total += pairs.weight[k] * x[pairs.neighbour[k]]
    return total


@implements(weight_difference, SparsePairs)
def _sparse_difference(pairs, i, x, u, v):
    total = 0.0
    for k in range(pairs.first[i], pairs.first[i + 1]):
        value = x[pairs.neighbour[k]]
        if value == u:
            total += pairs.weight[k]
        elif value == v:
            total -= pairs.weight[k]
    return total
