"""Amounts that are sums of a Poisson's number of gamma variables: mean μ = e^η, variance φμ^q, 1 < q < 2.

φ = e^s and, with A = q − 1 = σ(a) and B = 2 − q, log L = −(y·μ^−A/A + μ^B/B)/φ + log W − log y, the last two
of y > 0 alone, where W sums over the number of variables (Dunn & Smyth 2005): of W, α = B/A = e^−a and
z = α·log y − s/A − α·log A − log B, as in `special.log_wright`.
"""

from collections.abc import Sequence

import numpy as np

from flyrun.families import domains, gamma, poisson, zeros
from flyrun.families.family import Auxiliary, Derivatives, Family
from flyrun.families.prior_densities import LogNormal, Normal
from flyrun.ground.numerics.special import Numbers, choose, log_wright, sigmoid, wright_moments

_MOST = 1e11  # a level beyond which its difference from log W has no digits: there no power is near 1


def log_density(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Numbers:
    """Of amounts y from 0."""
    up, down, alpha = sigmoid(p[2]), sigmoid(-p[2]), np.exp(-p[2])
    whole = np.exp(-p[1]) * (y * np.exp(-up * p[0]) / up + np.exp(down * p[0]) / down)
    z = alpha * (np.log(choose(y > 0.0, y, 1.0)) - np.log(up)) - p[1] / up - np.log(down)
    level = choose(whole < _MOST, whole, np.inf)
    return choose(y > 0.0, log_wright(choose(y > 0.0, z, np.nan), alpha), 0.0) - level


def derivatives(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Derivatives:
    """By η, s and a."""
    up, down, alpha = sigmoid(p[2]), sigmoid(-p[2]), np.exp(-p[2])
    first = y * np.exp(-p[1] - up * p[0]) / up
    second = np.exp(down * p[0] - p[1]) / down
    of_first, of_second = -down * (up * p[0] + 1.0), up * (1.0 - down * p[0])  # of their logarithms, by a
    more, level = up * down * (1.0 + (up - down) * p[0]), first + second
    rise, by_a = up * first - down * second, -first * of_first - second * of_second
    across = second * (down * of_second - up * down) - first * (up * of_first + up * down)
    bent = first * (of_first * of_first + more) + second * (of_second * of_second + more)

    away = np.log(choose(y > 0.0, y, 1.0)) - p[1] - np.log(up)
    z = alpha * away - p[1] - np.log(down)  # as 1/A = 1 + α
    by_z = up - alpha * (away + down)
    some = 1.0 * (y > 0.0)
    count, q, var, both, of_q, trigammas = wright_moments(choose(y > 0.0, z, np.nan), alpha, by_z)
    by_zz = alpha * away + 2.0 * alpha * down + down
    of_s, mixed = some * var / (up * up), some * (alpha * count - both / up)
    of_a = some * (count * (by_zz + by_z) - q - alpha * alpha * trigammas + of_q)
    return (
        (rise, level - some * count / up, by_a + some * q),
        (
            (up * up * first + down * down * second, rise, across),
            (rise, level - of_s, by_a - mixed),
            (across, by_a - mixed, bent - of_a),
        ),
    )


def start(y: np.ndarray, trials: np.ndarray, offset: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The log of the mean, by e^offset, and log φ by the variance, of q = 1.5, (3,)."""
    if not weights @ y > 0.0:
        return np.array([-np.average(offset, weights=weights), 0.0, 0.0])
    level = float(gamma.start(y, trials, offset, weights)[0])
    variance = np.average((y - np.exp(level + offset)) ** 2, weights=weights)
    return np.array([level, np.log(max(variance, 1e-300)) - 1.5 * level, 0.0])


def draw(rng: np.random.Generator, trials: Numbers, p: Sequence[Numbers]) -> Numbers:
    """Amounts; inf where they are too large for a number."""
    up, down, alpha = np.asarray(sigmoid(p[2])), np.asarray(sigmoid(-p[2])), np.exp(-p[2])
    with np.errstate(all="ignore"):
        number = poisson.counts(rng, np.exp(down * p[0] - p[1]) / down + np.zeros(np.shape(p[0])))
        log_mean = np.log(number) + np.log(alpha * up) + p[1] + up * p[0]
        some = (log_mean, np.log(np.maximum(number, 1.0) * alpha))
        return np.where(number > 0.0, gamma.draw(rng, trials, some), 0.0)


def read(a: np.ndarray) -> np.ndarray:
    """φ and q of auxiliary numbers, (..., 2)."""
    return np.stack([np.exp(a[..., 0]), 1.0 + zeros.logistic(a[..., 1])], axis=-1)


def unread(read: np.ndarray) -> np.ndarray:
    """The inverse of that."""
    return np.stack([np.log(read[..., 0]), zeros.log_odds(read[..., 1] - 1.0)], axis=-1)


def _auxiliary(levels: int, sd: float) -> tuple[Auxiliary, ...]:
    power = Auxiliary("power", Normal(0.0, 2.0), "logit_power_less_1", "of logit (power - 1)")
    return Auxiliary("phi", LogNormal(0.0, 5.0)), power


FAMILY = Family(
    "tweedie",
    "Tweedie regression",
    domains.AMOUNTS,
    "log",
    log_density,
    derivatives,
    start,
    draw,
    auxiliary=_auxiliary,
    read=read,
    unread=unread,
    one_mode=False,
    grouped=True,
    constant=lambda y, trials: -np.log(np.where(y > 0.0, y, 1.0)),
)
