"""The Gaussian that has the posterior's slope and curvature on average: the optimum of Gaussian variational
inference.

N(m, S) with E∇log p = 0 and S⁻¹ = −E∇²log p, expectations under itself (Opper & Archambeau 2009, eqs. 16 and
17), by iterating m ← m + S·E∇log p, S⁻¹ ← −E∇²log p. A likelihood with one predictor sees θ through η_n = xᵀθ
alone, a Gaussian number, over which expectations are Gauss–Hermite sums. With more of them slopes are
averaged over antithetic draws of θ, and S stays.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr, roots_hermitenorm

from flyrun.models import passes
from flyrun.models.base import Penalty
from flyrun.models.problem import Problem, posterior_curvature

POINTS = 16  # of a quadrature: as many queries of a datum
PAIRS = 60  # of draws, where there is no quadrature


class GaussianFit(NamedTuple):
    """N(mean, inverse of precision), and the likelihood queries that it took."""

    mean: np.ndarray  # (P,)
    precision: np.ndarray  # (P, P)
    queries: int


def gaussian_fit(arm: Any, problem: Problem, steps: int) -> GaussianFit:
    """So many steps from the MAP and the curvature there; with none it is the Laplace approximation."""
    mean, precision = problem.fit.theta_map, posterior_curvature(arm, problem)
    n_data, penalty = len(problem.features.rows), arm.prior.code.penalty(problem.prior)
    queries, single = n_data, problem.model.n_predictors == 1
    for step in range(steps):
        covariance = np.linalg.inv(precision)
        slope, bend = _of_prior(penalty, mean, np.sqrt(np.diag(covariance)))
        if single:
            by_data, curved = _by_quadrature(arm.model.code, problem, mean, covariance)
            precision = curved + np.diag(bend)
        else:
            by_data = _by_draws(arm.model.code, problem, mean, covariance, step)
        queries += n_data * (POINTS if single else 2 * PAIRS)
        mean = mean + covariance @ (slope + by_data)
    return GaussianFit(mean, precision, queries)


def _of_prior(penalty: Penalty, mean: np.ndarray, sd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(P,) each: E ∂ log prior, and −E ∂² of it, of independent coordinates."""
    at = mean / sd
    density = np.exp(-0.5 * at**2) / np.sqrt(2 * np.pi) / sd
    return (
        -penalty.ridge * mean - penalty.rate * (2 * ndtr(at) - 1),
        penalty.ridge + 2 * penalty.rate * density,
    )


def _by_quadrature(
    module: Any, problem: Problem, mean: np.ndarray, covariance: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """E ∇ Σ log L_n, (P,), and −E ∇² of it, (P, P)."""
    nodes, weights = roots_hermitenorm(POINTS)
    weights = weights / weights.sum()

    def work(block: slice) -> tuple[np.ndarray, np.ndarray]:
        rows, part = problem.features.rows[block].astype(np.float64), module.part(problem.model, block)
        centre, sd = rows @ mean, np.sqrt(np.einsum("nd,nd->n", rows @ covariance, rows))
        slope, bend = np.zeros(len(rows)), np.zeros(len(rows))
        for node, weight in zip(nodes, weights, strict=True):
            eta = (centre + node * sd)[:, None]
            slope += weight * passes.slopes(part, eta)[:, 0]
            bend += weight * module.curvature(part, eta)[:, 0, 0]
        return slope @ rows, rows.T @ (rows * bend[:, None])

    slope, curved = passes.added(passes.over_blocks(len(problem.features.rows), work))
    return slope, (curved + curved.T) / 2


def _by_draws(
    module: Any, problem: Problem, mean: np.ndarray, covariance: np.ndarray, step: int
) -> np.ndarray:
    noise = np.random.default_rng(step).standard_normal((PAIRS, len(mean)))
    away = noise @ np.linalg.cholesky(covariance).T
    at = np.concatenate([mean + away, mean - away])
    each = [passes.slope(module, problem.model, problem.features, theta)[1] for theta in at]
    return np.mean(each, axis=0)
