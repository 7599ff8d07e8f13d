"""Counts that are 0 with chance σ(c), else Poisson's of mean e^η (Lambert 1992)."""

from collections.abc import Sequence

import numpy as np

from flyrun.families import domains, poisson, zeros
from flyrun.families.family import Derivatives, Family
from flyrun.ground.numerics.special import Numbers, sigmoid


def log_density(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Numbers:
    """Of counts y: the part with η."""
    return zeros.inflated(y, poisson.log_density(y, trials, p), p[1])


def derivatives(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Derivatives:
    """Of that part, by η and c."""
    count = zeros.share(y, poisson.log_density(y, trials, p), p[1])
    (rise,), ((curvature,),) = poisson.derivatives(y, trials, p)
    spread = count * (1.0 - count)
    mixed = spread * rise
    return (count * rise, 1.0 - count), ((count * curvature - mixed * rise, mixed), (mixed, -spread))


def alone(y: Numbers, trials: Numbers, a: Sequence[Numbers]) -> Numbers:
    """The part without η."""
    return zeros.inflated_alone(a[0])


def alone_derivatives(y: Numbers, trials: Numbers, a: Sequence[Numbers]) -> Derivatives:
    """Of that part, by c."""
    chance = sigmoid(a[0])
    return (-chance,), ((chance * (1.0 - chance),),)


def start(y: np.ndarray, trials: np.ndarray, offset: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(2,): the log of the mean of counts above 0; c by the zeros that are too many for it."""
    level = zeros.start_of_others(poisson.start, y, trials, offset, weights)
    return np.append(level, zeros.start(y, weights, float(np.exp(-np.exp(level[0])))))


def draw(rng: np.random.Generator, trials: Numbers, p: Sequence[Numbers]) -> Numbers:
    """Counts."""
    return zeros.drawn(rng, poisson.draw(rng, trials, p), p[1])


def mean(trials: Numbers, p: Sequence[Numbers]) -> Numbers:
    """(1 − σ(c))·e^η."""
    return sigmoid(-p[1]) * np.exp(p[0])


FAMILY = Family(
    "zero_inflated_poisson",
    "zero-inflated Poisson regression",
    domains.COUNTS,
    "log",
    log_density,
    derivatives,
    start,
    draw,
    auxiliary=lambda levels, sd: (zeros.chance("zi"),),
    alone=alone,
    alone_derivatives=alone_derivatives,
    read=zeros.logistic,
    unread=zeros.log_odds,
    mean=mean,
    one_mode=False,
    constant=poisson.FAMILY.constant,
)
