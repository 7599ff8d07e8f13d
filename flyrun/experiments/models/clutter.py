"""Numbers about a mean, a share of which is clutter: y_n ~ (1 − w)N(η_n, 1) + wN(0, v), w and v known.

Minka (2001), §3.2.1, whose θ is η of all data. With r_n the probability that y_n is no clutter, by Jensen
log L_n ≥ r log[(1 − w)N(y; η, 1)/r] + (1 − r) log[wN(y; 0, v)/(1 − r)] for any r: a parabola in η that
touches where r is the probability at that place. Maximising the sum of them is an EM step.
"""

from math import log, pi
from typing import NamedTuple

import numpy as np
from scipy.special import expit, xlogy

from flyrun.experiments.models.features import Linear
from flyrun.experiments.models.likelihood import bent, log_bound, log_likelihood
from flyrun.experiments.models.likelihood import part as part
from flyrun.ground.numerics.compiled import implements
from flyrun.ground.numerics.vector_math import exp_negative, log1p_unit

LOG_CONCAVE = False
_HALF_LOG_2_PI = 0.5 * log(2.0 * pi)


class Clutter(NamedTuple):
    """(1 − share)·N(y; η, 1) + share·N(y; 0, variance) at each datum."""

    target: np.ndarray  # y, (N,)
    share: float
    variance: float
    log_own: float  # log(1 − share) and the normaliser of N(y; η, 1)
    log_clutter: np.ndarray  # log[share·N(y; 0, variance)], (N,)
    n_predictors: int = 1


class ByJensen(NamedTuple):
    """One parabola in η for each datum."""

    curve: np.ndarray  # (N, 2): log B = curve[n, 0] − ½·curve[n, 1]·(y − η)²


def bind(
    features: np.ndarray, target: np.ndarray, share: float = 0.5, variance: float = 10.0
) -> tuple[Clutter, Linear]:
    """Model and features of a dataset. features: (N, D), kept as they are; target: (N,)."""
    values = np.ascontiguousarray(target, dtype=np.float64)
    log_clutter = log(share) - 0.5 * (log(variance) + values**2 / variance) - _HALF_LOG_2_PI
    model = Clutter(values, float(share), float(variance), log(1.0 - share) - _HALF_LOG_2_PI, log_clutter)
    return model, Linear(np.ascontiguousarray(features))


def rebind(model: Clutter, features: np.ndarray, target: np.ndarray) -> tuple[Clutter, Linear]:
    """The same likelihood for other rows, (n, D)."""
    return bind(features, target, model.share, model.variance)


@implements(log_likelihood, Clutter)
def _log_likelihood(model, index, eta, values, slopes):
    for i in range(index.shape[0]):
        away = model.target[index[i]] - eta[i, 0]
        # cut where the square would overflow; the last term keeps NaN what is NaN
        signal = model.log_own - 0.5 * min(away * away, 1e300)
        clutter = model.log_clutter[index[i]]
        small = exp_negative(-abs(signal - clutter))
        values[i] = max(signal, clutter) + log1p_unit(small) + 0.0 * away
        if slopes is not None:
            slopes[i, 0] = (1.0 if signal > clutter else small) / (1.0 + small) * away


@implements(log_bound, ByJensen)
def _log_bound(bound, model, index, eta, values, slopes):
    for i in range(index.shape[0]):
        n = index[i]
        away = model.target[n] - eta[i, 0]
        values[i] = bound.curve[n, 0] - 0.5 * bound.curve[n, 1] * away * away
        if slopes is not None:
            slopes[i, 0] = bound.curve[n, 1] * away


def responsibility(model: Clutter, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """r_n, (n,), of the best q(z_n = no clutter) where η_n has mean (n, 1) and variance (n, 1, 1)."""
    return expit(_own(model, mean, variance) - model.log_clutter)


def _own(model: Clutter, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    return model.log_own - 0.5 * ((model.target - mean[:, 0]) ** 2 + variance[:, 0, 0])


def augmented(
    model: Clutter, mean: np.ndarray, variance: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """T, (n, 1, 1), and ν, (n, 1), of exp E_q(z) log p(y, z | η), q(z_n) best for η_n as given.

    And the bound there, E log p(y, z | η) and the entropy of q(z), (n,).
    """
    share = responsibility(model, mean, variance)
    value = np.logaddexp(_own(model, mean, variance), model.log_clutter)
    return share[:, None, None], (share * model.target)[:, None], value


def tight_at(model: Clutter, residuals: np.ndarray) -> ByJensen:
    """The bounds that touch the likelihoods at y − η = ±residuals, (N,)."""
    signal = model.log_own - 0.5 * np.asarray(residuals, dtype=np.float64) ** 2
    share = expit(signal - model.log_clutter)
    entropy = -xlogy(share, share) - xlogy(1.0 - share, 1.0 - share)
    height = share * model.log_own + (1.0 - share) * model.log_clutter + entropy
    return ByJensen(np.stack([height, share], axis=1))


def untuned_bound(model: Clutter, features: Linear, xi: float) -> ByJensen:
    """Tight at the same residual ξ for every datum."""
    return tight_at(model, np.full(len(model.target), xi))


def map_bound(model: Clutter, predictors: np.ndarray) -> ByJensen:
    """Bounds tight at the residuals at θ_MAP. predictors: θ_MAPᵀx_n, (N, 1)."""
    return tight_at(model, model.target - predictors[:, 0])


def lower(bound: ByJensen, by: np.ndarray) -> None:
    """Put the bounds lower, in place, by so much of the log density each, (N,)."""
    bound.curve[:, 0] -= by


def curvature(model: Clutter, predictors: np.ndarray) -> np.ndarray:
    """−∂² log L_n/∂η² = r − r(1 − r)(y − η)², (N, 1, 1), at (N, 1): negative where y may be either."""
    square = (model.target - predictors[:, 0]) ** 2
    share = expit(model.log_own - 0.5 * square - model.log_clutter)
    return (share - share * (1.0 - share) * square)[:, None, None]


def expected_pseudo_likelihood(model: Clutter, predictors: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """E L̃_n, (N,), for bounds tight at predictors, (N, 1), when η_n varies by variance, (N, 1, 1).

    To second order in η: the bound's curvature exceeds the likelihood's by r(1 − r)(y − η)².
    """
    share = tight_at(model, model.target - predictors[:, 0]).curve[:, 1]
    beyond = share - curvature(model, predictors)[:, 0, 0]
    return 0.5 * beyond * variance[:, 0, 0]


implements(bent, ByJensen)(lambda bound, model, block: bound.curve[block, 1])
