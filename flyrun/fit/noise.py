"""Scale of Student-t noise by maximum likelihood, its coefficients fitted along with it.

EM for the t distribution (Lange, Little & Taylor 1989): weights w = (ν+1)/(ν+r²), weighted least squares,
then σ² ← mean of w·(σr)².
"""

from __future__ import annotations

import numpy as np

from flyrun.models.passes import added, over_blocks

_ROUNDS = 200
_ENOUGH = 1e-6


def noise_scale(features: np.ndarray, target: np.ndarray, nu: float) -> float:
    """σ̂ of target = θᵀx + σ·t_ν, (N, D) and (N,). BLAS is to be pinned to one thread by the caller."""
    n_data, size = features.shape
    theta: np.ndarray = np.zeros(size)
    variance = float(np.var(target)) or 1.0

    def weighted(block: slice) -> tuple[np.ndarray, np.ndarray]:
        rows = features[block].astype(np.float64)
        weight = (nu + 1.0) / (nu + (target[block] - rows @ theta) ** 2 / variance)
        return rows.T @ (rows * weight[:, None]), rows.T @ (weight * target[block])

    def squares(block: slice) -> tuple[float]:
        square = (target[block] - features[block].astype(np.float64) @ theta) ** 2
        return (float((square * (nu + 1.0) / (nu + square / variance)).sum()),)

    for _ in range(_ROUNDS):
        gram, pulled = added(over_blocks(n_data, weighted))
        theta = np.linalg.solve(gram + 1e-9 * n_data * np.eye(size), pulled)
        before, variance = variance, max(added(over_blocks(n_data, squares))[0] / n_data, 1e-12)
        if abs(variance / before - 1.0) < _ENOUGH:
            break
    return float(np.sqrt(variance))
