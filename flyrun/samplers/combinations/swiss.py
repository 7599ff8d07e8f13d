"""SwISS (Vyner, Nemeth & Sherlock 2023): every shard's draws, stretched and moved to the product's moments.

A_j takes N(μ_j, C_j) to the Gaussian product's N(m, P⁻¹) without turning more than it must; all draws are
pooled, so that what is no Gaussian in a shard's shape is kept.
"""

import numpy as np

from flyrun.config.sampler.combinations import Swiss
from flyrun.samplers.combinations.moments import covariances, product, transport

LABEL, MOMENTS = "SwISS", False


def combine(draws: np.ndarray, config: Swiss, rng: np.random.Generator) -> np.ndarray:
    """(T, P) of draws (J, T, P): of each shard T/J, at random."""
    n_shards, n_draws, size = draws.shape
    target = product(draws)
    wanted = np.linalg.inv(target.precision)
    made = np.empty((n_draws, size))
    for j, (theirs, covariance) in enumerate(zip(draws, covariances(draws), strict=True)):
        away = theirs[j::n_shards] - theirs.mean(axis=0)
        made[j::n_shards] = target.mean + away @ transport(covariance, wanted)
    return made
