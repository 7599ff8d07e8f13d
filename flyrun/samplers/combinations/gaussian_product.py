"""The product of the Gaussians with the shards' moments (Angelino, Johnson & Adams 2016, Algorithm 13)."""

import numpy as np

from flyrun.config.sampler.combinations import GaussianProduct
from flyrun.samplers.combinations.moments import product

LABEL, MOMENTS = "Gaussian product", True


def combine(draws: np.ndarray, config: GaussianProduct, rng: np.random.Generator) -> np.ndarray:
    """(T, P) of draws (J, T, P)."""
    return product(draws).draws(rng, draws.shape[1])
