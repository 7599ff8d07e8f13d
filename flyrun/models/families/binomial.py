"""Successes among trials: log L = yη − k·log(1 + e^η), k trials."""

from collections.abc import Sequence

import numpy as np
from scipy.special import gammaln

from flyrun.models.family import Derivatives, Family
from flyrun.numerics.special import Numbers, sigmoid, softplus


def log_density(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Numbers:
    """Of y successes among so many trials."""
    return y * p[0] - trials * softplus(p[0])


def derivatives(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Derivatives:
    """By η."""
    mean = sigmoid(p[0])
    return (y - trials * mean,), ((trials * mean * (1.0 - mean),),)


def start(y: np.ndarray, trials: np.ndarray, offset: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The log odds of all rows together."""
    hits, tries = weights @ y + 0.5, weights @ trials + 1.0
    return np.array([np.log(hits / (tries - hits)) - np.average(offset, weights=weights)])


def draw(rng: np.random.Generator, trials: int | np.ndarray, p: Sequence[Numbers]) -> Numbers:
    """Successes."""
    return rng.binomial(trials, sigmoid(p[0]))


FAMILY = Family(
    "binomial",
    "binomial regression",
    "successes",
    "logit",
    log_density,
    derivatives,
    start,
    draw,
    cumulant="softplus",
    constant=lambda y, trials: gammaln(trials + 1.0) - gammaln(y + 1.0) - gammaln(trials - y + 1.0),
)
