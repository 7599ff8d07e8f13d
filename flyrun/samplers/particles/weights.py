"""Normalised weights of particles."""

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
