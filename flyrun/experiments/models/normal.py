"""Mean and log standard deviation of numbers that are taken for normal: y_n ~ N(μ, e^{2τ}), η = (μ, τ).

The toy of Bardenet, Doucet & Holmes (2014; 2017, §2): log L_n is a quadratic in y_n, and so is what a Taylor
polynomial leaves out of it. Its range over all data is that between their least and their greatest.
"""

from math import exp, log, pi
from typing import NamedTuple

import numpy as np

from flyrun.experiments.models.likelihood import log_likelihood
from flyrun.experiments.models.likelihood import part as part
from flyrun.experiments.models.multi_linear import MultiLinear
from flyrun.experiments.models.ranges import range_width, reach
from flyrun.experiments.models.taylor import subtract_expansion
from flyrun.ground.numerics.compiled import implements, inline_jit

LOG_CONCAVE = False


class Normal(NamedTuple):
    """log L = −τ − ½(y − μ)²e^{−2τ} − ½ log 2π."""

    target: np.ndarray  # y, (N,)
    n_predictors: int = 2

    @property
    def names(self) -> tuple[str, ...]:
        """Of μ and τ."""
        return ("mu", "log_sd")


class QuadraticRange(NamedTuple):
    """What tells the range: T_k, k = order, about (μ̂, τ̂), and the ends of the data."""

    order: int
    centre: np.ndarray  # (2,)
    lowest: float
    highest: float


class QuadraticBounds(NamedTuple):
    """T_k, k = order, about (μ̂, τ̂): with z = (y − μ̂)e^{−τ̂}, R_k,n is a quadratic in z_n.

    So |R_k,n' − R_k,n| ≤ (1 + |z_n| + z_n²)·M, M the largest change of its three coefficients.
    """

    order: int
    centre: np.ndarray  # (2,)


def bind(features: np.ndarray, target: np.ndarray) -> tuple[Normal, MultiLinear]:
    """Model and features of a dataset. features: (N, D); target: (N,)."""
    return Normal(np.asarray(target, float)), MultiLinear(np.ascontiguousarray(features))


def rebind(model: Normal, features: np.ndarray, target: np.ndarray) -> tuple[Normal, MultiLinear]:
    """The same likelihood for other rows, (n, D)."""
    return bind(features, target)


@implements(log_likelihood, Normal)
def _log_likelihood(model, index, eta, values, slopes):
    precision = 0.0
    for i in range(index.shape[0]):
        if i == 0 or eta[i, 1] != eta[i - 1, 1]:  # data without features share one η: one exponential
            precision = exp(-2.0 * eta[i, 1])
        away = model.target[index[i]] - eta[i, 0]
        square = precision * away * away
        values[i] = -eta[i, 1] - 0.5 * square - 0.5 * log(2.0 * pi)
        if slopes is not None:
            slopes[i, 0] = precision * away
            slopes[i, 1] = square - 1.0


def sums(model: Normal, rows: np.ndarray, thetas: np.ndarray) -> np.ndarray:
    """Σ log L_n, (G,), at positions (G, 2) of data that see θ itself, by their number, mean and squares."""
    count, mean = len(model.target), model.target.mean()
    spread = ((model.target - mean) ** 2).sum()
    squares = spread + count * (mean - thetas[:, 0]) ** 2
    return -count * (thetas[:, 1] + 0.5 * log(2.0 * pi)) - 0.5 * squares * np.exp(-2.0 * thetas[:, 1])


def curvature(model: Normal, predictors: np.ndarray) -> np.ndarray:
    """−∂² log L_n/∂η², (N, 2, 2), at predictors (N, 2); not definite far from the mode."""
    precision = np.exp(-2.0 * predictors[:, 1])
    away = model.target - predictors[:, 0]
    bends = np.empty((len(away), 2, 2))
    bends[:, 0, 0] = precision
    bends[:, 0, 1] = bends[:, 1, 0] = 2.0 * precision * away
    bends[:, 1, 1] = 2.0 * precision * away**2
    return bends


@implements(subtract_expansion, Normal)
def _subtract_expansion(model, index, centres, eta, order, values):
    for i in range(index.shape[0] if order > 0 else 0):
        n = index[i]
        precision = exp(-2.0 * centres[n, 1])
        away = model.target[n] - centres[n, 0]
        first, second = eta[i, 0] - centres[n, 0], eta[i, 1] - centres[n, 1]
        square = precision * away * away
        values[i] -= precision * away * first + (square - 1.0) * second
        if order > 1:
            bent = 0.5 * precision * first * first + 2.0 * precision * away * first * second
            values[i] += bent + square * second * second


def data_range(model: Normal, features: MultiLinear, centre: np.ndarray, order: int) -> QuadraticRange:
    """The range of what T_k, k = order ≤ 2, about θ = centre, (2,), leaves out, of data that see θ itself.

    Reads the data's ends, not the likelihood: no query.
    """
    lowest, highest = float(model.target.min()), float(model.target.max())
    return QuadraticRange(order, np.array(centre, float), lowest, highest)


def data_bounds(model: Normal, centre: np.ndarray, order: int) -> tuple[QuadraticBounds, np.ndarray]:
    """Of what T_k, k = order ≤ 2, about θ = centre, (2,), leaves out: what M is made of, and c_n, (N,).

    Reads the data themselves, not the likelihood: no query.
    """
    z = np.abs(model.target - centre[0]) * np.exp(-centre[1])
    return QuadraticBounds(order, np.array(centre, float)), 1.0 + z + z**2


@inline_jit
def _coefficients(order, centre, theta):
    """What is left of log L_n, a + b y' + c y'², y' = y − μ̂: (a, b, c)."""
    precision, there = exp(-2.0 * theta[1]), exp(-2.0 * centre[1])
    first, second = theta[0] - centre[0], theta[1] - centre[1]
    by_none, by_one, by_two = -theta[1] - 0.5 * precision * first * first, precision * first, -0.5 * precision
    if order > 0:
        by_none += second
        by_one -= there * first
        by_two -= there * second
    if order > 1:
        by_none += 0.5 * there * first * first
        by_one += 2.0 * there * first * second
        by_two += there * second * second
    return by_none, by_one, by_two


@implements(reach, QuadraticBounds)
def _reach(bounds, theta, proposal, phi, proposed_phi):
    none, linear, square = _coefficients(bounds.order, bounds.centre, theta)
    other_none, other_linear, other_square = _coefficients(bounds.order, bounds.centre, proposal)
    sd = exp(bounds.centre[1])
    return max(abs(other_none - none), sd * abs(other_linear - linear), sd * sd * abs(other_square - square))


@implements(range_width, QuadraticRange)
def _range_width(ranges, theta, proposal, phi, proposed_phi):
    _, linear, square = _coefficients(ranges.order, ranges.centre, theta)
    _, other_linear, other_square = _coefficients(ranges.order, ranges.centre, proposal)
    linear, square = other_linear - linear, other_square - square
    low, high = ranges.lowest - ranges.centre[0], ranges.highest - ranges.centre[0]
    at_low, at_high = (linear + square * low) * low, (linear + square * high) * high
    least, most = min(at_low, at_high), max(at_low, at_high)
    if square != 0.0 and low < -0.5 * linear / square < high:
        top = -0.25 * linear * linear / square
        least, most = min(least, top), max(most, top)
    return most - least
