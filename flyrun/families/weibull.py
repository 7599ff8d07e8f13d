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


def log_survival(y: Numbers, p: Sequence[Numbers]) -> Numbers:
    """log P(a time is beyond y)."""
    return -np.exp(np.exp(p[1]) * (np.log(y) - p[0]))


def log_survival_derivatives(y: Numbers, p: Sequence[Numbers]) -> Derivatives:
    """Of that, by η and log k."""
    shape = np.exp(p[1])
    v = shape * (np.log(y) - p[0])
    hazard = np.exp(v)
    mixed, curvature = -shape * hazard * (1.0 + v), v * hazard * (1.0 + v)
    return (shape * hazard, -v * hazard), ((shape * shape * hazard, mixed), (mixed, curvature))


def log_density(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Numbers:
    """Of times y > 0."""
    v = np.exp(p[1]) * (np.log(y) - p[0])
    return p[1] + v - np.exp(v)


def derivatives(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Derivatives:
    """By η and log k."""
    shape = np.exp(p[1])
    v = shape * (np.log(y) - p[0])
    (by_scale, by_shape), ((curvature, mixed), (_, of_shape)) = log_survival_derivatives(y, p)
    slopes = by_scale - shape, by_shape + 1.0 + v
    return slopes, ((curvature, mixed + shape), (mixed + shape, of_shape - v))


def start(y: np.ndarray, trials: np.ndarray, offset: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """By the mean and the sd of log y, those of a Gumbel variable, (2,)."""
    left = np.log(y) - offset
    mean = np.average(left, weights=weights)
    shape = 1.28 / max(np.sqrt(np.average((left - mean) ** 2, weights=weights)), 1e-10)
    return np.array([mean + 0.577 / shape, np.log(shape)])


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
    log_survival=log_survival,
    log_survival_derivatives=log_survival_derivatives,
    one_mode=False,
    grouped=True,
    constant=lambda y, trials: -np.log(y),
)
