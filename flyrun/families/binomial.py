"""Successes among trials: log L = yη − k·log(1 + e^η), k trials."""

from collections.abc import Sequence

import numpy as np
from scipy.special import gammaln

from flyrun.families import domains, poisson
from flyrun.families.family import Derivatives, Family
from flyrun.ground.numerics.special import Numbers, sigmoid, softplus

_LARGE = 2.0**62  # trials


def log_density(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Numbers:
    """Of y successes among so many trials."""
    return y * p[0] - trials * softplus(p[0])


def derivatives(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Derivatives:
    """By η."""
    mean = sigmoid(p[0])
    return (y - trials * mean,), ((trials * mean * (1.0 - mean),),)


def start(y: np.ndarray, trials: np.ndarray, offset: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The log odds of all rows together, (1,)."""
    hits, tries = weights @ y + 0.5, weights @ trials + 1.0
    return np.array([np.log(hits / (tries - hits)) - np.average(offset, weights=weights)])


def successes(rng: np.random.Generator, trials: Numbers, chance: Numbers) -> np.ndarray:
    """Successes among so many trials, (n, ...): NumPy's below 2^63 trials; beyond, as Poisson's counts."""
    many, chance = np.broadcast_arrays(np.asarray(trials, np.float64), chance)
    large = many > _LARGE
    drawn = np.asarray(rng.binomial(np.where(large, 0.0, many).astype(np.int64), chance), np.float64)
    if large.any():  # the rarer kind of the two is Poisson's, or normal of the binomial's variance
        many, chance = many[large], chance[large]
        rarer = np.minimum(chance, 1.0 - chance)
        mean = many * rarer
        rare = mean + (poisson.counts(rng, mean) - mean) * np.sqrt(1.0 - rarer)
        rare = np.clip(np.rint(rare), 0.0, many)
        drawn[large] = np.where(chance <= 0.5, rare, many - rare)
    return drawn


def draw(rng: np.random.Generator, trials: Numbers, p: Sequence[Numbers]) -> Numbers:
    """Successes."""
    return successes(rng, trials, sigmoid(p[0]))


FAMILY = Family(
    "binomial",
    "binomial regression",
    domains.SUCCESSES,
    "logit",
    log_density,
    derivatives,
    start,
    draw,
    cumulant="softplus",
    grouped=True,
    constant=lambda y, trials: gammaln(trials + 1.0) - gammaln(y + 1.0) - gammaln(trials - y + 1.0),
)
