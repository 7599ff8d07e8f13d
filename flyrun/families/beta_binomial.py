"""Successes of trials whose chance is of a beta distribution of mean σ(η) and φ = e^a, as in beta.py.

Of k trials, with m = φσ(η) and r = φσ(−η):
log L = log Γ(y + m)/Γ(m) + log Γ(k − y + r)/Γ(r) − log Γ(k + φ)/Γ(φ).
"""

from collections.abc import Sequence

import numpy as np

from flyrun.families import beta, binomial, domains, rising, zeros
from flyrun.families.family import Derivatives, Family
from flyrun.ground.numerics.special import Numbers, sigmoid, softplus


def log_density(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Numbers:
    """Of y successes: the part with η."""
    return rising.log_ratio(y, p[1] - softplus(-p[0])) + rising.log_ratio(trials - y, p[1] - softplus(p[0]))


def derivatives(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Derivatives:
    """Of that part, by η and log φ."""
    log_m, log_r, mean, rest = p[1] - softplus(-p[0]), p[1] - softplus(p[0]), sigmoid(p[0]), sigmoid(-p[0])
    hit, miss = rising.slope(y, log_m), rising.slope(trials - y, log_r)
    of_hit, of_miss = rising.second(y, log_m), rising.second(trials - y, log_r)
    mixed = mean * of_miss - rest * of_hit
    curvature = mean * rest * (hit + miss) - rest * rest * of_hit - mean * mean * of_miss
    return (rest * hit - mean * miss, hit + miss), ((curvature, mixed), (mixed, -of_hit - of_miss))


def alone(y: Numbers, trials: Numbers, a: Sequence[Numbers]) -> Numbers:
    """The part without η."""
    return -rising.log_ratio(trials, a[0])


def alone_derivatives(y: Numbers, trials: Numbers, a: Sequence[Numbers]) -> Derivatives:
    """Of that part, by log φ."""
    return (-rising.slope(trials, a[0]),), ((rising.second(trials, a[0]),),)


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
