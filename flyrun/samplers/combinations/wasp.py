"""WASP (Srivastava, Li & Dunson 2018), of distributions that differ in place and scale: their barycentre.

Of subposteriors whose likelihood is raised to J. In the distance W₂ the barycentre of N(μ_j, C_j) is
N(mean μ_j, K), K = mean over j of (K^½ C_j K^½)^½ (Agueh & Carlier 2011); every shard's draws are
transported to it (Álvarez-Esteban et al. 2016).
"""

import numpy as np

from flyrun.config.sampler.combinations import Wasp
from flyrun.samplers.combinations.moments import covariances, root, transport

LABEL, MOMENTS = "WASP", False
_ITERATIONS, _CLOSE = 200, 1e-10


def combine(draws: np.ndarray, config: Wasp, rng: np.random.Generator) -> np.ndarray:
    """(T, P) of draws (J, T, P): of each shard T/J."""
    n_shards = len(draws)
    every = covariances(draws)
    wanted, centre = barycentre(every), draws.mean(axis=(0, 1))
    made = np.empty(draws.shape[1:])
    for j, theirs in enumerate(draws):
        turn = transport(every[j], wanted)
        made[j::n_shards] = centre + (theirs[j::n_shards] - theirs.mean(axis=0)) @ turn
    return made


def barycentre(covariances: np.ndarray) -> np.ndarray:
    """K, (P, P), of C_j, (J, P, P), by the fixed point of Álvarez-Esteban et al."""
    found = covariances.mean(axis=0)
    for _ in range(_ITERATIONS):
        half = root(found)
        back = np.linalg.inv(half)
        mean = np.mean([root(half @ one @ half) for one in covariances], axis=0)
        new = back @ mean @ mean @ back
        if np.abs(new - found).max() <= _CLOSE * np.abs(found).max():
            return new
        found = new
    return found
