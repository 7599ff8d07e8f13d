"""Counts that are 0 with chance σ(c), else negative binomial of parameters μ = e^η and φ = e^a without zeros.

With g the negative binomial's log density, log L = g(y) − log(1 − e^g(0)) of counts above 0.
"""

from collections.abc import Sequence

import numpy as np

from flyrun.families import domains, hurdle_poisson, negative_binomial, poisson, zeros
from flyrun.families.family import Derivatives, Family
from flyrun.ground.numerics.special import Numbers, choose, sigmoid, softplus


def log_density(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Numbers:
    """Of counts y: the part with η."""
    none = negative_binomial.log_density(0.0, trials, p)
    count = negative_binomial.log_density(y, trials, p) - np.log(-np.expm1(none))
    return choose(y > 0.0, count, 0.0)


def derivatives(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Derivatives:
    """Of that part, by η, log φ and c."""
    some = 1.0 * (y > 0.0)
    odds = 1.0 / np.expm1(-negative_binomial.log_density(0.0, trials, p))  # of a zero, without the hurdle
    more = odds * (1.0 + odds)
    (rise, by_phi), ((curvature, both), (_, of_phi)) = negative_binomial.derivatives(y, trials, p)
    (rise_0, by_phi_0), ((curvature_0, both_0), (_, of_phi_0)) = negative_binomial.derivatives(0.0, trials, p)
    across = some * (both + odds * both_0 - more * rise_0 * by_phi_0)
    return (
        (some * (rise + odds * rise_0), some * (by_phi + odds * by_phi_0), 0.0),
        (
            (some * (curvature + odds * curvature_0 - more * rise_0 * rise_0), across, 0.0),
            (across, some * (of_phi + odds * of_phi_0 - more * by_phi_0 * by_phi_0), 0.0),
            (0.0, 0.0, 0.0),
        ),
    )


def alone(y: Numbers, trials: Numbers, a: Sequence[Numbers]) -> Numbers:
    """The part without η: the negative binomial's is 0 at 0."""
    return negative_binomial.alone(y, trials, a) + zeros.hurdle_alone(y, a[1])


def alone_derivatives(y: Numbers, trials: Numbers, a: Sequence[Numbers]) -> Derivatives:
    """Of that part, by log φ and c."""
    chance = sigmoid(a[1])
    (rise,), ((curvature,),) = negative_binomial.alone_derivatives(y, trials, a)
    return (rise, 1.0 * (y == 0.0) - chance), ((curvature, 0.0), (0.0, chance * (1.0 - chance)))


def start(y: np.ndarray, trials: np.ndarray, offset: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """As of hurdle Poisson counts; φ = 1; (3,)."""
    level, chance = hurdle_poisson.start(y, trials, offset, weights)
    return np.array([level, 0.0, chance])


def draw(rng: np.random.Generator, trials: Numbers, p: Sequence[Numbers]) -> Numbers:
    """Counts: those above 0 are sums of logarithmic variables, at least one, at times that are Poisson's."""
    with np.errstate(all="ignore"):
        rate = -np.asarray(negative_binomial.log_density(0.0, trials, p))
        u = rng.random(rate.shape)
        first = np.where(rate > 1e-300, -np.log1p(u * np.expm1(-rate)) / rate, u)
        left = np.log(np.maximum(1.0 - first, 1e-300))
        series = rng.logseries(np.clip(sigmoid(p[0] - p[1]), 1e-300, 1.0 - 1e-16), rate.shape)
        more = negative_binomial.draw(rng, trials, (p[0] + left, p[1] + left))
    return zeros.drawn(rng, series + more, p[2])


def mean(trials: Numbers, p: Sequence[Numbers]) -> Numbers:
    """(1 − σ(c))·μ/(1 − P(0))."""
    some = -np.expm1(-np.exp(p[1]) * softplus(p[0] - p[1]))
    share = sigmoid(p[0] - p[1])  # the mean of a logarithmic variable, where μ is next to nothing
    tiny = share / (sigmoid(p[1] - p[0]) * np.maximum(softplus(p[0] - p[1]), 1e-300))
    return sigmoid(-p[2]) * np.where(some > 1e-12, np.exp(p[0]) / np.maximum(some, 1e-300), tiny)


FAMILY = Family(
    "hurdle_negative_binomial",
    "hurdle negative binomial regression",
    domains.COUNTS,
    "log",
    log_density,
    derivatives,
    start,
    draw,
    auxiliary=lambda levels, sd: (zeros.PHI, zeros.chance("hu")),
    alone=alone,
    alone_derivatives=alone_derivatives,
    read=zeros.read_last,
    unread=zeros.unread_last,
    mean=mean,
    one_mode=False,
    constant=poisson.FAMILY.constant,
)
