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
from flyrun.ground.numerics.wright import log_wright, wright_moments

_LEAST = 0.01  # of A and of B
_SPAN = 1.0 - 2.0 * _LEAST
_MOST = 1e11  # a level beyond which its difference from log W has no digits: there no power is near 1
_NEAR_1 = -3.5
_TRIED = 400  # rows
_STEPS = np.arange(-0.6, 0.6, 0.03)


def log_density(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Numbers:
    """Of amounts y from 0."""
    up, down = _LEAST + _SPAN * sigmoid(p[2]), _LEAST + _SPAN * sigmoid(-p[2])
    alpha, dispersion = down / up, np.exp(-p[1])
    whole = y * (dispersion / up) * np.exp(-up * p[0]) + dispersion / down * np.exp(down * p[0])
    log_y = np.log(choose(y > 0.0, y, np.nan))
    of_y = log_wright(alpha * log_y - (alpha * np.log(up) + p[1] / up + np.log(down)), alpha)
    return of_y - choose(whole < _MOST, whole, np.inf)


def second_order(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> tuple[Numbers, Derivatives]:
    """And by η, s and a: first by log A/B, of which A and B are logistic, then by the chain rule."""
    rises, falls = sigmoid(p[2]), sigmoid(-p[2])
    up, down = _LEAST + _SPAN * rises, _LEAST + _SPAN * falls
    alpha, dispersion = down / up, np.exp(-p[1])
    turn = _SPAN * rises * falls / (up * down)
    turned = turn * ((falls - rises) - turn * (down - up))  # the slope of that, by a
    first = y * (dispersion / up) * np.exp(-up * p[0])
    second = dispersion / down * np.exp(down * p[0])
    # the slopes of their logarithms by a are −(u + B) and A − u, and those of the slopes `more`
    u, rise, level = (up * down) * p[0], up * first - down * second, first + second
    of_first, of_second, more = u + down, up - u, up * down + (up - down) * u
    by_a = first * of_first - second * of_second
    bent = first * (of_first * of_first) + second * (of_second * of_second) + more * level

    log_y = np.log(choose(y > 0.0, y, np.nan))
    away = alpha * log_y - alpha * (p[1] + np.log(up))  # as 1/A = 1 + α
    by_z = (up - alpha * down) - away
    log_w, count, q, var, both, of_q, trigammas = wright_moments(away - (p[1] + np.log(down)), alpha, by_z)
    of_s, mixed = var / (up * up), alpha * count - both / up
    of_a = (1.0 + alpha * down) * count - q - alpha * alpha * trigammas + of_q
    slope, mixed_s, across = by_a + q, by_a - mixed, turn * (u * rise)
    by_both, by_power = turn * mixed_s, turn * turn * (bent - of_a) - turned * slope
    return log_w - choose(level < _MOST, level, np.inf), (
        (rise, level - count / up, turn * slope),
        (
            (up * up * first + down * down * second, rise, across),
            (rise, level - of_s, by_both),
            (across, by_both, by_power),
        ),
    )


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
    variance = np.average((y - np.exp(level + offset)) ** 2, weights=weights)
    log_variance = np.log(max(variance, 1e-300))
    usual = np.array([level, log_variance - 1.5 * level, 0.0])
    some = np.linspace(0, len(y) - 1, min(len(y), _TRIED)).astype(int)
    near_1 = [np.array([level, log_variance - 1.04 * level + step, _NEAR_1]) for step in _STEPS]

    def likelihood(at: np.ndarray) -> float:
        return float(weights[some] @ log_density(y[some], 1.0, (at[0] + offset[some], at[1], at[2])))

    return max((usual, *near_1), key=likelihood)


def draw(rng: np.random.Generator, trials: Numbers, p: Sequence[Numbers]) -> Numbers:
    """Amounts; inf where they are too large for a number."""
    up, down = (_LEAST + _SPAN * np.asarray(sigmoid(a)) for a in (p[2], -p[2]))
    alpha = down / up
    with np.errstate(all="ignore"):
        number = poisson.counts(rng, np.exp(down * p[0] - p[1]) / down + np.zeros(np.shape(p[0])))
        log_mean = np.log(number) + np.log(alpha * up) + p[1] + up * p[0]
        some = (log_mean, np.log(np.maximum(number, 1.0) * alpha))
        return np.where(number > 0.0, gamma.draw(rng, trials, some), 0.0)


def read(a: np.ndarray) -> np.ndarray:
    """φ and q of auxiliary numbers, (..., 2)."""
    return np.stack([np.exp(a[..., 0]), 1.0 + _LEAST + _SPAN * zeros.logistic(a[..., 1])], axis=-1)


def unread(read: np.ndarray) -> np.ndarray:
    """The inverse of that."""
    return np.stack([np.log(read[..., 0]), zeros.log_odds((read[..., 1] - 1.0 - _LEAST) / _SPAN)], axis=-1)


def _auxiliary(levels: int, sd: float) -> tuple[Auxiliary, ...]:
    power = Auxiliary("power", Normal(0.0, 2.0), "logit_power", "of logit power in (1.01, 1.99)")
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
    second_order=second_order,
    read=read,
    unread=unread,
    one_mode=False,
    grouped=True,
    constant=lambda y, trials: -np.log(np.where(y > 0.0, y, 1.0)),
    precise=("phi", -1.0),
)
