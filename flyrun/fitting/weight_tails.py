"""What tails of weights and draws leave in doubt: k̂ of log weights, and errors of variances."""

import math

import numpy as np

from flyrun.ground.diagnostics.psis import pareto_k

_EVEN = 0.01  # variance of log weights up to which they are even, and their tail is noise of subsampling
# draws, or one of a thousand, that hold more than this share of a variance decide it
_FEW, _MOST_OF = 5, 0.5


def shape(log_weight: np.ndarray) -> float:
    """k̂ of log weights (S,); of weights whose largest are alike, which have no tail, −∞."""
    k_hat = pareto_k(np.where(np.isfinite(log_weight), log_weight, log_weight.max() - 1e4))
    return -math.inf if math.isnan(k_hat) else k_hat


def shape_by_halves(sums: list[np.ndarray], wide: np.ndarray) -> float:
    """k̂ of log weights each of which two independent halves of its rows estimate, (S,) each.

    The halves' covariance is the variance of the log weights without the noise of subsampling, to which their
    mean is shrunk: the noise's own tail says nothing of the proposal. −∞ where weights are even.
    """
    first, second = (values[~wide] for values in sums)
    variance = float(np.mean((first - first.mean()) * (second - second.mean())))
    if variance < _EVEN:
        return -math.inf
    both = 0.5 * (first + second)
    both = both - both.mean()
    return shape(both * math.sqrt(min(1.0, variance / both.var())))


def few_decide(parts: np.ndarray) -> np.ndarray:
    """Of each number, (P,), whether few draws hold most of its variance, whose parts are these, (S, P)."""
    few = max(_FEW, len(parts) // 1_000)
    if len(parts) <= few:
        return np.zeros(parts.shape[1], bool)
    largest = np.partition(parts, -few, axis=0)[-few:].sum(axis=0)
    return np.asarray(largest > _MOST_OF * parts.sum(axis=0))


def errors_of_variances(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The relative standard error of each number's variance, (P,), by draws x (S, P) of weights (S,), sum 1.

    0 where few draws decide, for no sd is told then.
    """
    away = (x - weights @ x) ** 2
    variance = weights @ away
    error = np.sqrt(weights**2 @ (away - variance) ** 2) / np.maximum(variance, 1e-300)
    return np.where(few_decide(weights[:, None] * away), 0.0, error)
