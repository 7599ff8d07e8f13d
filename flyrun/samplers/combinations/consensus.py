"""Consensus Monte Carlo (Scott et al. 2016): weighted averages of the shards' draws, one of each.

Angelino, Johnson & Adams (2016), Algorithm 12, mended: the sample covariance C_j of a subposterior's draws
has the prior's 1/J inside already (eq. 4.12), so that weights are Σ C_j⁻¹, Σ⁻¹ = Σ_j C_j⁻¹. As printed,
with the prior's precision added to Σ⁻¹, the prior counts twice.
"""

import numpy as np

from flyrun.config.sampler.combinations import Consensus
from flyrun.samplers.combinations.moments import covariances

LABEL, MOMENTS = "Consensus", False


def combine(draws: np.ndarray, config: Consensus, rng: np.random.Generator) -> np.ndarray:
    """(T, P) of draws (J, T, P)."""
    weights = _weights(config.weights, covariances(draws))
    total = np.einsum("jpq,jtq->tp", weights, draws)
    return np.linalg.solve(weights.sum(axis=0), total.T).T


def _weights(kind: str, covariance: np.ndarray) -> np.ndarray:
    """(J, P, P), up to a factor of all."""
    eye = np.eye(covariance.shape[1])
    if kind == "uniform":
        return np.broadcast_to(eye, covariance.shape)
    if kind == "scalar":
        return eye / np.trace(covariance, axis1=1, axis2=2)[:, None, None]
    if kind == "diagonal":
        return eye / np.diagonal(covariance, axis1=1, axis2=2)[:, None, :]
    return np.linalg.inv(covariance)
