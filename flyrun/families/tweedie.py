"""Amounts that are sums of a Poisson's number of gamma variables: mean μ = e^η, variance φμ^q, 1 < q < 2.

φ = e^s and, with A = q − 1 and B = 2 − q, log L = −(y·μ^−A/A + μ^B/B)/φ + log W − log y, the last two of
y > 0 alone, where W sums over the number of variables (Dunn & Smyth 2005): of W, α = B/A and
z = α·log y − s/A − α·log A − log B, as in `wright.log_wright`.

The power is between 1.01 and 1.99, as mgcv's `tw` has it: A = 0.01 + 0.98·σ(a). As it goes to 1, amounts are
multiples of φ alone, and the density of rounded ones, as whole pounds, grows without a bound.
"""

from collections.abc import Sequence

import numpy as np

from flyrun.families import domains, gamma, poisson, zeros
from flyrun.families.family import Auxiliary, Derivatives, Family
from flyrun.families.prior_densities import LogNormal, Normal
from flyrun.ground.numerics.special import Numbers, choose, sigmoid
from flyrun.ground.numerics.wright import log_wright, wright_derivatives

_LEAST, _SPAN = 0.01, 0.98  # of A and of B, and up to the most
_MOST = 1e11  # a level beyond which its difference from log W has no digits: there no power is near 1
_NEAR_1, _STEPS, _TRIED = -3.5, np.arange(-0.6, 0.6, 0.03), 400  # of a, of log φ there, and rows
_POWER = Auxiliary("power", Normal(0.0, 2.0), "logit_power", "of logit power in (1.01, 1.99)")


def log_density(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Numbers:
    """Of amounts y from 0."""
    up, down = _LEAST + _SPAN * sigmoid(p[2]), _LEAST + _SPAN * sigmoid(-p[2])
    alpha, precision = down / up, np.exp(-p[1])
    whole = y * ((precision / up) * np.exp(-up * p[0])) + precision / down * np.exp(down * p[0])
    z = alpha * np.log(choose(y > 0.0, y, 1.0)) - (alpha * np.log(up) + p[1] / up + np.log(down))
    return (y > 0.0) * log_wright(z, alpha) - choose(whole < _MOST, whole, np.inf)


def second_order(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> tuple[Numbers, Derivatives]:
    """And by η, s and a: first by log A/B, of which A and B are logistic, then by the chain rule."""
    rises, falls, precision = sigmoid(p[2]), sigmoid(-p[2]), np.exp(-p[1])
    up, down = _LEAST + _SPAN * rises, _LEAST + _SPAN * falls
    alpha, turn = down / up, _SPAN * rises * falls / (up * down)
    turned = turn * ((falls - rises) - turn * (down - up))  # the slope of that, by a
    first, second = y * ((precision / up) * np.exp(-up * p[0])), precision / down * np.exp(down * p[0])
    # the slopes of their logarithms by log A/B are −f and 1 − f, and f's is (B − A)·f − B²
    level, f = first + second, down + (up * down) * p[0]
    rise, of_both = up * level - second, level * f - second
    bent = level * (f * (f + (up - down)) + down * down) + second * (1.0 - 2.0 * f)
    # z's slope and second derivative by that
    away = alpha * (np.log(choose(y > 0.0, y, 1.0)) - (p[1] + np.log(up)))  # as 1/A = 1 + α
    of_z, bent_z = (up - alpha * down) - away, away + (down + 2.0 * alpha * down)
    log_w, count, by_alpha, var, mixed, of_alpha = wright_derivatives(away - (p[1] + np.log(down)), alpha)
    some = y > 0.0
    log_w, count, var, both = some * log_w, some * count, some * var, some * (var * of_z - mixed)
    slope = of_both + some * (count * of_z - by_alpha)
    bent = bent - some * (of_z * (both - mixed) + of_alpha + count * bent_z)
    across, by_both = turn * ((f - down) * rise), turn * (of_both - alpha * count + both / up)
    of_eta = up * up * level + (down - up) * second, rise, across
    of_power = across, by_both, turn * turn * bent - turned * slope
    curvatures = of_eta, (rise, level - var / (up * up), by_both), of_power
    value, slopes = log_w - choose(level < _MOST, level, np.inf), (rise, level - count / up, turn * slope)
    return value, (slopes, curvatures)


def derivatives(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Derivatives:
    """Of that alone."""
    return second_order(y, trials, p)[1]


def start(y: np.ndarray, trials: np.ndarray, offset: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The log of the mean, by e^offset, and log φ by the variance, (3,), of q = 1.5.

    Multiples of φ have a sharp mode near q = 1, which a step in log φ finds.
    """
    if not weights @ y > 0.0:
        return np.array([-np.average(offset, weights=weights), 0.0, 0.0])
    level = float(gamma.start(y, trials, offset, weights)[0])
    log_variance = np.log(np.average((y - np.exp(level + offset)) ** 2, weights=weights) + 1e-300)
    tried = [np.array([level, log_variance - 1.04 * level + step, _NEAR_1]) for step in _STEPS]
    tried.insert(0, np.array([level, log_variance - 1.5 * level, 0.0]))
    some = np.linspace(0, len(y) - 1, min(len(y), _TRIED)).astype(int)
    y, offset, weights = y[some], offset[some], weights[some]
    return max(tried, key=lambda at: weights @ log_density(y, 1.0, (at[0] + offset, at[1], at[2])))


def draw(rng: np.random.Generator, trials: Numbers, p: Sequence[Numbers]) -> Numbers:
    """Amounts; inf where they are too large for a number."""
    up, down = (_LEAST + _SPAN * np.asarray(sigmoid(a)) for a in (p[2], -p[2]))
    with np.errstate(all="ignore"):
        number = poisson.counts(rng, np.exp(down * p[0] - p[1]) / down + np.zeros(np.shape(p[0])))
        some = np.log(number * down) + p[1] + up * p[0], np.log(np.maximum(number, 1.0) * (down / up))
        return np.where(number > 0.0, gamma.draw(rng, trials, some), 0.0)


def read(a: np.ndarray) -> np.ndarray:
    """φ and q of auxiliary numbers, (..., 2)."""
    return np.stack([np.exp(a[..., 0]), 1.0 + _LEAST + _SPAN * zeros.logistic(a[..., 1])], axis=-1)


def unread(read: np.ndarray) -> np.ndarray:
    """The inverse of that."""
    return np.stack([np.log(read[..., 0]), zeros.log_odds((read[..., 1] - 1.0 - _LEAST) / _SPAN)], axis=-1)


FAMILY = Family(
    "tweedie",
    "Tweedie regression",
    domains.AMOUNTS,
    "log",
    log_density,
    derivatives,
    start,
    draw,
    auxiliary=lambda levels, sd: (Auxiliary("phi", LogNormal(0.0, 5.0)), _POWER),
    second_order=second_order,
    read=read,
    unread=unread,
    one_mode=False,
    grouped=True,
    constant=lambda y, trials: -np.log(np.where(y > 0.0, y, 1.0)),
    precise=("phi", -1.0),
)
