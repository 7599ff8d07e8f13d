"""Scale of Student-t noise by maximum likelihood, its coefficients fitted along with it.

EM for the t distribution (Lange, Little & Taylor 1989): weights w = (ν+1)/(ν+r²/σ²), weighted least squares;
the variance by its parameter-expanded version (Liu, Rubin & Wu 1998), σ² ← Σ w·r² / Σ w, in a third as many
passes.
"""

from __future__ import annotations

import numpy as np

from flyrun.models.passes import ROWS, added, over_blocks

_ROUNDS = 200
_ENOUGH = 1e-6
_FIRST_BLOCKS = 16


def noise_scale(features: np.ndarray, target: np.ndarray, nu: float) -> float:
    """σ̂ of target = θᵀx + σ·t_ν, (N, D) and (N,). BLAS is to be pinned to one thread by the caller."""
    blocks = range(0, len(target), ROWS)
    start = np.zeros(features.shape[1]), float(np.var(target)) or 1.0
    if len(blocks) > 4 * _FIRST_BLOCKS:  # some rows from all over the table find the neighbourhood
        few = blocks[:: len(blocks) // _FIRST_BLOCKS]
        parts = [(features[first : first + ROWS], target[first : first + ROWS]) for first in few]
        rows, aim = (np.concatenate(part) for part in zip(*parts, strict=True))
        start = _fitted(rows, aim, nu, *start)
    return float(np.sqrt(_fitted(features, target, nu, *start)[1]))


def _fitted(
    features: np.ndarray, target: np.ndarray, nu: float, theta: np.ndarray, variance: float
) -> tuple[np.ndarray, float]:
    """(θ̂, σ̂²) from a start, in one pass over the rows a round."""
    n_data, size = features.shape

    def sums(block: slice) -> tuple[np.ndarray, np.ndarray, float, float]:
        rows, aim = features[block].astype(np.float64), target[block]
        square = (aim - rows @ theta) ** 2
        weight = (nu + 1.0) / (nu + square / variance)
        weighted = rows * weight[:, None]
        return rows.T @ weighted, aim @ weighted, float(weight @ square), float(weight.sum())

    for _ in range(_ROUNDS):
        gram, pulled, squares, weights = added(over_blocks(n_data, sums))
        # the residuals are those of the round before, so that both are settled only where neither moves
        before, variance = variance, max(squares / weights, 1e-12)
        old, theta = theta, np.linalg.solve(gram + 1e-9 * n_data * np.eye(size), pulled)
        moved = np.abs(theta - old).max() / np.sqrt(variance)
        if abs(variance / before - 1.0) < _ENOUGH and moved < _ENOUGH * 100:
            break
    return theta, variance
