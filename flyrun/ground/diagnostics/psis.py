"""The shape of importance weights' tail: Pareto's k̂ (Vehtari, Simpson, Gelman, Yao & Gabry 2024)."""

import math

import numpy as np
from scipy.special import softmax

FEWEST = 30
"""A tail, a fifth of the weights, has six at least: ArviZ 1.x finds no k̂ of five, where 0.8 did."""

HEAVY = 0.7
"""From such a k̂ on sums of weights mislead."""

EVEN = 2.0
"""Times the mean weight, up to which the largest is one among many, whatever k̂ is: it knows no size."""

_LARGE = 0.001


def heavy(k_hat: float, largest: float = 1.0, n: float = math.inf) -> bool:
    """Whether weights are not to be trusted; largest: the largest one over the sum of all n.

    Where most weights are alike to the digit, as of draws that read no data, k̂ is of the few others. Weights
    whose k̂ is not known are trusted where they are even.
    """
    return not k_hat <= HEAVY and not largest <= max(_LARGE, EVEN / n)


def pareto_k(log_weight: np.ndarray) -> float:
    """k̂ of log weights (n,): below 0.5 their variance is finite, above HEAVY sums of them mislead.

    NaN of fewer than FEWEST, and where the largest are all the same, as after resampling: they have no tail.
    Infinite where a few weights are all, so that the others have no digits beside them.
    Tail and fit as in ArviZ's `psislw`, which takes a second to import.
    """
    n = len(log_weight)
    if n < FEWEST:
        return math.nan
    ordered = np.sort(np.asarray(log_weight, np.float64))
    ordered = ordered - ordered[-1]
    size = int(3 * math.sqrt(n)) if n > 225 else n // 5
    tail, below = ordered[-size:], ordered[-size - 1]
    if not tail[-1] - tail[0] >= np.finfo(float).tiny:
        return math.nan
    with np.errstate(all="ignore"):  # weights that are all but even, or one that is all
        return _shape_of(np.exp(tail) - math.exp(below))


def _shape_of(excess: np.ndarray) -> float:
    """k of a generalised Pareto, of a tail's ordered excess (n,) over a threshold (Zhang & Stephens 2009)."""
    n = len(excess)
    m = 30 + int(n**0.5)
    b = 1 - np.sqrt(m / (np.arange(1, m + 1) - 0.5))
    b = b / (3 * excess[int(n / 4 + 0.5) - 1]) + 1 / excess[-1]
    k = np.log1p(-b[:, None] * excess).mean(axis=1)
    level = n * (np.log(-b / k) - k - 1)
    weight = softmax(level)
    kept = weight >= 10 * np.finfo(float).eps
    centre = (b[kept] * weight[kept]).sum() / weight[kept].sum()
    mean = np.log1p(-centre * excess).mean()
    shape = float((n * mean + 10 * 0.5) / (n + 10))  # a prior about 1/2, as ten more draws
    return shape if math.isfinite(shape) else math.inf
