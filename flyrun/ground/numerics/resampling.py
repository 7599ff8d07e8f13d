"""Unweighted draws in place of weighted ones."""

import numpy as np


def effective(weight: np.ndarray) -> float:
    """Effective number 1/Σ w² of weights (M,) that sum to 1; some may be negative."""
    return float(1.0 / (weight @ weight))


def systematic(rng: np.random.Generator, weight: np.ndarray, m: int) -> np.ndarray:
    """Indices of m ancestors, (m,): each m times its weight often, up to one (Carpenter et al. 1999)."""
    ends = np.cumsum(weight)
    places = (rng.random() + np.arange(m)) / m * ends[-1]
    return np.minimum(np.searchsorted(ends, places, side="right"), len(weight) - 1)


def unweighted(log_weight: np.ndarray, sign: np.ndarray | None) -> np.ndarray:
    """Indices, (n,), of as many draws (M,) as are effective, in random order, the same whenever asked.

    A draw of negative weight cannot stand for itself: it takes its weight from all the others alike.
    """
    weight = np.exp(log_weight - log_weight.max())
    signed = weight if sign is None else sign * weight
    if not signed.sum() > 0:
        return np.empty(0, np.int64)
    count = max(1, int(effective(signed / signed.sum())))
    rng = np.random.Generator(np.random.PCG64(0))
    return rng.permutation(systematic(rng, np.maximum(signed, 0.0), count))
