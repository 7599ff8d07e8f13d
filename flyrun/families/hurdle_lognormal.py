"""Numbers that are 0 with chance σ(c), else lognormal of parameters η and σ = e^a.

The posterior is a product of that of c and that of the others.
"""

from collections.abc import Sequence

import numpy as np

from flyrun.families import domains, lognormal, zeros
from flyrun.families.family import Derivatives, Family
from flyrun.ground.numerics.special import Numbers, choose, sigmoid


def log_density(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Numbers:
    """Of y from 0: the part with η."""
    return choose(y > 0.0, lognormal.log_density(choose(y > 0.0, y, 1.0), trials, p), 0.0)


def derivatives(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Derivatives:
    """Of that part, by η, log σ and c."""
    some = 1.0 * (y > 0.0)
    (rise, by_a), ((curvature, both), (_, of_a)) = lognormal.derivatives(choose(y > 0.0, y, 1.0), trials, p)
    return (
        (some * rise, some * by_a, 0.0),
        ((some * curvature, some * both, 0.0), (some * both, some * of_a, 0.0), (0.0, 0.0, 0.0)),
    )


def alone(y: Numbers, trials: Numbers, a: Sequence[Numbers]) -> Numbers:
    """The part without η."""
    return zeros.hurdle_alone(y, a[1])


def alone_derivatives(y: Numbers, trials: Numbers, a: Sequence[Numbers]) -> Derivatives:
    """Of that part, by log σ and c."""
    chance = sigmoid(a[1])
    return (0.0, 1.0 * (y == 0.0) - chance), ((0.0, 0.0), (0.0, chance * (1.0 - chance)))


def start(y: np.ndarray, trials: np.ndarray, offset: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """By the numbers above 0, and by the zeros, (3,)."""
    of_rest = zeros.start_of_others(lognormal.start, y, trials, offset, weights)
    return np.append(of_rest, zeros.start(y, weights))


def draw(rng: np.random.Generator, trials: Numbers, p: Sequence[Numbers]) -> Numbers:
    """Numbers from 0."""
    return zeros.drawn(rng, lognormal.draw(rng, trials, p), p[2])


def mean(trials: Numbers, p: Sequence[Numbers]) -> Numbers:
    """(1 − σ(c))·e^(η + σ²/2)."""
    return sigmoid(-p[2]) * lognormal.mean(trials, p)


def constant(y: np.ndarray, trials: Numbers) -> np.ndarray:
    """Of numbers above 0."""
    return np.where(y > 0.0, lognormal.FAMILY.constant(np.where(y > 0.0, y, 1.0), trials), 0.0)


FAMILY = Family(
    "hurdle_lognormal",
    "hurdle lognormal regression",
    domains.AMOUNTS,
    "log",
    log_density,
    derivatives,
    start,
    draw,
    auxiliary=lambda levels, sd: (lognormal.SIGMA, zeros.chance("hu")),
    alone=alone,
    alone_derivatives=alone_derivatives,
    read=zeros.read_last,
    unread=zeros.unread_last,
    mean=mean,
    one_mode=False,
    of_logs=True,
    constant=constant,
    grouped=True,
)
