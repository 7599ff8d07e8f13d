"""Robust regression with Student-t noise, and the Gaussian bound on its likelihood.

r = (y − θᵀx)/σ; log L = −(ν+1)/2 · log(1 + r²/ν) + const. As a function of r² that is convex, so its tangent
at r₀² lies below it: log B = log L(r₀) − (ν+1)/(2(ν+r₀²)) · (r² − r₀²), a parabola in θᵀx that touches L, in
value and slope, at r = ±r₀. Maclaurin & Adams (2014), §4.3 (there ν = 4).
"""

from functools import cache
from math import lgamma, log, pi
from typing import NamedTuple

import numpy as np

from flyrun.experiments.models.features import Linear
from flyrun.experiments.models.likelihood import bent, log_bound, log_likelihood
from flyrun.experiments.models.likelihood import part as part
from flyrun.experiments.models.taylor import Smallest, smallest_constants, subtract_expansion
from flyrun.ground.numerics.compiled import implements
from flyrun.ground.numerics.vector_math import log_positive

LOG_CONCAVE = False
LARGEST = (0.5, 1.0, 1.4571067811865475, 6.0)  # of u/(1 + u²) and its derivatives to the third


class StudentT(NamedTuple):
    """y = θᵀx + σ·t_ν."""

    target: np.ndarray  # y, (N,)
    scale: float  # σ
    nu: float  # ν, degrees of freedom
    log_peak: float  # log L at r = 0
    n_predictors: int = 1


class TangentInSquare(NamedTuple):
    """One Gaussian in r for each datum."""

    curve: np.ndarray  # (N, 2): log B = curve[n, 0] − curve[n, 1]·r²


def bind(
    features: np.ndarray, target: np.ndarray, scale: float = 1.0, nu: float = 4.0
) -> tuple[StudentT, Linear]:
    """Model and features of a dataset. features: (N, D), kept as they are; target: (N,)."""
    log_peak = lgamma((nu + 1) / 2) - lgamma(nu / 2) - 0.5 * log(nu * pi) - log(scale)
    values = np.ascontiguousarray(target, dtype=np.float64)
    return StudentT(values, float(scale), float(nu), log_peak), Linear(np.ascontiguousarray(features))


def rebind(model: StudentT, features: np.ndarray, target: np.ndarray) -> tuple[StudentT, Linear]:
    """The same likelihood for other rows, (n, D)."""
    return bind(features, target, model.scale, model.nu)


@implements(log_likelihood, StudentT)
def _log_likelihood(model, index, eta, values, slopes):
    for i in range(index.shape[0]):
        r = (model.target[index[i]] - eta[i, 0]) / model.scale
        # cut where the square would overflow; log_positive makes a number of NaN, the last term keeps it NaN
        square = min(r * r, 1e300)
        fall = 0.5 * (model.nu + 1.0) * log_positive(1.0 + square / model.nu)
        values[i] = model.log_peak - fall + 0.0 * square
        if slopes is not None:
            slopes[i, 0] = (model.nu + 1.0) * r / ((model.nu + square) * model.scale)


@implements(log_bound, TangentInSquare)
def _log_bound(bound, model, index, eta, values, slopes):
    for i in range(index.shape[0]):
        n = index[i]
        r = (model.target[n] - eta[i, 0]) / model.scale
        values[i] = bound.curve[n, 0] - bound.curve[n, 1] * r * r
        if slopes is not None:
            slopes[i, 0] = 2.0 * bound.curve[n, 1] * r / model.scale


def tight_at(model: StudentT, residuals: np.ndarray) -> TangentInSquare:
    """The bounds that touch the likelihoods at r = ±r₀. residuals: r₀ in units of σ, (N,), any sign."""
    square = np.asarray(residuals, dtype=np.float64) ** 2
    factor = (model.nu + 1.0) / (2.0 * (model.nu + square))
    log_l = model.log_peak - 0.5 * (model.nu + 1.0) * np.log1p(square / model.nu)
    return TangentInSquare(np.stack([log_l + factor * square, factor], axis=1))


def untuned_bound(model: StudentT, features: Linear, xi: float) -> TangentInSquare:
    """The same r₀ = ξ for every datum (the paper: 0)."""
    return tight_at(model, np.full(len(model.target), xi))


def map_bound(model: StudentT, predictors: np.ndarray) -> TangentInSquare:
    """Bounds tight at the residuals at θ_MAP. predictors: θ_MAPᵀx_n, (N, 1)."""
    return tight_at(model, (model.target - predictors[:, 0]) / model.scale)


def lower(bound: TangentInSquare, by: np.ndarray) -> None:
    """Put the bounds lower, in place, by so much of the log density each, (N,)."""
    bound.curve[:, 0] -= by


