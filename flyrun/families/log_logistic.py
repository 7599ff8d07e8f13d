"""Times of median e^η and shape k = e^a: log S(y) = −log(1 + e^v), log f = a + v + 2·log S − log y.

v = k·(log y − η): the log of a time has logistic noise of scale 1/k.
"""

from collections.abc import Sequence

import numpy as np

from flyrun.families import domains
from flyrun.families.family import Auxiliary, Derivatives, Family
from flyrun.families.prior_densities import LogNormal
from flyrun.ground.numerics.special import Numbers, sigmoid, softplus


def log_survival(y: Numbers, p: Sequence[Numbers]) -> Numbers:
    """log P(a time is beyond y)."""
    return -softplus(np.exp(p[1]) * (np.log(y) - p[0]))


def log_survival_derivatives(y: Numbers, p: Sequence[Numbers]) -> Derivatives:
    """Of that, by η and log k."""
    shape = np.exp(p[1])
    v = shape * (np.log(y) - p[0])
    gone = sigmoid(v)
    spread = gone * sigmoid(-v)
    mixed, curvature = -shape * (gone + v * spread), v * (gone + v * spread)
    return (shape * gone, -v * gone), ((shape * shape * spread, mixed), (mixed, curvature))


def log_density(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Numbers:
    """Of times y > 0."""
    v = np.exp(p[1]) * (np.log(y) - p[0])
    return p[1] + v - 2.0 * softplus(v)


def derivatives(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Derivatives:
    """By η and log k."""
    shape = np.exp(p[1])
    v = shape * (np.log(y) - p[0])
    (by_scale, by_shape), ((curvature, mixed), (_, of_shape)) = log_survival_derivatives(y, p)
    both = shape + 2.0 * mixed
    slopes = 2.0 * by_scale - shape, 2.0 * by_shape + 1.0 + v
    return slopes, ((2.0 * curvature, both), (both, 2.0 * of_shape - v))


def start(y: np.ndarray, trials: np.ndarray, offset: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """By the mean and the sd of log y, (2,)."""
    left = np.log(y) - offset
    mean = np.average(left, weights=weights)
    spread = max(np.sqrt(np.average((left - mean) ** 2, weights=weights)), 1e-10)
    return np.array([mean, np.log(1.81 / spread)])


def draw(rng: np.random.Generator, trials: Numbers, p: Sequence[Numbers]) -> Numbers:
    """Times; inf where they are too large for a number."""
    with np.errstate(all="ignore"):
        noise = rng.logistic(size=np.broadcast(*p).shape)
        return np.maximum(np.exp(p[0] + noise * np.exp(-p[1])), 1e-300)


def mean(trials: Numbers, p: Sequence[Numbers]) -> Numbers:
    """e^η·(π/k)/sin(π/k), inf where k is at most 1."""
    angle = np.pi * np.exp(-p[1])
    return np.where(angle < np.pi, np.exp(p[0]) * angle / np.sin(np.minimum(angle, 3.0)), np.inf)


FAMILY = Family(
    "log_logistic",
    "log-logistic regression",
    domains.POSITIVE,
    "log",
    log_density,
    derivatives,
    start,
    draw,
    auxiliary=lambda levels, sd: (Auxiliary("shape", LogNormal(0.0, 1.5)),),
    mean=mean,
    log_survival=log_survival,
    log_survival_derivatives=log_survival_derivatives,
    one_mode=False,
    of_logs=True,
    grouped=True,
    constant=lambda y, trials: -np.log(y),
)
