"""Counts that are 0 with chance σ(c), else negative binomial of mean e^η and shape φ = e^a."""

from collections.abc import Sequence

import numpy as np

from flyrun.families import domains, negative_binomial, poisson, zero_inflated_poisson, zeros
from flyrun.families.family import Derivatives, Family
from flyrun.ground.numerics.special import Numbers, sigmoid


def log_density(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Numbers:
    """Of counts y: the part with η."""
    return zeros.inflated(y, negative_binomial.log_density(y, trials, p), p[2])


def derivatives(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Derivatives:
    """Of that part, by η, log φ and c."""
    count = zeros.share(y, negative_binomial.log_density(y, trials, p), p[2])
    spread = count * (1.0 - count)
    (rise, by_phi), ((curvature, both), (_, of_phi)) = negative_binomial.derivatives(y, trials, p)
    mixed, mixed_phi = spread * rise, spread * by_phi
    across = count * both - mixed * by_phi
    return (
        (count * rise, count * by_phi, 1.0 - count),
        (
            (count * curvature - mixed * rise, across, mixed),
            (across, count * of_phi - mixed_phi * by_phi, mixed_phi),
            (mixed, mixed_phi, -spread),
        ),
    )


def alone(y: Numbers, trials: Numbers, a: Sequence[Numbers]) -> Numbers:
    """The part without η: the negative binomial's is 0 at 0."""
    return negative_binomial.alone(y, trials, a) + zeros.inflated_alone(a[1])


def alone_derivatives(y: Numbers, trials: Numbers, a: Sequence[Numbers]) -> Derivatives:
    """Of that part, by log φ and c."""
    chance = sigmoid(a[1])
    (rise,), ((curvature,),) = negative_binomial.alone_derivatives(y, trials, a)
    return (rise, -chance), ((curvature, 0.0), (0.0, chance * (1.0 - chance)))


def start(y: np.ndarray, trials: np.ndarray, offset: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """As of zero-inflated Poisson counts; φ = 1; (3,)."""
    level, chance = zero_inflated_poisson.start(y, trials, offset, weights)
    return np.array([level, 0.0, chance])


def draw(rng: np.random.Generator, trials: Numbers, p: Sequence[Numbers]) -> Numbers:
    """Counts."""
    return zeros.drawn(rng, negative_binomial.draw(rng, trials, p), p[2])


def mean(trials: Numbers, p: Sequence[Numbers]) -> Numbers:
    """(1 − σ(c))·e^η."""
    return sigmoid(-p[2]) * np.exp(p[0])


FAMILY = Family(
    "zero_inflated_negative_binomial",
    "zero-inflated negative binomial regression",
    domains.COUNTS,
    "log",
    log_density,
    derivatives,
    start,
    draw,
    auxiliary=lambda levels, sd: (zeros.PHI, zeros.chance("zi")),
    alone=alone,
    alone_derivatives=alone_derivatives,
    read=zeros.read_last,
    unread=zeros.unread_last,
    mean=mean,
    one_mode=False,
    constant=poisson.FAMILY.constant,
)
