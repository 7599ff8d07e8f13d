"""Draws of even weight from weighted ones, by independence Metropolis-Hastings over them.

A chain walks through weighted draws in the order in which they were made and goes to the next one with
probability min(1, w'/w): its draws follow the posterior, whose weights may be unbiased estimates (Andrieu &
Roberts 2009). What comes first is left out, and begins at a draw taken by weight.
"""

import numpy as np

CHAINS = 4
_LEFT_OUT = 0.2  # of each chain
_MOST = 1_000  # draws of a chain that are kept, evenly spaced; up to twice as many


def walk(log_weight: np.ndarray, sign: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Indices, (CHAINS, T), into weighted draws of log weights (S,) and these signs."""
    usable = np.where(sign > 0, log_weight, -np.inf)
    each = len(usable) // CHAINS
    weights = np.exp(usable - usable.max())
    here = rng.choice(len(usable), CHAINS, p=weights / weights.sum())
    way = np.arange(CHAINS * each).reshape(CHAINS, each)
    luck = np.log(rng.random((CHAINS, each)))
    found = np.empty((CHAINS, each), dtype=np.int64)
    for step in range(each):
        there = way[:, step]
        here = np.where(luck[:, step] < usable[there] - usable[here], there, here)
        found[:, step] = here
    kept = found[:, int(_LEFT_OUT * each) :]
    return kept[:, :: max(1, kept.shape[1] // _MOST)]
