"""Zeros in excess of a family's, by two mechanisms; c is the log odds of a zero of this kind.

Inflated: a target is 0 with chance σ(c), else it is drawn from the family, whose zeros remain: with g the
family's log density, log L = log(e^c + e^g) − log(1 + e^c) at 0, g − log(1 + e^c) elsewhere.
Hurdle: a target is 0 with chance σ(c), else it is drawn from the family without its zeros.
The part −log(1 + e^c), and of a hurdle c at 0, depends on c alone.
"""

from collections.abc import Callable

import numpy as np

from flyrun.families.family import Auxiliary
from flyrun.families.prior_densities import LogNormal, Normal
from flyrun.ground.numerics.special import Numbers, choose, sigmoid, softplus

#: of counts' shape: wide on the log scale, so that neither Poisson's counts nor wild ones are excluded
PHI = Auxiliary("phi", LogNormal(2.0, 3.0))
#: of numbers above 0, so that a coefficient of variation of one per cent is as likely as of one
SHAPE = Auxiliary("shape", LogNormal(2.0, 4.0))


def chance(name: str) -> Auxiliary:
    """The chance of such a zero, c's logistic: much of the prior's mass is near none and none is excluded."""
    return Auxiliary(name, Normal(-1.0, 3.0), f"logit_{name}", f"of logit {name}")


def inflated(y: Numbers, g: Numbers, c: Numbers) -> Numbers:
    """The part with g, the log density of y."""
    return choose(y > 0.0, g, c + softplus(g - c))


def share(y: Numbers, g: Numbers, c: Numbers) -> Numbers:
    """The chance that a target comes from the family: 1 where it is above 0."""
    return choose(y > 0.0, 1.0, sigmoid(g - c))


def inflated_alone(c: Numbers) -> Numbers:
    """The part without g."""
    return -softplus(c)


def hurdle_alone(y: Numbers, c: Numbers) -> Numbers:
    """The part of a hurdle that c has alone."""
    return choose(y > 0.0, 0.0, c) - softplus(c)


def start_of_others(
    start: Callable[..., np.ndarray],
    y: np.ndarray,
    trials: np.ndarray,
    offset: np.ndarray,
    weights: np.ndarray,
) -> np.ndarray:
    """Where a search begins for the family of what is above 0, by `start`; as of ones where nothing is."""
    rest = (y > 0.0) & (weights > 0.0)
    if not rest.any():
        return start(np.ones(2), np.ones(2), np.zeros(2), np.ones(2))
    return start(y[rest], trials[rest], offset[rest], weights[rest])


def start(y: np.ndarray, weights: np.ndarray, usual: float = 0.0) -> float:
    """c by the share of zeros, less a share that is usual."""
    zeros, others = weights @ (y == 0.0) + 0.5, weights @ (y > 0.0) + 0.5
    share_of_zeros = zeros / (zeros + others)
    extra = np.clip((share_of_zeros - usual) / (1.0 - min(usual, 0.999)), 0.01, 0.999)
    return float(np.log(extra / (1.0 - extra)))


def drawn(rng: np.random.Generator, targets: Numbers, c: Numbers) -> Numbers:
    """Targets, or 0 with chance σ(c)."""
    return np.where(rng.random(np.shape(targets)) < sigmoid(c), 0.0, targets)


def logistic(c: np.ndarray) -> np.ndarray:
    """Chances of c."""
    return np.asarray(sigmoid(c))


def log_odds(read: np.ndarray) -> np.ndarray:
    """c of chances, −∞ and ∞ at the ends."""
    with np.errstate(divide="ignore"):
        return np.log(read) - np.log1p(-read)


def read_last(a: np.ndarray) -> np.ndarray:
    """Of auxiliary numbers a, (..., A), that are logarithms but for the last, which is c."""
    return np.concatenate([np.exp(a[..., :-1]), logistic(a[..., -1:])], axis=-1)


def unread_last(read: np.ndarray) -> np.ndarray:
    """The inverse of that."""
    return np.concatenate([np.log(read[..., :-1]), log_odds(read[..., -1:])], axis=-1)
