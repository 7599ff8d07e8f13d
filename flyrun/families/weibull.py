"""Times of scale e^η and shape k = e^a: log S(y) = −e^v, log f = a + v − e^v − log y, v = k·(log y − η).

The median and every other quantile are proportional to e^η; k = 1 is the exponential.
"""

from collections.abc import Sequence

import numpy as np
from scipy.special import gammaln

from flyrun.families import domains
from flyrun.families.family import Auxiliary, Derivatives, Family
from flyrun.families.prior_densities import LogNormal
from flyrun.ground.numerics.special import Numbers


def log_density(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Numbers:
    """Of times y > 0; of trials 0 log P(a time is beyond y)."""
    v = np.exp(p[1]) * (np.log(y) - p[0])
    return trials * (p[1] + v) - np.exp(v)


def second_order(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> tuple[Numbers, Derivatives]:
    """And by η and log k."""
    shape = np.exp(p[1])
    v = shape * (np.log(y) - p[0])
    hazard = np.exp(v)
    left = hazard - trials
    bent = left + v * hazard
    value, mixed = trials * (p[1] + v) - hazard, -shape * bent
    return value, ((shape * left, trials - v * left), ((shape * shape * hazard, mixed), (mixed, v * bent)))


def derivatives(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Derivatives:
    """Of that alone."""
    return second_order(y, trials, p)[1]


def start(y: np.ndarray, trials: np.ndarray, offset: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The shape by the sd of log y, a Gumbel variable's, and the scale that is likeliest with it, (2,)."""
    left = np.log(y) - offset
    mean = np.average(left, weights=weights)
    shape = 1.28 / max(np.sqrt(np.average((left - mean) ** 2, weights=weights)), 1e-10)
    largest = left.max()
    hazard = np.average(np.exp(shape * (left - largest)), weights=weights)
    seen = max(np.average(trials + 0.0 * y, weights=weights), 1e-10)
    return np.array([largest + np.log(hazard / seen) / shape, np.log(shape)])


def draw(rng: np.random.Generator, trials: Numbers, p: Sequence[Numbers]) -> Numbers:
    """Times; inf where they are too large for a number."""
    with np.errstate(all="ignore"):
        noise = np.log(rng.standard_exponential(np.broadcast(*p).shape))
        return np.maximum(np.exp(p[0] + noise * np.exp(-p[1])), 1e-300)


def mean(trials: Numbers, p: Sequence[Numbers]) -> Numbers:
    """Γ(1 + 1/k)·e^η."""
    return np.exp(p[0] + gammaln(1.0 + np.exp(-p[1])))


FAMILY = Family(
    "weibull",
    "Weibull regression",
    domains.POSITIVE,
    "log",
    log_density,
    derivatives,
    start,
    draw,
    auxiliary=lambda levels, sd: (Auxiliary("shape", LogNormal(0.0, 1.5)),),
    mean=mean,
    second_order=second_order,
    log_survival=lambda y, p: log_density(y, 0.0, p),
    log_survival_derivatives=lambda y, p: derivatives(y, 0.0, p),
    events=True,
    one_mode=False,
    grouped=True,
    constant=lambda y, trials: -trials * np.log(y),
)
