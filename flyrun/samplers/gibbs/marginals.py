"""Running marginals of a chain on a graph, kept lazily: an update costs O(1), whatever n and D.

A variable's count of its current value is not raised at every update but when it changes, by the time since.
"""

from math import sqrt
from typing import NamedTuple

import numpy as np

from flyrun.numerics.compiled import jit


class Marginals(NamedTuple):
    """How often each variable had each value, over the states after updates 1 … t."""

    counts: np.ndarray  # (n, D) int64, without the current stay of each variable at its value
    since: np.ndarray  # (n,) int64: the first of the states of that stay
    others: np.ndarray  # (n,) int64: sum of squared counts over the values other than the current one


def no_marginals(n: int, n_values: int) -> Marginals:
    """Before the first update."""
    return Marginals(np.zeros((n, n_values), np.int64), np.ones(n, np.int64), np.zeros(n, np.int64))


@jit
def note_change(marginals, i, before, after, t):
    """Variable i went from `before` to another value `after` in update t = 1, 2, …"""
    counts = marginals.counts[i]
    counts[before] += t - marginals.since[i]
    marginals.since[i] = t
    marginals.others[i] += counts[before] ** 2 - counts[after] ** 2


@jit
def distance_to_uniform(marginals, sizes, x, t):
    """Mean over variables of the ℓ2 distance between running marginal and uniform, after t updates. O(n)."""
    total = 0.0
    for i in range(x.shape[0]):
        stay = float(marginals.counts[i, x[i]] + t - marginals.since[i] + 1)
        square = (marginals.others[i] + stay * stay) / (float(t) * float(t))
        total += sqrt(max(0.0, square - 1.0 / sizes[i]))
    return total / x.shape[0]
