"""Logistic regression for labels t = ±1, and the bound of Jaakkola & Jordan (1997) on its likelihood.

The labels are folded into the features: a row is t_n x_n, so that η_n is the margin m and
log L = −log(1 + e^{−m}). The bound is log B = a m² + m/2 + c with a(ξ) = −tanh(ξ/2)/(4ξ) and
c(ξ) = −aξ² + ξ/2 − log(1 + e^ξ); it touches L, in value and slope, at m = ±ξ.
Maclaurin & Adams (2014), §3.1.
"""

from functools import cache
from math import sqrt
from typing import NamedTuple

import numpy as np

from flyrun.experiments.models.features import Linear, signed
from flyrun.experiments.models.likelihood import bent, log_bound, log_likelihood
from flyrun.experiments.models.likelihood import part as part
from flyrun.experiments.models.taylor import Smallest, smallest_constants, subtract_expansion
from flyrun.ground.numerics.compiled import implements
from flyrun.ground.numerics.vector_math import exp_negative, log1p_unit

LOG_CONCAVE = True
LARGEST = (1.0, 0.25, 1.0 / (6.0 * sqrt(3.0)), 0.125)  # |f'|, |f''|, |f'''|, |f''''| of f = log L


class Logistic(NamedTuple):
    """p(t | m) = 1/(1 + e^{−m}), m the margin."""

    n_predictors: int = 1


class JaakkolaJordan(NamedTuple):
    """One parabola in the margin for each datum."""

    curve: np.ndarray  # (N, 2): a_n in [−1/8, 0) and c_n, side by side so that a visit touches one cache line


def bind(features: np.ndarray, target: np.ndarray | None) -> tuple[Logistic, Linear]:
    """Model and features of a dataset. features: (N, D); target: (N,), each −1 or +1, or None (`signed`)."""
    return Logistic(), signed(features, target)


def rebind(model: Logistic, features: np.ndarray, target: np.ndarray) -> tuple[Logistic, Linear]:
    """The same likelihood for other rows, (n, D)."""
    return bind(features, target)


@implements(log_likelihood, Logistic)
def _log_likelihood(model, index, eta, values, slopes):
    for i in range(index.shape[0]):
        margin = eta[i, 0]
        small = exp_negative(-abs(margin))  # never overflows
        values[i] = 0.5 * (margin - abs(margin)) - log1p_unit(small)  # the first term is min(m, 0)
        if slopes is not None:
            slopes[i, 0] = (small if margin > 0.0 else 1.0) / (1.0 + small)


@implements(log_bound, JaakkolaJordan)
def _log_bound(bound, model, index, eta, values, slopes):
    for i in range(index.shape[0]):
        n = index[i]
        margin = eta[i, 0]
        curved = bound.curve[n, 0] * margin
        values[i] = (curved + 0.5) * margin + bound.curve[n, 1]
        if slopes is not None:
            slopes[i, 0] = 2.0 * curved + 0.5


def tight_at(margins: np.ndarray) -> JaakkolaJordan:
    """The bounds that touch the likelihoods at margins ±ξ_n. margins: ξ, (N,), any sign."""
    xi = np.abs(np.asarray(margins, dtype=np.float64))
    safe = np.where(xi < 1e-4, 1.0, xi)
    # tanh(ξ/2)/(4ξ) = 1/8 − ξ²/96 + O(ξ⁴): below 1e-4 the series is exact to the last bit
    a = -np.where(xi < 1e-4, 0.125 - xi * xi / 96.0, np.tanh(safe / 2.0) / (4.0 * safe))
    c = -a * xi * xi + xi / 2.0 - np.logaddexp(0.0, xi)
    return JaakkolaJordan(np.stack([a, c], axis=1))


def untuned_bound(model: Logistic, features: Linear, xi: float) -> JaakkolaJordan:
    """The same ξ for every datum (the paper: 1.5)."""
    return tight_at(np.full(features.rows.shape[0], xi))


def map_bound(model: Logistic, predictors: np.ndarray) -> JaakkolaJordan:
    """Bounds tight at the margins at θ_MAP, shape (N, 1)."""
    return tight_at(predictors[:, 0])


def lower(bound: JaakkolaJordan, by: np.ndarray) -> None:
    """Put the bounds lower, in place, by so much of the log density each, (N,)."""
    bound.curve[:, 1] -= by


def curvature(model: Logistic, predictors: np.ndarray) -> np.ndarray:
    """−∂² log L_n/∂η² = p(1 − p), (N, 1, 1), at margins (N, 1)."""
    small = np.exp(-np.abs(predictors))
    return (small / (1.0 + small) ** 2)[:, :, None]


