"""Draws of even weight from weighted ones.

Systematic resampling takes each draw as often as its share of all weight says, up to one time more or less
(Kitagawa 1996). It keeps the order, so that copies of a draw follow one another and a chain's autocorrelation
tells of them. It serves weights that are unbiased estimates too; draws of negative weight are left out.
"""

import numpy as np

CHAINS = 4
_LENGTH = 1_000  # of a chain


def resampled(weights: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Indices, (CHAINS, T), into draws of these weights, (S,)."""
    below = np.cumsum(np.maximum(weights, 0.0))
    at = (rng.random() + np.arange(CHAINS * _LENGTH)) * (below[-1] / (CHAINS * _LENGTH))
    which = np.minimum(np.searchsorted(below, at, side="right"), len(weights) - 1)
    return which.reshape(CHAINS, _LENGTH)


def effective(which: np.ndarray) -> float:
    """How many draws of even weight are worth what these indices (C, T), copies among them, are."""
    counts = np.unique(which, return_counts=True)[1].astype(float)
    return float(counts.sum() ** 2 / (counts**2).sum())
