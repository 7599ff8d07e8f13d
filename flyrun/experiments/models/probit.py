"""Probit regression for labels t = ±1, and the parabola of curvature 1 below its likelihood.

The labels are folded into the features as in logistic regression: η_n is the margin m, log L = log Φ(m) = f.
With s = f' = φ/Φ and d = s + m, by differentiation −f'' = c = sd, f''' = cd − s(1 − c) and
f'''' = 2c(1 − c) − (s + d)f'''. 0 < c < 1 (Sampford 1953, Some inequalities on Mill's ratio), so that
log B = f(ξ) + s(ξ)(m − ξ) − ½(m − ξ)² lies below f for any ξ and touches it, in value and slope, at m = ξ, as
Böhning's (1992) does for softmax.

Far below 0 these differences cancel. There s = x + d with x = −m and d = 1/(x + e), e = 2/(x + g),
g = 3/(x + …), Laplace's continued fraction of Mills' ratio (Abramowitz & Stegun 26.2.14), by which
1 − c = d(e − d) and f''' = cde(g − e), since 2d − e = de(g − e).
"""

from functools import cache
from math import erfc, exp, log, log1p, pi, sqrt
from typing import NamedTuple

import numpy as np
from scipy.special import erfcx, log_ndtr

from flyrun.experiments.models.features import Linear, signed
from flyrun.experiments.models.likelihood import bent, log_bound, log_likelihood
from flyrun.experiments.models.likelihood import part as part
from flyrun.experiments.models.taylor import BothSides, smallest_constants, subtract_expansion
from flyrun.ground.numerics.compiled import implements, plain_jit

LOG_CONCAVE = True
LARGEST = (np.inf, 1.0, 0.295719, 0.188957)  # |f'|, |f''|, |f'''|, |f''''| rounded up
_TAIL = -5.0  # from here down by the fraction: _TERMS of it are its value to the last bit
_TERMS = 30
_HALF_LOG_2_PI = 0.5 * log(2.0 * pi)


class Probit(NamedTuple):
    """p(t | m) = Φ(m), m the margin."""

    n_predictors: int = 1


class UnitParabola(NamedTuple):
    """One parabola in the margin for each datum, all of curvature 1."""

    tangent: np.ndarray  # (N, 2): log B = −½m² + tangent[n, 0]·m + tangent[n, 1]


def bind(features: np.ndarray, target: np.ndarray | None) -> tuple[Probit, Linear]:
    """Model and features of a dataset. features: (N, D); target: (N,), each −1 or +1, or None (`signed`)."""
    return Probit(), signed(features, target)


def rebind(model: Probit, features: np.ndarray, target: np.ndarray) -> tuple[Probit, Linear]:
    """The same likelihood for other rows, (n, D)."""
    return bind(features, target)


@plain_jit
def _fraction(x):
    """d, e and g of the fraction at x = −m ≥ 5; numbers or arrays."""
    e = g = rest = 0.0 * x
    for k in range(_TERMS, 0, -1):
        e, g, rest = rest, e, k / (x + rest)
    return rest, e, g


@plain_jit
def value_and_slope(margin):
    """log Φ and φ/Φ at one margin."""
    if margin < _TAIL:
        slope = _fraction(-margin)[0] - margin
        # cut where the square would overflow
        return -0.5 * min(margin * margin, 1e300) - _HALF_LOG_2_PI - log(slope), slope
    beyond = 0.5 * erfc(abs(margin) / sqrt(2.0))  # Φ(−|m|)
    slope = exp(-0.5 * margin * margin - _HALF_LOG_2_PI) / (beyond if margin < 0.0 else 1.0 - beyond)
    return (log(beyond) if margin < 0.0 else log1p(-beyond)), slope


@implements(log_likelihood, Probit)
def _log_likelihood(model, index, eta, values, slopes):
    for i in range(index.shape[0]):
        values[i], slope = value_and_slope(eta[i, 0])
        if slopes is not None:
            slopes[i, 0] = slope


@implements(log_bound, UnitParabola)
def _log_bound(bound, model, index, eta, values, slopes):
    for i in range(index.shape[0]):
        n = index[i]
        margin = eta[i, 0]
        values[i] = (bound.tangent[n, 0] - 0.5 * margin) * margin + bound.tangent[n, 1]
        if slopes is not None:
            slopes[i, 0] = bound.tangent[n, 0] - margin


class _Parts(NamedTuple):
    """What f and its derivatives are made of, each like the margins."""

    slope: np.ndarray  # s
    above: np.ndarray  # d = s + m
    bend: np.ndarray  # c
    left: np.ndarray  # 1 − c
    third: np.ndarray  # f'''


