"""The running marginals that a chain's lazily kept counts stand for."""

import numpy as np


def marginal_probabilities(marginals, x, t):
    """(n, D): the running marginals after t ≥ 1 updates."""
    counts = marginals.counts.astype(np.float64)
    counts[np.arange(len(x)), x] += t - marginals.since + 1
    return counts / t
