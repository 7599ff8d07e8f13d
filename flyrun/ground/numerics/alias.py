"""Draws from fixed unequal probabilities in O(1): alias tables (Walker 1977, built as Vose 1991).

With one table per row and a Poisson total, a vector of independent Poisson numbers is drawn in the time of
its sum, not of its length (De Sa et al. 2018, §3): total ~ Poisson(Σ rates), then that many draws of the row.
"""

from typing import NamedTuple

import numpy as np

from flyrun.ground.numerics.compiled import implements, inlined, jit, outer_jit


class Alias(NamedTuple):
    """One table per row; place r of a row is kept with probability share, else its alias is taken."""

    first: np.ndarray  # (R + 1,) int64: where each row begins
    share: np.ndarray  # (E,) in [0, 1]
    other: np.ndarray  # (E,) int32: place in the row


class Even(NamedTuple):
    """Rows of which every place has the same probability: no table is needed."""

    first: np.ndarray  # (R + 1,) int64


def alias_rows(first: np.ndarray, masses: np.ndarray) -> Alias | Even:
    """Tables of rows with probabilities ∝ masses, (E,), each row from first[r] to first[r + 1]."""
    first = np.ascontiguousarray(first, np.int64)
    if masses.strides == (0,):  # one number seen often (np.broadcast_to), too often to be written out
        return Even(first)
    masses = np.ascontiguousarray(masses, np.float64)
    if _is_even(first, masses):
        return Even(first)
    share, other = np.ones(len(masses)), np.zeros(len(masses), np.int32)
    _build(first, masses, share, other)
    return Alias(first, share, other)


def alias_table(masses: np.ndarray) -> Alias | Even:
    """One row, of masses (n,)."""
    return alias_rows(np.array([0, len(masses)]), masses)


@jit
def _is_even(first, masses):
    for row in range(first.shape[0] - 1):
        for k in range(first[row] + 1, first[row + 1]):
            if masses[k] != masses[first[row]]:
                return False
    return True


@outer_jit
def _build(first, masses, share, other):
    """Vose's pairing of places below the row's mean with places above it."""
    longest = 0
    for row in range(first.shape[0] - 1):
        longest = max(longest, first[row + 1] - first[row])
    stack = np.empty(longest, np.int64)  # places below the mean from the left, the others from the right
    for row in range(first.shape[0] - 1):
        start, size = first[row], first[row + 1] - first[row]
        total = 0.0
        for r in range(size):
            total += masses[start + r]
        if total <= 0.0:
            continue
        n_small, n_large = 0, 0
        for r in range(size):
            share[start + r] = masses[start + r] * (size / total)
            if share[start + r] < 1.0:
                stack[n_small] = r
                n_small += 1
            else:
                n_large += 1
                stack[size - n_large] = r
        while n_small > 0 and n_large > 0:
            n_small -= 1
            small, large = stack[n_small], stack[size - n_large]
            other[start + small] = large
            share[start + large] -= 1.0 - share[start + small]
            if share[start + large] < 1.0:
                n_large -= 1
                stack[n_small] = large
                n_small += 1
        # what is left on either side is 1 but for rounding
        for k in range(n_small):
            share[start + stack[k]] = 1.0
        for k in range(n_large):
            share[start + stack[size - 1 - k]] = 1.0


@inlined
def pick(table, rng, row):
    """A place of the row, drawn by its probability. The row must not be empty."""


@implements(pick, Alias)
def _pick_alias(table, rng, row):
    start = table.first[row]
    size = table.first[row + 1] - start
    # One uniform serves twice: its whole part names a place, the rest decides between it and its alias.
    scaled = rng.random() * size
    place = min(int(scaled), size - 1)
    # Both are read before one is taken: a wrong guess, found out when memory answers, would cost far more.
    other = int(table.other[start + place])
    return place if scaled - place < table.share[start + place] else other


@implements(pick, Even)
def _pick_even(table, rng, row):
    size = table.first[row + 1] - table.first[row]
    return min(int(rng.random() * size), size - 1)
