"""Successes among trials, of probability Φ(η): log L = y·log Φ(η) + (k − y)·log Φ(−η), k trials."""

from collections.abc import Sequence

import numpy as np
from scipy.special import ndtr, ndtri

from flyrun.families import binomial, domains
from flyrun.families.family import Derivatives, Family
from flyrun.ground.numerics.special import Numbers, log_normal_cdf, mills


def log_density(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Numbers:
    """Of y successes among so many trials."""
    return y * log_normal_cdf(p[0]) + (trials - y) * log_normal_cdf(-p[0])


def derivatives(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Derivatives:
    """By η."""
    hit, miss = mills(p[0]), mills(-p[0])
    curvature = y * hit * (hit + p[0]) + (trials - y) * miss * (miss - p[0])
    return (y * hit - (trials - y) * miss,), ((curvature,),)


def start(y: np.ndarray, trials: np.ndarray, offset: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The probit of all rows together, (1,)."""
    share = (weights @ y + 0.5) / (weights @ trials + 1.0)
    return np.array([ndtri(share) - np.average(offset, weights=weights)])


def draw(rng: np.random.Generator, trials: Numbers, p: Sequence[Numbers]) -> Numbers:
    """Successes."""
    return binomial.successes(rng, trials, ndtr(p[0]))


FAMILY = Family(
    "probit", "probit regression", domains.BINARY, "probit", log_density, derivatives, start, draw
)
