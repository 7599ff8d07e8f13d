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


def _parts(a: Numbers) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """A, B, the slope of log A/B by a, and the slope of that."""
    rises, falls = sigmoid(a), sigmoid(-a)
    up, down = _LEAST + _SPAN * rises, _LEAST + _SPAN * falls
    turn = _SPAN * rises * falls / (up * down)
    return up, down, turn, turn * ((falls - rises) - turn * (down - up))


def log_density(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Numbers:
    """Of amounts y from 0, without W."""
    (up, down, _, _), precision = _parts(p[2]), np.exp(-p[1])
    level = y * ((precision / up) * np.exp(-up * p[0])) + precision / down * np.exp(down * p[0])
    return -choose(level < _MOST, level, np.inf)


def derivatives(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Derivatives:
    """Of that, by η, s and a: by log A/B, f's slope is (B − A)·f − B², then by a."""
    (up, down, turn, turned), precision = _parts(p[2]), np.exp(-p[1])
    second = precision / down * np.exp(down * p[0])
    level, f = y * ((precision / up) * np.exp(-up * p[0])) + second, down + (up * down) * p[0]
    rise, slope = up * level - second, level * f - second
    bent = level * (f * (f + (up - down)) + down * down) + second * (1.0 - 2.0 * f)
    of_eta, across, by_both = up * up * level + (down - up) * second, turn * ((f - down) * rise), turn * slope
    of_power = across, by_both, turn * turn * bent - turned * slope
    return (rise, level, by_both), ((of_eta, rise, across), (rise, level, by_both), of_power)


def alone(y: Numbers, trials: Numbers, a: Sequence[Numbers]) -> Numbers:
    """log W, of amounts above 0."""
    up, down, _, _ = _parts(a[1])
    z = (down / up) * (np.log(choose(y > 0.0, y, 1.0)) - (a[0] + np.log(up))) - (a[0] + np.log(down))
    return (y > 0.0) * log_wright(z, down / up)


def alone_derivatives(y: Numbers, trials: Numbers, a: Sequence[Numbers]) -> Derivatives:
    """Of that, by s and a: by z and log α, which is −log A/B, then by the chain rule."""
    (up, down, turn, turned), some = _parts(a[1]), 1.0 * (y > 0.0)
    alpha = down / up
    away = alpha * (np.log(choose(y > 0.0, y, 1.0)) - (a[0] + np.log(up)))  # as 1/A = 1 + α
    of_z, bent_z = (up - alpha * down) - away, away + (down + 2.0 * alpha * down)
    _, count, by_alpha, var, mixed, of_alpha = wright_derivatives(away - (a[0] + np.log(down)), alpha)
    both, slope = var * of_z - mixed, count * of_z - by_alpha
    bent = turned * slope + turn * turn * (of_z * (both - mixed) + of_alpha + count * bent_z)
    by_both = (turn * some) * (both / up - alpha * count)
    return (-some * count / up, turn * some * slope), (
        (-some * var / (up * up), by_both),
        (by_both, -some * bent),
    )


def start(y: np.ndarray, trials: np.ndarray, offset: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """By mean and variance, of q = 1.5 or, where multiples of φ have a sharp mode, near 1, (3,)."""
    if not weights @ y > 0.0:
        return np.array([-np.average(offset, weights=weights), 0.0, 0.0])
    level = float(gamma.start(y, trials, offset, weights)[0])
    log_variance = np.log(np.average((y - np.exp(level + offset)) ** 2, weights=weights) + 1e-300)
    some = np.linspace(0, len(y) - 1, min(len(y), _TRIED)).astype(int)
    y, offset, weights = y[some], offset[some], weights[some]
    tried = [[level, log_variance - 1.04 * level + step, _NEAR_1] for step in _STEPS]
    tried.insert(0, [level, log_variance - 1.5 * level, 0.0])
    each = [log_density(y, 1.0, [at[0] + offset, *at[1:]]) + alone(y, 1.0, at[1:]) for at in tried]
    return np.array(tried[np.nan_to_num(np.array(each) @ weights, nan=-np.inf).argmax()])


def draw(rng: np.random.Generator, trials: Numbers, p: Sequence[Numbers]) -> Numbers:
    """Amounts; inf where they are too large for a number."""
    up, down = (_LEAST + _SPAN * np.asarray(sigmoid(a)) for a in (p[2], -p[2]))
    with np.errstate(all="ignore"):
        number = poisson.counts(rng, np.exp(down * p[0] - p[1]) / down + np.zeros(np.shape(p[0])))
        some = np.log(number * down) + p[1] + up * p[0], np.log(np.maximum(number, 1.0) * (down / up))
        return np.where(number > 0.0, gamma.draw(rng, trials, some), 0.0)


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
    alone=alone,
    alone_derivatives=alone_derivatives,
    alone_of_logs=True,
    read=lambda a: zeros.read_last(a) * (1.0, _SPAN) + (0.0, 1.0 + _LEAST),
    unread=lambda read: zeros.unread_last((read - (0.0, 1.0 + _LEAST)) / (1.0, _SPAN)),
    one_mode=False,
    grouped=True,
    constant=lambda y, trials: -np.log(np.where(y > 0.0, y, 1.0)),
    precise=("phi", -1.0),
)
