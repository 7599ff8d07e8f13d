"""Scale of Student-t noise by maximum likelihood, its coefficients fitted along with it.

EM for the t distribution (Lange, Little & Taylor 1989): weights w = (ν+1)/(ν+r²/σ²), weighted least squares;
the variance by its parameter-expanded version (Liu, Rubin & Wu 1998), σ² ← Σ w·r² / Σ w, in a third as many
passes.
"""

import numpy as np

from flyrun.experiments.models.passes import ROWS, added, over_blocks
from flyrun.ground.errors import ConfigError

_ROUNDS = 1000
_ENOUGH = 1e-6
_NOTHING = 1e-12  # a variance so far below the target's is on its way to 0
_FIRST_BLOCKS = 16


def noise_scale(features: np.ndarray, target: np.ndarray, nu: float) -> tuple[float, int]:
    """σ̂ of target = θᵀx + σ·t_ν, (N, D) and (N,), and the likelihood queries spent: N a pass over N rows.

    BLAS is to be pinned to one thread by the caller. Raises ConfigError where the likelihood has no maximum
    in σ: it rises without end as σ → 0 where nearly all rows lie on one plane, or for a tiny ν.
    """
    blocks = range(0, len(target), ROWS)
    theta, variance, queries = np.zeros(features.shape[1]), float(np.var(target)) or 1.0, 0
    if len(blocks) > 4 * _FIRST_BLOCKS:  # some rows from all over the table find the neighbourhood
        few = blocks[:: len(blocks) // _FIRST_BLOCKS]
        parts = [(features[first : first + ROWS], target[first : first + ROWS]) for first in few]
        rows, aim = (np.concatenate(part) for part in zip(*parts, strict=True))
        theta, variance, queries = _fitted(rows, aim, nu, theta, variance)
    _, variance, more = _fitted(features, target, nu, theta, variance)
    return float(np.sqrt(variance)), queries + more


def _fitted(
    features: np.ndarray, target: np.ndarray, nu: float, theta: np.ndarray, variance: float
) -> tuple[np.ndarray, float, int]:
    """θ̂, (D,), σ̂² and queries from a start, in one pass over the rows (N, D) a round."""
    n_data, size = features.shape
    least = _NOTHING * (float(np.var(target)) or 1.0)

    def sums(block: slice) -> tuple[np.ndarray, np.ndarray, float, float]:
        rows, aim = features[block].astype(np.float64), target[block]
        square = (aim - rows @ theta) ** 2
        weight = (nu + 1.0) / (nu + square / variance)
        weighted = rows * weight[:, None]
        return rows.T @ weighted, aim @ weighted, float(weight @ square), float(weight.sum())

    for number in range(1, _ROUNDS + 1):
        gram, pulled, squares, weights = added(over_blocks(n_data, sums))
        # the residuals are those of the round before, so that both are settled only where neither moves
        before, variance = variance, squares / weights
        if not variance > least:
            break
        old, theta = theta, np.linalg.solve(gram + 1e-9 * n_data * np.eye(size), pulled)
        moved = np.abs(theta - old).max() / np.sqrt(variance)
        if abs(variance / before - 1.0) < _ENOUGH and moved < _ENOUGH * 100:
            return theta, variance, number * n_data
    raise ConfigError(
        f"model.scale=estimated: the noise's scale has no maximum likelihood value at model.nu={nu:g}: the "
        "likelihood rises without end as it goes to 0, as where nearly all rows lie on one plane, or nu is "
        "too small for so few rows; give a number, such as model.scale=0.1 (in sds of the target)"
    )
