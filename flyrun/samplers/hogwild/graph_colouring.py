"""Classes of variables no two of which share a factor: drawn at once, they are drawn as one after another."""

from typing import Any

import numpy as np

from flyrun.errors import ConfigError
from flyrun.numerics.compiled import jit


def classes(graph: Any, n: int) -> list[np.ndarray]:
    """Variables by colour, each (size,) int64, coloured greedily in their order: two classes for a lattice.

    graph: one of listed pairs (models/graphs/pair_factors.py). ConfigError where every pair has a factor, so
    that each class is one variable.
    """
    if not hasattr(graph.pairs, "first"):
        raise ConfigError(
            "sampler=chromatic: every pair of variables has a factor, so none can be drawn at once; choose "
            "sampler=gibbs, or dataset=lattice"
        )
    colour = np.full(n, -1, np.int64)
    seen = np.full(int(graph.bounds.degree.max(initial=0)) + 2, -1, np.int64)
    _colour(graph.pairs.first, graph.pairs.neighbour, colour, seen)
    return [np.flatnonzero(colour == one) for one in range(int(colour.max(initial=0)) + 1)]


@jit
def _colour(first, neighbour, colour, seen):
    """The least colour that no neighbour has. seen: (D + 2,), the last variable with a neighbour of it."""
    for i in range(colour.shape[0]):
        for k in range(first[i], first[i + 1]):
            if colour[neighbour[k]] >= 0:
                seen[colour[neighbour[k]]] = i
        c = 0
        while seen[c] == i:
            c += 1
        colour[i] = c
