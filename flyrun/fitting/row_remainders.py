"""What rows' log likelihoods are beyond their second order about a point: few rows are drawn by these."""

import numpy as np

from flyrun.fitting.proposal import Mixture
from flyrun.fitting.rows_posterior import Expansion, Posterior

_PROBES = 6  # points at which remainders of all rows are looked at
_LEAST_SHARE = 0.02  # of a row's chance, by the mean's


def probes(proposal: Mixture, rng: np.random.Generator) -> np.ndarray:
    """Points (n, P) at which remainders of all rows are looked at."""
    return proposal.centre + rng.standard_normal((_PROBES, len(proposal.centre))) @ proposal.root.T


def shares(
    posterior: Posterior, likelihood: Expansion, x: np.ndarray, whole: bool
) -> tuple[np.ndarray, float]:
    """Each row's chance, (N,), by its remainder's size at points x (n, P), and κ, the sum of these sizes.

    whole: whether a row's part that is `alone` is in its remainder.
    """
    both = np.concatenate([likelihood.at[None], x])

    def square_of(block: slice) -> np.ndarray:
        rows = posterior.rows.take(block)
        # points before rows, so that all are looked at in one call: threads that call often get in each
        # other's way
        p = [eta.T.copy() if eta.ndim > 1 else eta[:, None] for eta in posterior.predictors(rows, both)]
        at, there = [eta[0] for eta in p], [eta[1:] for eta in p]
        slopes, curvatures = posterior.row_derivatives(rows, at, whole)
        left = posterior.of_rows(rows, there, whole) - posterior.of_rows(rows, at, whole)
        return ((left - _second_order(slopes, curvatures, at, there)) ** 2).sum(axis=0)

    square = np.concatenate(list(posterior.by_blocks(square_of, 4_096)))
    size = np.sqrt(square / len(x))
    kappa = float(size.sum())
    if not kappa > 0.0:
        return np.full(len(size), 1.0 / len(size)), 0.0
    size = size + _LEAST_SHARE * size.mean()
    return size / size.sum(), kappa


def remainders(
    posterior: Posterior, at: np.ndarray, picked: np.ndarray, x: np.ndarray, whole: bool
) -> np.ndarray:
    """Log likelihoods (m,) of picked rows at x (m, P), a row of it each, beyond second order about `at`.

    whole: as of `shares`.
    """
    rows = posterior.rows.take(picked)
    centre = [eta[:, 0] if eta.ndim > 1 else eta[0] for eta in posterior.predictors(rows, at[None])]
    there = posterior.predictors_each(rows, x)
    slopes, curvatures = posterior.row_derivatives(rows, centre, whole)
    left = posterior.of_rows(rows, there, whole) - posterior.of_rows(rows, centre, whole)
    return left - _second_order(slopes, curvatures, centre, there)


def _second_order(slopes: list, curvatures: list, at: list, there: list) -> np.ndarray:
    away = [b - a for a, b in zip(at, there, strict=True)]
    total = np.zeros(())
    for j, step in enumerate(away):
        rise = slopes[j] - 0.5 * curvatures[j][j] * step
        for k in range(j + 1, len(away)):
            rise = rise - curvatures[j][k] * away[k]
        total = total + rise * step
    return total