def _parts(margins: np.ndarray) -> _Parts:
    margins = np.asarray(margins, dtype=np.float64)
    tail = margins < _TAIL
    near = np.maximum(margins, _TAIL)
    slope = sqrt(2.0 / pi) / erfcx(-near / sqrt(2.0))
    bend = slope * (slope + near)
    third = bend * (slope + near) - slope * (1.0 - bend)
    d, e, g = _fraction(np.maximum(-margins, -_TAIL))
    return _Parts(
        np.where(tail, d - margins, slope),
        np.where(tail, d, slope + near),
        np.where(tail, (d - margins) * d, bend),
        np.where(tail, d * (e - d), 1.0 - bend),
        np.where(tail, (d - margins) * d * d * e * (g - e), third),
    )


def tight_at(margins: np.ndarray) -> UnitParabola:
    """The bounds that touch the likelihoods at margins ξ_n. margins: (N,), any sign."""
    xi = np.asarray(margins, dtype=np.float64)
    parts = _parts(xi)
    # log Φ + ½ξ², which in the tail is −log s − ½ log 2π
    height = np.where(
        xi < _TAIL, -np.log(np.maximum(parts.slope, 1e-300)) - _HALF_LOG_2_PI, log_ndtr(xi) + 0.5 * xi**2
    )
    return UnitParabola(np.stack([parts.above, height - parts.above * xi], axis=1))


def untuned_bound(model: Probit, features: Linear, xi: float) -> UnitParabola:
    """The same ξ for every datum."""
    return tight_at(np.full(features.rows.shape[0], xi))


def map_bound(model: Probit, predictors: np.ndarray) -> UnitParabola:
    """Bounds tight at the margins at θ_MAP, shape (N, 1)."""
    return tight_at(predictors[:, 0])


def lower(bound: UnitParabola, by: np.ndarray) -> None:
    """Put the bounds lower, in place, by so much of the log density each, (N,)."""
    bound.tangent[:, 1] -= by


def curvature(model: Probit, predictors: np.ndarray) -> np.ndarray:
    """−∂² log L_n/∂η² = s(s + m), (N, 1, 1), at margins (N, 1)."""
    return _parts(predictors).bend[:, :, None]


def expected_pseudo_likelihood(model: Probit, predictors: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """E L̃_n, (N,), for bounds tight at the margins, (N, 1), when η_n varies by variance, (N, 1, 1).

    To second order: what the bound's curvature, 1, exceeds the likelihood's by, times half the variance.
    """
    return 0.5 * _parts(predictors[:, 0]).left * variance[:, 0, 0]


implements(bent, UnitParabola)(lambda bound, model, block: 1.0)


@implements(subtract_expansion, Probit)
def _subtract_expansion(model, index, centres, eta, order, values):
    for i in range(index.shape[0] if order > 0 else 0):
        margin = centres[index[i], 0]
        away = eta[i, 0] - margin
        slope = value_and_slope(margin)[1]
        taken = slope
        if order > 1:
            d, e, g = _fraction(-margin) if margin < _TAIL else (slope + margin, 0.0, 0.0)
            bend = slope * d
            taken -= 0.5 * bend * away
            if order > 2:
                third = bend * d * e * (g - e) if margin < _TAIL else bend * d - slope * (1.0 - bend)
                taken += third * away * away / 6.0
        values[i] -= taken * away


def _derivatives(margins: np.ndarray) -> tuple[np.ndarray, ...]:
    parts = _parts(margins)
    fourth = 2.0 * parts.bend * parts.left - (parts.slope + parts.above) * parts.third
    return parts.slope, -parts.bend, parts.third, fourth


def _mirrored(margins: np.ndarray) -> tuple[np.ndarray, ...]:
    """Those of f + ½m² at −margins, by them: from order 2 on remainders know nothing of the square."""
    parts = _parts(-margins)
    return -parts.above, parts.left, -parts.third, _derivatives(-margins)[3]


@cache
def _smallest(order: int) -> BothSides:
    return BothSides(smallest_constants(_mirrored, order), smallest_constants(_derivatives, order))


def derivative(model: Probit, predictors: np.ndarray, order: int) -> np.ndarray:
    """∂^order log L_n/∂η^order, (N,), at margins (N, 1); order 1 to 4."""
    return _derivatives(predictors[:, 0])[order - 1]


def remainder_constants(model: Probit, predictors: np.ndarray, order: int, local: bool) -> np.ndarray:
    """κ of each datum for T of this order, 1 to 3, about the margins, (N,); if not local the largest for all.

    Order 1's is 1 wherever the margin is, since far below 0 the slope falls by that.
    """
    if local and order > 1:
        return _smallest(order).at(predictors[:, 0])
    return np.full(len(predictors), LARGEST[order])
