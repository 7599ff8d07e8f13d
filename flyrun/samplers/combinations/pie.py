"""PIE (Li, Srivastava & Dunson 2017): quantiles of a coordinate, averaged over shards.

Of subposteriors whose likelihood is raised to J, each as wide as the posterior. It says nothing of how
coordinates go together: their order is that of the first shard's draws.
"""

import numpy as np

from flyrun.config.sampler.combinations import Pie

LABEL, MOMENTS = "PIE", False


def combine(draws: np.ndarray, config: Pie, rng: np.random.Generator) -> np.ndarray:
    """(T, P) of draws (J, T, P)."""
    quantiles = np.sort(draws, axis=1).mean(axis=0)
    ranks = draws[0].argsort(axis=0).argsort(axis=0)
    return np.take_along_axis(quantiles, ranks, axis=0)
