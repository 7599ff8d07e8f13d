"""What methods of particles do with log weights: their effective number, resampling."""

import numpy as np
from scipy.special import softmax

from flyrun.errors import FlyrunError


def normalised(log_weight: np.ndarray, step: int, remedy: str) -> np.ndarray:
    """Weights that sum to 1, (m,). FlyrunError, of this step, where none is above 0 or one is no number."""
    top = log_weight.max()
    if np.isfinite(top):
        return softmax(log_weight)
    what = "the weights are not numbers" if np.isnan(top) else f"all {len(log_weight):,} weights are zero"
    if top == np.inf:
        what = "a weight is infinite"
    raise FlyrunError(f"step {step:,}: {what}; {remedy}")


def effective(weight: np.ndarray) -> float:
    """Effective number 1/Σ w² of weights that sum to 1."""
    return float(1.0 / (weight @ weight))


def systematic(rng: np.random.Generator, weight: np.ndarray, m: int) -> np.ndarray:
    """Indices of m ancestors, (m,): each m times its weight often, up to one (Carpenter et al. 1999)."""
    ends = np.cumsum(weight)
    places = (rng.random() + np.arange(m)) / m * ends[-1]
    return np.minimum(np.searchsorted(ends, places, side="right"), len(weight) - 1)
