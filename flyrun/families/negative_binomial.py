"""Counts of mean μ = e^η and variance μ + μ²/φ; a = log φ.

With x = η − a: log L = log Γ(y+φ) − log Γ(φ) − ya + yη − (y+φ)·log(1 + eˣ), which keeps its digits where φ is
large and the counts are about Poisson's.
"""

from collections.abc import Sequence

import numpy as np

from flyrun.families import domains, gamma, poisson, rising
from flyrun.families.family import Auxiliary, Derivatives, Family
from flyrun.families.prior_densities import LogNormal
from flyrun.ground.numerics.special import Numbers, sigmoid, softplus


def log_density(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Numbers:
    """Of counts y: the part with η."""
    return y * p[0] - (y + np.exp(p[1])) * softplus(p[0] - p[1])


def derivatives(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Derivatives:
    """Of that part, by η and log φ."""
    phi, share = np.exp(p[1]), sigmoid(p[0] - p[1])  # μ/(φ + μ)
    whole, rise = y + phi, phi * softplus(p[0] - p[1])
    curvature = whole * share * (1.0 - share)
    mixed = phi * share - curvature
    slopes = (y - whole * share, whole * share - rise)
    return slopes, ((curvature, mixed), (mixed, rise - 2.0 * phi * share + curvature))


def alone(y: Numbers, trials: Numbers, a: Sequence[Numbers]) -> Numbers:
    """The part without η."""
    return rising.log_ratio(y, a[0]) - y * a[0]


def alone_derivatives(y: Numbers, trials: Numbers, a: Sequence[Numbers]) -> Derivatives:
    """Of that part, by log φ."""
    return (rising.slope(y, a[0]) - y,), ((-rising.second(y, a[0]),),)


def start(y: np.ndarray, trials: np.ndarray, offset: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """As of Poisson's counts; φ = 1; (2,)."""
    return np.append(poisson.start(y, trials, offset, weights), 0.0)


def draw(rng: np.random.Generator, trials: Numbers, p: Sequence[Numbers]) -> Numbers:
    """Poisson's counts whose means are of a gamma distribution of mean μ and shape φ."""
    return poisson.counts(rng, gamma.draw(rng, trials, p))


FAMILY = Family(
    "negative_binomial",
    "negative binomial regression",
    domains.COUNTS,
    "log",
    log_density,
    derivatives,
    start,
    draw,
    auxiliary=lambda levels, sd: (Auxiliary("phi", LogNormal(2.0, 3.0)),),
    alone=alone,
    alone_derivatives=alone_derivatives,
    one_mode=False,
    grouped=True,
    constant=poisson.FAMILY.constant,
)
