"""Times of median e^η and shape k = e^a: log S(y) = −log(1 + e^v), log f = a + v + 2·log S − log y.

v = k·(log y − η): the log of a time has logistic noise of scale 1/k.
"""

from collections.abc import Sequence

import numpy as np

from flyrun.families import domains
from flyrun.families.family import Auxiliary, Derivatives, Family
from flyrun.families.prior_densities import LogNormal
from flyrun.ground.numerics.special import Numbers, sigmoid, softplus


def log_density(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Numbers:
    """Of times y > 0; of trials 0 log P(a time is beyond y)."""
    v = np.exp(p[1]) * (np.log(y) - p[0])
    return trials * (p[1] + v) - (1.0 + trials) * softplus(v)


def derivatives(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Derivatives:
    """By η and log k."""
    shape = np.exp(p[1])
    v = shape * (np.log(y) - p[0])
    gone = (1.0 + trials) * sigmoid(v)
    spread, left = gone * sigmoid(-v), gone - trials
    bent = left + v * spread
    return (shape * left, trials - v * left), (
        (shape * shape * spread, -shape * bent),
        (-shape * bent, v * bent),
    )


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
    log_survival=lambda y, p: log_density(y, 0.0, p),
    log_survival_derivatives=lambda y, p: derivatives(y, 0.0, p),
    events=True,
    one_mode=False,
    of_logs=True,
    grouped=True,
    constant=lambda y, trials: -trials * np.log(y),
)
