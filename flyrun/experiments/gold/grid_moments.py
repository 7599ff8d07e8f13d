"""Moments of one or two coordinates by a sum over a grid, whatever their posterior is like."""

import numpy as np

from flyrun.experiments.config.arm import Arm
from flyrun.experiments.gold.recipe import Moments
from flyrun.experiments.models.problem import Problem, log_densities, posterior_curvature
from flyrun.ground.errors import FlyrunError

BELOW = 45.0  # of the log density: what is lower is left out
_COARSE, _MOST_DOUBLINGS = 101, 12


def weigh(arm: Arm, problem: Problem, points: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Nodes θ (M, P), log weights and log likelihoods (M,), and the log of a cell's volume.

    FlyrunError for more than two coordinates, or where the density has no end.
    """
    modes = problem.fit.modes
    if modes.shape[1] > 2:
        raise FlyrunError(f"by: grid is for one or two coordinates, not {modes.shape[1]}")
    sds = [np.sqrt(np.diag(np.linalg.inv(posterior_curvature(arm, problem, mode)))) for mode in modes]
    reach = np.ptp(modes, axis=0) + 12 * np.max(sds, axis=0)
    for _ in range(_MOST_DOUBLINGS):
        low, high = modes.min(axis=0) - reach, modes.max(axis=0) + reach
        theta, log_weight, _ = _at(arm, problem, low, high, _COARSE)
        inside = theta[log_weight > log_weight.max() - BELOW]
        step = (high - low) / (_COARSE - 1)
        within = inside.min(axis=0) - step, inside.max(axis=0) + step
        if (within[0] >= low).all() and (within[1] <= high).all():
            theta, log_weight, likelihood = _at(arm, problem, *within, points)
            return theta, log_weight, likelihood, float(np.log((within[1] - within[0]) / (points - 1)).sum())
        reach = 2 * reach
    raise FlyrunError("by: grid: the density does not end; take another prior")


def _at(
    arm: Arm, problem: Problem, low: np.ndarray, high: np.ndarray, points: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    axes = [np.linspace(a, b, points) for a, b in zip(low, high, strict=True)]
    theta = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
    prior, likelihood = log_densities(arm, problem, theta)
    return theta, prior + likelihood, likelihood


def moments(theta: np.ndarray, log_weight: np.ndarray, log_cell: float) -> Moments:
    """Of nodes (G, P) by the trapezoidal rule, whose error falls faster than any power where the density
    vanishes at the edges.
    """
    top = log_weight.max()
    weight = np.exp(log_weight - top)
    share = weight / weight.sum()
    mean = share @ theta
    variance = share @ (theta - mean) ** 2
    none = np.zeros_like(mean)
    return Moments(mean, variance, none, none, float(top + np.log(weight.sum()) + log_cell), 0.0)
