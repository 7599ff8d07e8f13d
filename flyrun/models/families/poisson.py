"""Counts of mean μ = e^η: log L = yη − e^η."""

from collections.abc import Sequence

import numpy as np
from scipy.special import gammaln

from flyrun.models.family import Derivatives, Family
from flyrun.numerics.special import Numbers


def log_density(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Numbers:
    """Of counts y."""
    return y * p[0] - np.exp(p[0])


def derivatives(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Derivatives:
    """By η."""
    mean = np.exp(p[0])
    return (y - mean,), ((mean,),)


def start(y: np.ndarray, trials: np.ndarray, offset: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The log of the mean count, by e^offset."""
    return np.array([np.log((weights @ y + 0.1) / (weights @ np.exp(offset) + 0.1))])


def draw(rng: np.random.Generator, trials: int | np.ndarray, p: Sequence[Numbers]) -> Numbers:
    """Counts."""
    return rng.poisson(np.exp(p[0]))


FAMILY = Family(
    "poisson",
    "Poisson regression",
    "counts",
    "log",
    log_density,
    derivatives,
    start,
    draw,
    cumulant="exp",
    constant=lambda y, trials: -gammaln(y + 1.0),
)
