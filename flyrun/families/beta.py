"""Numbers between 0 and 1 of mean μ = σ(η) and variance μ(1 − μ)/(1 + φ), μφ = m and (1 − μ)φ = k; a = log φ.

log L = log Γ(φ) − log Γ(m) − log Γ(k) + (m − 1)·log y + (k − 1)·log(1 − y), where log Γ(x) is taken as
log Γ(1 + x) − log x: m or k may be next to nothing (Ferrari & Cribari-Neto 2004).
"""

from collections.abc import Sequence

import numpy as np

from flyrun.families.domains import Domain
from flyrun.families.family import Auxiliary, Derivatives, Family
from flyrun.families.prior_densities import LogNormal
from flyrun.ground.numerics.special import Numbers, digamma, log_gamma, sigmoid, softplus, trigamma


def log_density(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Numbers:
    """Of y in (0, 1): the part with η."""
    phi, logit = np.exp(p[1]), np.log(y) - np.log1p(-y)
    m, k = phi * sigmoid(p[0]), phi * sigmoid(-p[0])
    return m * logit - softplus(p[0]) - softplus(-p[0]) - log_gamma(1.0 + m) - log_gamma(1.0 + k)


def derivatives(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Derivatives:
    """Of that part, by η and log φ."""
    phi, mean, rest, logit = np.exp(p[1]), sigmoid(p[0]), sigmoid(-p[0]), np.log(y) - np.log1p(-y)
    m, k, spread = phi * mean, phi * rest, mean * rest
    by_m, by_k = logit - digamma(1.0 + m), -digamma(1.0 + k)
    bent_m, bent_k = trigamma(1.0 + m), trigamma(1.0 + k)
    by_mean, rise, step = by_m - by_k, m * by_m + k * by_k, phi * spread
    mixed = step * (m * bent_m - k * bent_k - by_mean)
    curvature = 2.0 * spread - step * (rest - mean) * by_mean + step * step * (bent_m + bent_k)
    slopes = (rest - mean + step * by_mean, rise)
    return slopes, ((curvature, mixed), (mixed, m * m * bent_m + k * k * bent_k - rise))


def alone(y: Numbers, trials: Numbers, a: Sequence[Numbers]) -> Numbers:
    """The part without η."""
    phi = np.exp(a[0])
    return a[0] + log_gamma(1.0 + phi) + phi * np.log1p(-y)


def alone_derivatives(y: Numbers, trials: Numbers, a: Sequence[Numbers]) -> Derivatives:
    """Of that part, by log φ."""
    phi = np.exp(a[0])
    rise = phi * (digamma(1.0 + phi) + np.log1p(-y))
    return (1.0 + rise,), ((-rise - phi * phi * trigamma(1.0 + phi),),)


def start(y: np.ndarray, trials: np.ndarray, offset: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The log odds of the mean, and log φ by the variance, (2,)."""
    mean = np.average(y, weights=weights)
    spread, variance = mean * (1.0 - mean), max(np.average((y - mean) ** 2, weights=weights), 1e-12)
    phi = np.clip(spread / variance - 1.0, 0.1, 1e6)
    return np.array([np.log(mean / (1.0 - mean)) - np.average(offset, weights=weights), np.log(phi)])


def draw(rng: np.random.Generator, trials: Numbers, p: Sequence[Numbers]) -> Numbers:
    """Numbers between 0 and 1, however near."""
    with np.errstate(over="ignore"):
        phi = np.exp(p[1])
    m, k = (np.clip(phi * sigmoid(side), 1e-300, 1e300) for side in (p[0], np.negative(p[0])))
    return np.clip(rng.beta(m, k), 1e-300, np.nextafter(1.0, 0.0))


FAMILY = Family(
    "beta",
    "beta regression",
    Domain(
        "proportions", "numbers between 0 and 1, neither of them included", lambda y: (y > 0.0) & (y < 1.0)
    ),
    "logit",
    log_density,
    derivatives,
    start,
    draw,
    auxiliary=lambda levels, sd: (Auxiliary("phi", LogNormal(3.0, 2.0)),),
    alone=alone,
    alone_derivatives=alone_derivatives,
    one_mode=False,
    constant=lambda y, trials: -np.log(y) - np.log1p(-y),
)
