"""Numbers with normal noise of sd σ: log L = −a − r²/2, r = (y − η)e⁻ᵃ, a = log σ."""

from collections.abc import Sequence

import numpy as np

from flyrun.families import domains
from flyrun.families.family import Auxiliary, Derivatives, Family, LogGamma
from flyrun.ground.numerics.special import Numbers, log_normal_cdf, mills


def log_density(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Numbers:
    """Of numbers y."""
    return -p[1] - 0.5 * ((y - p[0]) * np.exp(-p[1])) ** 2


def derivatives(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Derivatives:
    """By η and log σ."""
    inverse = np.exp(-p[1])
    r = (y - p[0]) * inverse
    return (r * inverse, r * r - 1.0), ((inverse**2, 2.0 * r * inverse), (2.0 * r * inverse, 2.0 * r * r))


def log_survival(y: Numbers, p: Sequence[Numbers]) -> Numbers:
    """log P(a number is beyond y)."""
    return log_normal_cdf((p[0] - y) * np.exp(-p[1]))


def log_survival_derivatives(y: Numbers, p: Sequence[Numbers]) -> Derivatives:
    """Of that, by η and log σ."""
    inverse = np.exp(-p[1])
    r = (y - p[0]) * inverse
    hazard = mills(-r)
    curvature = hazard * (hazard - r)
    mixed, by_r = inverse * (hazard + r * curvature), r * hazard
    slopes = hazard * inverse, by_r
    return slopes, ((inverse * inverse * curvature, mixed), (mixed, by_r + r * r * curvature))


def start(y: np.ndarray, trials: np.ndarray, offset: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Mean and log sd, (2,)."""
    mean = np.average(y - offset, weights=weights)
    square = np.average((y - offset - mean) ** 2, weights=weights)
    return np.array([mean, 0.5 * np.log(max(square, 1e-20))])


def draw(rng: np.random.Generator, trials: Numbers, p: Sequence[Numbers]) -> Numbers:
    """Numbers."""
    return rng.normal(p[0], np.exp(p[1]))


FAMILY = Family(
    "gaussian",
    "linear regression with normal noise",
    domains.NUMBERS,
    "identity",
    log_density,
    derivatives,
    start,
    draw,
    auxiliary=lambda levels, sd: (Auxiliary("sigma", LogGamma(1.0, 1.0 / sd)),),
    log_survival=log_survival,
    log_survival_derivatives=log_survival_derivatives,
    one_mode=False,
    by_sums=True,
    grouped=True,
    constant=lambda y, trials: -0.5 * np.log(2.0 * np.pi),
    precise=("sigma", -0.5),
)
