"""The semiparametric product (Neiswanger, Wang & Xing 2014, §3.3): a Gaussian, and kernels for the rest.

Weights are kernel_product's times N(ȳ | m, P⁻¹ + h²/J)/Π_j N(y_j | μ_j, C_j), components
N((J/h² + P)⁻¹(J/h²·ȳ + P·m), (J/h² + P)⁻¹): where shards are Gaussian all weights are nearly alike.
"""

import numpy as np

from flyrun.config.sampler.combinations import Semiparametric
from flyrun.samplers.combinations.kernel_product import shards_of, walked

LABEL, MOMENTS = "Semiparametric product", False


def combine(draws: np.ndarray, config: Semiparametric, rng: np.random.Generator) -> np.ndarray:
    """(T, P) of draws (J, T, P)."""
    return walked(shards_of(draws, True), rng)[0]
