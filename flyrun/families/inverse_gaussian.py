"""Numbers above 0 of mean μ = e^η and variance μ³/λ; a = log λ.

log L = a/2 − λ(r − 1)²/(2y), r = y/μ.
"""

from collections.abc import Sequence

import numpy as np

from flyrun.families import domains, gamma
from flyrun.families.family import Auxiliary, Derivatives, Family
from flyrun.families.prior_densities import LogNormal
from flyrun.ground.numerics.special import Numbers


def log_density(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Numbers:
    """Of y > 0."""
    away = y * np.exp(-p[0]) - 1.0
    return 0.5 * p[1] - 0.5 * np.exp(p[1]) / y * away * away


def derivatives(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Derivatives:
    """By η and log λ."""
    ratio, level = y * np.exp(-p[0]), np.exp(p[1]) / y
    away = ratio - 1.0
    rise, half = level * away * ratio, 0.5 * level * away * away
    return (rise, 0.5 - half), ((level * ratio * (ratio + away), -rise), (-rise, half))


def start(y: np.ndarray, trials: np.ndarray, offset: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The log of the mean, by e^offset, and log λ of most likelihood there, (2,)."""
    level = float(gamma.start(y, trials, offset, weights)[0])
    away = y * np.exp(-level - offset) - 1.0
    return np.array([level, -np.log(max(np.average(away * away / y, weights=weights), 1e-300))])


def draw(rng: np.random.Generator, trials: Numbers, p: Sequence[Numbers]) -> Numbers:
    """Numbers above 0, of a normal one's square (Michael, Schucany & Haas 1976), on the scale of μ."""
    with np.errstate(all="ignore"):
        spread = np.exp(np.clip(p[0] - p[1], -700.0, 300.0))  # μ/λ
        v = spread * rng.standard_normal(np.broadcast(*p).shape) ** 2
        small = 2.0 / (2.0 + v + np.sqrt(v * (v + 4.0)))  # the smaller root; the other is its inverse
        share = np.where(rng.random(v.shape) * (1.0 + small) <= 1.0, small, 1.0 / small)
        return np.maximum(np.exp(p[0] + np.log(share)), 1e-300)


FAMILY = Family(
    "inverse_gaussian",
    "inverse Gaussian regression",
    domains.POSITIVE,
    "log",
    log_density,
    derivatives,
    start,
    draw,
    auxiliary=lambda levels, sd: (Auxiliary("lambda", LogNormal(0.0, 5.0)),),
    one_mode=False,
    constant=lambda y, trials: -0.5 * np.log(2.0 * np.pi) - 1.5 * np.log(y),
    precise=("lambda", 1.0),
)
