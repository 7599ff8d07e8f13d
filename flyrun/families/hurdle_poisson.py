"""Counts that are 0 with chance σ(c), else Poisson's of parameter μ = e^η without its zeros (Mullahy 1986).

log L = yη − μ − log(1 − e^−μ) of counts above 0, beside what c has alone: the posterior is a product.
"""

from collections.abc import Sequence

import numpy as np

from flyrun.families import domains, poisson, zeros
from flyrun.families.family import Derivatives, Family
from flyrun.ground.numerics.special import Numbers, choose, sigmoid


def log_density(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Numbers:
    """Of counts y: the part with η."""
    rate = np.exp(p[0])
    return choose(y > 0.0, y * p[0] - rate - np.log(-np.expm1(-rate)), 0.0)


def derivatives(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Derivatives:
    """Of that part, by η and c."""
    rate, some = np.exp(p[0]), 1.0 * (y > 0.0)
    mean = rate / -np.expm1(-rate)  # of counts above 0
    return (some * (y - mean), 0.0), ((some * mean * (1.0 - mean * np.exp(-rate)), 0.0), (0.0, 0.0))


def alone(y: Numbers, trials: Numbers, a: Sequence[Numbers]) -> Numbers:
    """The part without η."""
    return zeros.hurdle_alone(y, a[0])


def alone_derivatives(y: Numbers, trials: Numbers, a: Sequence[Numbers]) -> Derivatives:
    """Of that part, by c."""
    chance = sigmoid(a[0])
    return (1.0 * (y == 0.0) - chance,), ((chance * (1.0 - chance),),)


def start(y: np.ndarray, trials: np.ndarray, offset: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(2,): the log of the mean of counts above 0; c by the zeros."""
    return np.append(
        zeros.start_of_others(poisson.start, y, trials, offset, weights), zeros.start(y, weights)
    )


def draw(rng: np.random.Generator, trials: Numbers, p: Sequence[Numbers]) -> Numbers:
    """Counts: those above 0 are one, and Poisson's of what is left of the rate after the first event."""
    with np.errstate(over="ignore"):
        rate = np.exp(p[0])
    left = rate + np.log1p(rng.random(np.shape(rate)) * np.expm1(-rate))
    return zeros.drawn(rng, 1.0 + poisson.counts(rng, np.maximum(left, 0.0)), p[1])


def mean(trials: Numbers, p: Sequence[Numbers]) -> Numbers:
    """(1 − σ(c))·μ/(1 − e^−μ)."""
    rate = np.exp(p[0])
    return sigmoid(-p[1]) * np.where(rate > 0.0, rate / -np.expm1(-np.maximum(rate, 1e-300)), 1.0)


FAMILY = Family(
    "hurdle_poisson",
    "hurdle Poisson regression",
    domains.COUNTS,
    "log",
    log_density,
    derivatives,
    start,
    draw,
    auxiliary=lambda levels, sd: (zeros.chance("hu"),),
    alone=alone,
    alone_derivatives=alone_derivatives,
    read=zeros.logistic,
    unread=zeros.log_odds,
    mean=mean,
    one_mode=False,
    constant=poisson.FAMILY.constant,
)
