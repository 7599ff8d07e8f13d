"""Numbers above 0 whose log is normal of mean η and sd σ; a = log σ."""

from collections.abc import Sequence

import numpy as np

from flyrun.families import domains, gaussian
from flyrun.families.family import Auxiliary, Derivatives, Family
from flyrun.families.prior_densities import LogNormal
from flyrun.ground.numerics.special import Numbers

#: of a log's sd, whatever its decade is: an exponential prior overrules data from 10 on
SIGMA = Auxiliary("sigma", LogNormal(0.0, 2.0))


def log_survival(y: Numbers, p: Sequence[Numbers]) -> Numbers:
    """log P(a number is beyond y)."""
    return gaussian.log_survival(np.log(y), p)


def log_survival_derivatives(y: Numbers, p: Sequence[Numbers]) -> Derivatives:
    """Of that, by η and log σ."""
    return gaussian.log_survival_derivatives(np.log(y), p)


def log_density(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Numbers:
    """Of y > 0."""
    return gaussian.log_density(np.log(y), trials, p)


def derivatives(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Derivatives:
    """By η and log σ."""
    return gaussian.derivatives(np.log(y), trials, p)


def start(y: np.ndarray, trials: np.ndarray, offset: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Mean and log sd of log y, (2,)."""
    return gaussian.start(np.log(y), trials, offset, weights)


def draw(rng: np.random.Generator, trials: Numbers, p: Sequence[Numbers]) -> Numbers:
    """Numbers above 0 where the log's sd is at most 150 or so; inf where η is beyond what a float holds."""
    with np.errstate(all="ignore"):
        log_y = np.clip(rng.normal(p[0], np.minimum(np.exp(p[1]), 1e300)), -690.0, 700.0)
        return np.exp(np.where(p[0] > 710.0, np.inf, log_y))


def mean(trials: Numbers, p: Sequence[Numbers]) -> Numbers:
    """e^(η + σ²/2)."""
    return np.exp(p[0] + 0.5 * np.exp(2.0 * p[1]))


FAMILY = Family(
    "lognormal",
    "lognormal regression",
    domains.POSITIVE,
    "log",
    log_density,
    derivatives,
    start,
    draw,
    auxiliary=lambda levels, sd: (SIGMA,),
    mean=mean,
    log_survival=log_survival,
    log_survival_derivatives=log_survival_derivatives,
    one_mode=False,
    of_logs=True,
    grouped=True,
    constant=lambda y, trials: -np.log(y) - 0.5 * np.log(2.0 * np.pi),
)