def curvature(model: StudentT, predictors: np.ndarray) -> np.ndarray:
    """−∂² log L_n/∂η² = (ν+1)(ν − r²)/((ν + r²)²σ²), (N, 1, 1), at (N, 1); outliers' is negative."""
    square = ((model.target[:, None] - predictors) / model.scale) ** 2
    return ((model.nu + 1.0) * (model.nu - square) / ((model.nu + square) * model.scale) ** 2)[:, :, None]


def local_curvature(model: StudentT, predictors: np.ndarray, reach: np.ndarray) -> np.ndarray:
    """c_n, (N,): how much parabolas tight at predictors, (N, 1), must bend to be bounds within ±reach, (N,).

    Outliers' may bend upwards. Along either way what is asked of them has no peak before that of the tangent
    in r², at −r: it is most where they are tight, at reach, or there.
    """
    r = np.abs(model.target - predictors[:, 0]) / model.scale
    step, whole = reach / model.scale, model.nu + r * r
    asked = np.maximum(_asked(model.nu, r, np.minimum(step, 2.0 * r)), _asked(model.nu, r, -step))
    asked = np.maximum(asked, (model.nu - r * r) / whole**2)
    return (model.nu + 1.0) * np.where(step < 2.0 * r, asked, 1.0 / whole) / model.scale**2


def _asked(nu: float, r: np.ndarray, step: np.ndarray) -> np.ndarray:
    """2[f(r) − f'(r)t − f(r − t)]/t² of f = −log(1 + r²/ν)/2, at steps t, (N,)."""
    whole = nu + r * r
    safe = np.where(np.abs(step) < 1e-8, 1e-8, step)
    y = (safe * safe - 2.0 * r * safe) / whole
    # log(1 + y) − y: a series where the difference would be rounding
    series = y * y * (-0.5 + y * (1 / 3 + y * (-0.25 + y * (0.2 - y / 6.0))))
    beyond = np.where(np.abs(y) < 1e-3, series, np.log1p(np.maximum(y, -1.0 + 1e-300)) - y)
    return 1.0 / whole + beyond / safe**2


def expected_pseudo_likelihood(model: StudentT, predictors: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """E L̃_n, (N,), for bounds tight at predictors, (N, 1), when η_n varies by variance, (N, 1, 1).

    To second order in r² − r₀²: (ν+1)/4 · E(r² − r₀²)²/(ν + r₀²)², with E(r² − r₀²)² = 4 r₀² s² + 3 s⁴ and s²
    the variance in units of σ².
    """
    square = ((model.target - predictors[:, 0]) / model.scale) ** 2
    s2 = variance[:, 0, 0] / model.scale**2
    return 0.25 * (model.nu + 1.0) * (4.0 * square * s2 + 3.0 * s2**2) / (model.nu + square) ** 2


implements(bent, TangentInSquare)(lambda bound, model, block: 2.0 * bound.curve[block, 1] / model.scale**2)


@implements(subtract_expansion, StudentT)
def _subtract_expansion(model, index, centres, eta, order, values):
    for i in range(index.shape[0] if order > 0 else 0):
        r = (model.target[index[i]] - centres[index[i], 0]) / model.scale
        away = (centres[index[i], 0] - eta[i, 0]) / model.scale  # of r
        whole = model.nu + r * r
        taken = r
        if order > 1:
            taken += 0.5 * (model.nu - r * r) / whole * away
            if order > 2:
                taken -= r * (3.0 * model.nu - r * r) / (whole * whole) * away * away / 3.0
        values[i] += (model.nu + 1.0) / whole * taken * away


def _derivatives(u: np.ndarray) -> tuple[np.ndarray, ...]:
    """u/(1 + u²) and three derivatives: −∂ log L/∂r in units of (ν + 1)/√ν, with u = r/√ν."""
    square = u * u
    whole = 1.0 + square
    return (
        u / whole,
        (1.0 - square) / whole**2,
        2.0 * u * (square - 3.0) / whole**3,
        -6.0 * (square * square - 6.0 * square + 1.0) / whole**4,
    )


@cache
def _smallest(order: int) -> Smallest:
    return smallest_constants(_derivatives, order)


def derivative(model: StudentT, predictors: np.ndarray, order: int) -> np.ndarray:
    """∂^order log L_n/∂η^order, (N,), at predictors (N, 1); order 1 to 4."""
    width = model.scale * model.nu**0.5  # of u, which falls as η grows
    slopes = _derivatives((model.target - predictors[:, 0]) / width)[order - 1]
    return -(model.nu + 1.0) / (-width) ** order * slopes


def remainder_constants(model: StudentT, predictors: np.ndarray, order: int, local: bool) -> np.ndarray:
    """κ of each datum for T of this order about the predictors, (N,); if not local the largest for all."""
    root = model.nu**0.5
    if local and order > 0:
        constants = _smallest(order).at((model.target - predictors[:, 0]) / (model.scale * root))
    else:
        constants = np.full(len(predictors), LARGEST[order])
    return constants * ((model.nu + 1.0) / root / model.scale / (root * model.scale) ** order)
