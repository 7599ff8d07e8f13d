"""The shape of importance weights' tail: Pareto's k̂ (Vehtari, Simpson, Gelman, Yao & Gabry 2024)."""

import math

import numpy as np

FEWEST = 30
"""A tail, a fifth of the weights, has six at least: ArviZ 1.x finds no k̂ of five, where 0.8 did."""

HEAVY = 0.7
"""From such a k̂ on sums of weights mislead."""

_LARGE = 0.001


def heavy(k_hat: float, largest: float = 1.0) -> bool:
    """Whether weights are not to be trusted; largest: the largest one over the sum of all.

    Where most weights are alike to the digit, as of draws that read no data, k̂ is of the few others.
    """
    return k_hat > HEAVY and largest > _LARGE


def pareto_k(log_weight: np.ndarray) -> float:
    """k̂ of log weights (n,): below 0.5 their variance is finite, above HEAVY sums of them mislead.

    NaN of fewer than FEWEST, and where the largest are all the same, as after resampling: they have no tail.
    """
    if len(log_weight) < FEWEST:
        return math.nan
    from arviz_stats.base import array_stats  # late: a second

    # ArviZ's is made for leave-one-out, and takes the logarithm of one over the weight.
    try:
        with np.errstate(all="ignore"):  # weights that are all but even, or one that is all
            return float(array_stats.psislw(-np.asarray(log_weight, np.float64))[1])
    except ValueError:  # "All tail values are the same"
        return math.nan
