"""Hogwild Gibbs of a Gaussian in closed form (Johnson, Saunderson & Willsky 2013).

𝒥 = B − A, B block diagonal over processors, L the lower triangles of its blocks with their diagonal D. One
local sweep is x ← Gx + L⁻¹(h − 𝒥_IO x_O) + N(0, S), G = I − L⁻¹B, S = L⁻¹DL⁻ᵀ. A round of q sweeps:

    x' = Mx + e,  M = G^q + (Σ_{k<q} G^k) L⁻¹A,  Cov e = Σ_{k<q} G^k S G^kᵀ.

Its mean is exact (Proposition 7.6.1); it is stable if and only if ρ(M) < 1.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_discrete_lyapunov, solve_triangular


class Parts(NamedTuple):
    """𝒥 = blocks − cross, and what a round does."""

    blocks: np.ndarray  # B
    cross: np.ndarray  # A
    step: np.ndarray  # M
    noise: np.ndarray  # Cov e


def round_of(precision: np.ndarray, owner: np.ndarray, sweeps: int) -> Parts:
    """M and Cov e, (n, n), of `sweeps` local sweeps; 0 for infinitely many, draws of blocks given others."""
    blocks = np.where(owner[:, None] == owner, precision, 0.0)
    cross = blocks - precision
    if not sweeps:
        inverse = np.linalg.inv(blocks)
        return Parts(blocks, cross, inverse @ cross, inverse)
    lower = np.tril(blocks)
    inverse = solve_triangular(lower, np.eye(len(owner)), lower=True)
    sweep = np.eye(len(owner)) - inverse @ blocks
    once = (inverse * np.diag(precision)) @ inverse.T
    power, total, noise = np.eye(len(owner)), np.zeros_like(lower), np.zeros_like(lower)
    for _ in range(sweeps):
        total += power
        noise += power @ once @ power.T
        power = power @ sweep
    return Parts(blocks, cross, power + total @ inverse @ cross, noise)


def radius(matrix: np.ndarray) -> float:
    """ρ, the largest modulus of the eigenvalues of (n, n)."""
    return float(np.abs(np.linalg.eigvals(matrix)).max())


def dominance(precision: np.ndarray) -> float:
    """ρ(|I − D^{−½}𝒥D^{−½}|): below 1 where 𝒥 (n, n) is generalised diagonally dominant (Theorem 7.6.6)."""
    scale = np.sqrt(np.diag(precision))
    return radius(np.abs(np.eye(len(scale)) - precision / np.outer(scale, scale)))


def covariance(parts: Parts) -> np.ndarray:
    """Σ_hog = MΣMᵀ + Cov e, (n, n), of a stable round."""
    solution = solve_discrete_lyapunov(parts.step, parts.noise)
    return 0.5 * (solution + solution.T)


def corrected(parts: Parts, hogwild: np.ndarray) -> np.ndarray:
    """(I + B⁻¹A)Σ_hog, (n, n): the covariance itself where sweeps were infinitely many (Prop. 7.7.4)."""
    product = hogwild + np.linalg.solve(parts.blocks, parts.cross @ hogwild)
    return 0.5 * (product + product.T)


def mean_error(parts: Parts, hogwild: np.ndarray, rounds: int) -> np.ndarray:
    """(n,): standard errors of the mean over so many rounds, many more than a chain's memory."""
    rest = np.linalg.solve(np.eye(len(hogwild)) - parts.step, hogwild)
    return np.sqrt(np.diag(rest + rest.T - hogwild) / rounds)


def off(estimate: np.ndarray, exact: np.ndarray) -> float:
    """‖estimate − exact‖ / ‖exact‖, Frobenius, of (n, n)."""
    return float(np.linalg.norm(estimate - exact) / np.linalg.norm(exact))
