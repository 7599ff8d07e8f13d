"""What methods of particles do with log weights: effective number, resampling, expectations."""

from collections.abc import Callable

import numpy as np
from scipy.special import softmax

from flyrun.errors import FlyrunError

_BLOCK_BYTES = 16 << 20


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


def expectations(
    functionals: Callable[[np.ndarray], dict[str, np.ndarray]], theta: np.ndarray, weight: np.ndarray
) -> dict[str, np.ndarray]:
    """E f by name under particles (m, P) with weights (m,), some particles at a time."""
    widest = max(values[0].size for values in functionals(theta[:1]).values())
    rows = max(1, _BLOCK_BYTES // (24 * widest))
    total: dict[str, np.ndarray] = {}
    for low in range(0, len(theta), rows):
        for name, values in functionals(theta[low : low + rows]).items():
            part = np.tensordot(weight[low : low + rows], values, axes=1)
            total[name] = total[name] + part if name in total else part
    return total