def local_curvature(model: Logistic, predictors: np.ndarray, reach: np.ndarray) -> np.ndarray:
    """c_n, (N,): how much parabolas tight at margins, (N, 1), must bend to be bounds within ±reach, (N,).

    The most is asked of them on the way to −m, at reach or where Jaakkola and Jordan's parabola touches: f''
    is symmetrical and has one bottom.
    """
    margin = np.abs(predictors[:, 0])
    bend = curvature(model, predictors)[:, 0, 0]
    small = np.exp(-margin)
    share = small / (1.0 + small)  # f'(m)
    step = np.minimum(reach, 2.0 * margin)
    safe = np.maximum(step, 1e-3)
    # f(m) − f(m − d) in the form that each distance loses least of, and a series where either is rounding
    near = np.log1p(share * np.expm1(np.minimum(safe, 1.0)))
    fall = np.where(safe < 1.0, near, np.logaddexp(0.0, safe - margin) - np.log1p(small))
    exact = 2.0 * (fall - share * safe) / safe**2
    series = bend * (1.0 + step / 3.0 * (1.0 - 2.0 * share) + step**2 / 12.0 * (1.0 - 6.0 * bend))
    within = np.maximum(np.where(step < 1e-3, series, exact), bend)
    return np.where(reach < 2.0 * margin, within, -2.0 * tight_at(margin).curve[:, 0])


def least_curvature(predictors: np.ndarray, reach: np.ndarray) -> np.ndarray:
    """The least of −f'', (N,), within ±reach, (N,), of margins, (N, 1)."""
    small = np.exp(-np.abs(predictors[:, 0]) - reach)
    return small / (1.0 + small) ** 2


def expected_pseudo_likelihood(model: Logistic, predictors: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """E L̃_n, (N,), for bounds tight at the margins, (N, 1), when η_n varies by variance, (N, 1, 1).

    To second order in m² − ξ²: c/(8ξ²) · E(m² − ξ²)² with c = tanh(ξ/2)/(2ξ) − p(1 − p), what the bound's
    curvature exceeds the likelihood's by, and E(m² − ξ²)² = 4 ξ² s² + 3 s⁴, s² the variance. c/ξ² → 1/24.
    """
    square, s2 = predictors[:, 0] ** 2, variance[:, 0, 0]
    bounds = -2.0 * tight_at(predictors[:, 0]).curve[:, 0]
    beyond = np.maximum(bounds - curvature(model, predictors)[:, 0, 0], 0.0)
    ratio = np.where(square < 1e-6, 1.0 / 24.0, beyond / np.maximum(square, 1e-6))
    return 0.125 * ratio * (4.0 * square * s2 + 3.0 * s2**2)


implements(bent, JaakkolaJordan)(lambda bound, model, block: -2.0 * bound.curve[block, 0])


@implements(subtract_expansion, Logistic)
def _subtract_expansion(model, index, centres, eta, order, values):
    for i in range(index.shape[0] if order > 0 else 0):
        margin = centres[index[i], 0]
        away = eta[i, 0] - margin
        small = exp_negative(-abs(margin))
        slope = (small if margin > 0.0 else 1.0) / (1.0 + small)
        taken = slope
        if order > 1:
            bend = slope * (1.0 - slope)
            taken -= 0.5 * bend * away
            if order > 2:
                taken += bend * (1.0 - 2.0 * slope) * away * away / 6.0
        values[i] -= taken * away


def _derivatives(margins: np.ndarray) -> tuple[np.ndarray, ...]:
    small = np.exp(-np.abs(margins))
    slope = np.where(margins > 0, small, 1.0) / (1.0 + small)
    bend = small / (1.0 + small) ** 2
    return slope, -bend, bend * (1.0 - 2.0 * slope), bend * (6.0 * bend - 1.0)


@cache
def _smallest(order: int) -> Smallest:
    return smallest_constants(_derivatives, order)


def derivative(model: Logistic, predictors: np.ndarray, order: int) -> np.ndarray:
    """∂^order log L_n/∂η^order, (N,), at margins (N, 1); order 1 to 4."""
    return _derivatives(predictors[:, 0])[order - 1]


def remainder_constants(model: Logistic, predictors: np.ndarray, order: int, local: bool) -> np.ndarray:
    """κ of each datum for T of this order about the margins, (N,); if not local the largest for all."""
    if local and order > 0:
        return _smallest(order).at(predictors[:, 0])
    return np.full(len(predictors), LARGEST[order])
