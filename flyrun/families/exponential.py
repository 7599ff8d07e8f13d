"""Times of scale e^η and a constant hazard: log S(y) = −y/e^η, log f = log S − η."""

from collections.abc import Sequence

import numpy as np

from flyrun.families import domains
from flyrun.families.family import Derivatives, Family
from flyrun.ground.numerics.special import Numbers


def log_density(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Numbers:
    """Of times y > 0; of trials 0 log P(a time is beyond y)."""
    return -trials * p[0] - y * np.exp(-p[0])


def derivatives(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Derivatives:
    """By η."""
    hazard = y * np.exp(-p[0])
    return (hazard - trials,), ((hazard,),)


def start(y: np.ndarray, trials: np.ndarray, offset: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The log of the mean, by e^offset, (1,)."""
    seen = max(np.average(trials + 0.0 * y, weights=weights), 1e-10)
    return np.array([np.log((weights @ y) / (weights @ np.exp(offset)) / seen)])


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
    log_survival=lambda y, p: log_density(y, 0.0, p),
    log_survival_derivatives=lambda y, p: derivatives(y, 0.0, p),
    events=True,
    grouped=True,
)
