"""Weights of particles: normalised, the root of the covariance that they make, steps that keep them even."""

from collections.abc import Callable

import numpy as np
from scipy.special import softmax

from flyrun.ground.errors import FlyrunError
from flyrun.ground.numerics.resampling import effective


def normalised(log_weight: np.ndarray, step: int, remedy: str) -> np.ndarray:
    """Weights that sum to 1, (m,). FlyrunError, of this step, where none is above 0 or one is no number."""
    top = log_weight.max()
    if np.isfinite(top):
        return softmax(log_weight)
    what = "the weights are not numbers" if np.isnan(top) else f"all {len(log_weight):,} weights are zero"
    if top == np.inf:
        what = "a weight is infinite"
    raise FlyrunError(f"step {step:,}: {what}; {remedy}")


def root_of(theta: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """R, (P, P), with R Rᵀ the weighted particles' covariance, definite or not."""
    away = theta - weight @ theta
    values, vectors = np.linalg.eigh((away.T * weight) @ away)
    return vectors * np.sqrt(np.maximum(values, 0.0))


def longest(
    log_weight: Callable[[float], np.ndarray], low: float, high: float, floor: float, halvings: int
) -> float:
    """Longest step from low to high whose weights (m,) leave `floor` effective particles, by bisection."""

    def enough(step: float) -> bool:
        after = log_weight(step)
        weight = np.exp(after - after.max())
        return effective(weight / weight.sum()) >= floor

    if enough(high):
        return high
    for _ in range(halvings):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if enough(middle) else (low, middle)
    return low
