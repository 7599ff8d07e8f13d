"""Means and covariances of shards' draws, and those of the product of such Gaussians."""

from typing import NamedTuple

import numpy as np

from flyrun.ground.errors import FlyrunError


class Gaussian(NamedTuple):
    """N(mean, precision⁻¹)."""

    mean: np.ndarray  # (P,)
    precision: np.ndarray  # (P, P)

    def draws(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """(n, P)."""
        root = np.linalg.cholesky(self.precision)
        return self.mean + np.linalg.solve(root.T, rng.standard_normal((len(self.mean), n))).T


def covariances(draws: np.ndarray) -> np.ndarray:
    """C_j, (J, P, P), of draws (J, T, P). FlyrunError where there are too few to have an inverse."""
    n_draws, size = draws.shape[1:]
    if n_draws <= size + 1:
        raise FlyrunError(
            f"{n_draws:,} draws of a shard have no covariance of {size} coordinates with an inverse; raise "
            "protocol.iterations"
        )
    away = draws - draws.mean(axis=1, keepdims=True)
    covariance = np.einsum("jtp,jtq->jpq", away, away, optimize=True) / (n_draws - 1)
    if (stuck := np.linalg.matrix_rank(covariance, hermitian=True) < size).any():
        raise FlyrunError(
            f"the draws of shard {int(np.argmax(stuck))} have not moved in every direction; raise "
            "protocol.iterations or protocol.burn_in"
        )
    return covariance


def product(draws: np.ndarray) -> Gaussian:
    """Of the Gaussians N(μ_j, C_j) of draws (J, T, P): precision Σ C_j⁻¹, mean that⁻¹ Σ C_j⁻¹ μ_j.

    As the inverse of a sample's covariance is too large by (T − 1)/(T − P − 2), so is the precision.
    """
    inverses = np.linalg.inv(covariances(draws))
    precision = inverses.sum(axis=0)
    return Gaussian(
        np.linalg.solve(precision, np.einsum("jpq,jq->p", inverses, draws.mean(axis=1))), precision
    )


def root(matrix: np.ndarray) -> np.ndarray:
    """The symmetric root of a symmetric matrix, (P, P), that has no negative eigenvalue."""
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T


def transport(given: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """The symmetric A, (P, P), with A·given·A = wanted: what moves draws least to another covariance."""
    half = root(given)
    back = np.linalg.inv(half)
    return back @ root(half @ wanted @ half) @ back
