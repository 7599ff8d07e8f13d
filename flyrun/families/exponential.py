"""Times of scale e^η and a constant hazard: log S(y) = −y/e^η, log f = log S − η."""

from collections.abc import Sequence

import numpy as np

from flyrun.families import domains
from flyrun.families.family import Derivatives, Family
from flyrun.ground.numerics.special import Numbers


def log_survival(y: Numbers, p: Sequence[Numbers]) -> Numbers:
    """log P(a time is beyond y)."""
    return -y * np.exp(-p[0])


def log_survival_derivatives(y: Numbers, p: Sequence[Numbers]) -> Derivatives:
    """Of that, by η."""
    hazard = y * np.exp(-p[0])
    return (hazard,), ((hazard,),)


def log_density(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Numbers:
    """Of times y > 0."""
    return -p[0] + log_survival(y, p)


def derivatives(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Derivatives:
    """By η."""
    hazard = y * np.exp(-p[0])
    return (hazard - 1.0,), ((hazard,),)


def start(y: np.ndarray, trials: np.ndarray, offset: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The log of the mean, by e^offset, (1,)."""
    return np.array([np.log((weights @ y) / (weights @ np.exp(offset)))])


def draw(rng: np.random.Generator, trials: Numbers, p: Sequence[Numbers]) -> Numbers:
    """Times."""
    with np.errstate(over="ignore"):
        return np.maximum(np.exp(p[0]) * rng.standard_exponential(np.shape(p[0])), 1e-300)


FAMILY = Family(
    "exponential",
    "exponential regression",
    domains.POSITIVE,
    "log",
    log_density,
    derivatives,
    start,
    draw,
    log_survival=log_survival,
    log_survival_derivatives=log_survival_derivatives,
    grouped=True,
)
