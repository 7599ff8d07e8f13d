"""Successes of trials whose chance is of a beta distribution of mean σ(η) and φ = e^a, as in beta.py.

Of k trials, with m = φσ(η) and r = φσ(−η):
log L = log Γ(y + m)/Γ(m) + log Γ(k − y + r)/Γ(r) − log Γ(k + φ)/Γ(φ).
"""

from collections.abc import Sequence

import numpy as np

from flyrun.families import beta, binomial, domains, zeros
from flyrun.families.family import Derivatives, Family
from flyrun.ground.numerics.special import (
    Numbers,
    choose,
    digamma,
    log_gamma,
    sigmoid,
    softplus,
    trigamma,
)


def _rise(y: Numbers, log_m: Numbers) -> Numbers:
    """log Γ(y + m)/Γ(m), also of an m next to nothing."""
    m, some = np.exp(log_m), choose(y > 0.0, y, 1.0)
    return choose(y > 0.0, log_gamma(some + m) - log_gamma(1.0 + m) + log_m, 0.0)


def _slope(y: Numbers, log_m: Numbers) -> Numbers:
    """Of that, by log m."""
    m, some = np.exp(log_m), choose(y > 0.0, y, 1.0)
    return choose(y > 0.0, 1.0 + m * (digamma(some + m) - digamma(1.0 + m)), 0.0)


def _bend(y: Numbers, log_m: Numbers) -> Numbers:
    """The second derivative of that, by log m."""
    m, some = np.exp(log_m), choose(y > 0.0, y, 1.0)
    first = m * (digamma(some + m) - digamma(1.0 + m))
    return choose(y > 0.0, first + m * m * (trigamma(some + m) - trigamma(1.0 + m)), 0.0)


def log_density(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Numbers:
    """Of y successes: the part with η."""
    return _rise(y, p[1] - softplus(-p[0])) + _rise(trials - y, p[1] - softplus(p[0]))


def derivatives(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Derivatives:
    """Of that part, by η and log φ."""
    log_m, log_r, mean, rest = p[1] - softplus(-p[0]), p[1] - softplus(p[0]), sigmoid(p[0]), sigmoid(-p[0])
    hit, miss = _slope(y, log_m), _slope(trials - y, log_r)
    of_hit, of_miss = _bend(y, log_m), _bend(trials - y, log_r)
    mixed = mean * of_miss - rest * of_hit
    curvature = mean * rest * (hit + miss) - rest * rest * of_hit - mean * mean * of_miss
    return (rest * hit - mean * miss, hit + miss), ((curvature, mixed), (mixed, -of_hit - of_miss))


def alone(y: Numbers, trials: Numbers, a: Sequence[Numbers]) -> Numbers:
    """The part without η."""
    return -_rise(trials, a[0])


def alone_derivatives(y: Numbers, trials: Numbers, a: Sequence[Numbers]) -> Derivatives:
    """Of that part, by log φ."""
    return (-_slope(trials, a[0]),), ((_bend(trials, a[0]),),)


def start(y: np.ndarray, trials: np.ndarray, offset: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """As of binomial successes; φ = 10; (2,)."""
    return np.append(binomial.start(y, trials, offset, weights), np.log(10.0))


def draw(rng: np.random.Generator, trials: Numbers, p: Sequence[Numbers]) -> Numbers:
    """Successes."""
    return binomial.successes(rng, trials, beta.draw(rng, trials, p))


FAMILY = Family(
    "beta_binomial",
    "beta-binomial regression",
    domains.SUCCESSES,
    "logit",
    log_density,
    derivatives,
    start,
    draw,
    auxiliary=lambda levels, sd: (zeros.PHI,),
    alone=alone,
    alone_derivatives=alone_derivatives,
    one_mode=False,
    constant=binomial.FAMILY.constant,
)
