"""How much a posterior depends on its priors: draws reweighted to prior^α and likelihood^α, α near 1.

Kallioinen, Paananen, Bürkner & Vehtari 2023: the cumulative Jensen-Shannon distance between a number's
distribution and the reweighted one, per doubling of α.
"""

import numpy as np

_ALPHA = 1.01
_MATTERS = 0.05  # the distance per doubling from where the paper calls a posterior sensitive
DISAGREE, WEAK = "prior and data disagree", "weak data"


def verdicts(
    values: np.ndarray, weights: np.ndarray, log_prior: np.ndarray, log_likelihood: np.ndarray
) -> list[str]:
    """Of each number: that prior and data disagree, that data are weak, or nothing.

    values: draws (S, P); weights: (S,) of sum 1; log_prior, log_likelihood: (S,), each up to a constant.
    """
    by_prior, by_data = (of_power(values, weights, part) for part in (log_prior, log_likelihood))
    labels = np.where(by_data >= _MATTERS, DISAGREE, WEAK)
    return [str(label) for label in np.where(by_prior >= _MATTERS, labels, "")]


def of_power(values: np.ndarray, weights: np.ndarray, log_part: np.ndarray) -> np.ndarray:
    """The distance per doubling of α of each number, (P,), where a part of the density, (S,), is to the α."""
    total = np.zeros(values.shape[1])
    for alpha in (1.0 / _ALPHA, _ALPHA):
        change = (alpha - 1.0) * log_part
        other = weights * np.exp(change - change.max())
        other /= other.sum()
        total += np.maximum(*(distance(side * values, weights, other) for side in (1.0, -1.0)))
    return total / (2.0 * np.log2(_ALPHA))


def distance(values: np.ndarray, p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """√ of the cumulative Jensen-Shannon divergence, of its largest value, (P,), of draws (S, P).

    p, q: two weightings of the draws, (S,), of sum 1.
    """
    order = np.argsort(values, axis=0)
    width = np.diff(np.take_along_axis(values, order, 0), axis=0)
    a, b = (np.maximum(np.cumsum(weights[order], axis=0)[:-1], 1e-300) for weights in (p, q))
    middle = 0.5 * (a + b)
    apart = (width * (a * np.log2(a / middle) + b * np.log2(b / middle))).sum(axis=0)
    return np.sqrt(np.maximum(apart, 0.0) / np.maximum((width * (a + b)).sum(axis=0), 1e-300))
