"""Counts of mean μ = e^η: log L = yη − e^η."""

from collections.abc import Sequence

import numpy as np
from scipy.special import gammaln

from flyrun.families import domains, tails
from flyrun.families.family import Derivatives, Family
from flyrun.ground.numerics.special import Numbers

# From this mean on a Poisson count and a normal number differ by less than 1e-6 of their sd.
_LARGE = 1e12
_LARGEST = 1e308


def log_density(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Numbers:
    """Of counts y."""
    return y * p[0] - np.exp(p[0])


def derivatives(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Derivatives:
    """By η."""
    mean = np.exp(p[0])
    return (y - mean,), ((mean,),)


def log_survival(y: Numbers, p: Sequence[Numbers]) -> Numbers:
    """log P(a count is above y)."""
    return tails.gamma_shares(y + 1.0, np.exp(p[0]))[0]


def log_survival_derivatives(y: Numbers, p: Sequence[Numbers]) -> Derivatives:
    """Of that, by η."""
    mean, least = np.exp(p[0]), y + 1.0
    with np.errstate(all="ignore"):
        rise = np.exp(least * p[0] - mean - gammaln(least) - log_survival(y, p))
    return (rise,), ((rise * (rise + mean - least),),)


def start(y: np.ndarray, trials: np.ndarray, offset: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The log of the mean count, by e^offset, (1,)."""
    return np.array([np.log((weights @ y + 0.1) / (weights @ np.exp(offset) + 0.1))])


def counts(rng: np.random.Generator, mean: Numbers) -> np.ndarray:
    """Counts of means from 0 to inf, of their shape, (n, ...), of which an infinite one gives inf.

    Large ones are drawn by a normal of the same mean and variance: NumPy's own end at 2^63.
    """
    large = np.asarray(mean) > _LARGE
    drawn = np.asarray(rng.poisson(np.where(large, 0.0, mean)), np.float64)
    if large.any():
        high = np.minimum(np.asarray(mean)[large], _LARGEST)
        noisy = np.rint(high + np.sqrt(high) * rng.standard_normal(high.shape))
        drawn[large] = np.where(high == _LARGEST, np.inf, noisy)
    return drawn


def draw(rng: np.random.Generator, trials: Numbers, p: Sequence[Numbers]) -> Numbers:
    """Counts."""
    with np.errstate(over="ignore"):
        return counts(rng, np.exp(p[0]))


FAMILY = Family(
    "poisson",
    "Poisson regression",
    domains.COUNTS,
    "log",
    log_density,
    derivatives,
    start,
    draw,
    cumulant="exp",
    grouped=True,
    log_survival=log_survival,
    log_survival_derivatives=log_survival_derivatives,
    constant=lambda y, trials: -gammaln(y + 1.0),
)
