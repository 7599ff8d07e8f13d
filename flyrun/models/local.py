"""Bounds of two levels: a tight one where the posterior is, one that holds everywhere beyond. Ours.

A parabola below a log likelihood f everywhere bends more than f itself does. Within the ellipsoid
E = {(θ − θ̂)ᵀH(θ − θ̂) ≤ r²}, H the posterior's curvature at θ̂, a predictor is never further from η̂_n than
w_n = r·s_n, s_n² = x_nᵀH⁻¹x_n, and there the tangent needs only to bend by
c_n = sup 2[f(η̂) + f'(η̂)d − f(η̂ + d)]/d² over 0 < |d| ≤ w_n, which tends to −f'' as data grow: so
Σ E L̃_n falls like N^(−1/2). Beyond E another bound serves, so that nothing is cut off: both are below the
likelihood where they are used, their products are pseudo-priors on either side, and the border is a jump in
the pseudo-prior which the pseudo-likelihoods make up for.
"""

from typing import Any, NamedTuple

import numpy as np

from flyrun.models.base import dense, log_base, log_beyond
from flyrun.models.likelihood import Quadratic, enter, log_bound, quadratic
from flyrun.models.passes import added, over_blocks
from flyrun.numerics.compiled import copy_into, dot_jit, implements, inline_jit
from flyrun.numerics.rows import first_dot


class Ellipsoid(NamedTuple):
    """E, and on which side of its border the last two positions asked for are."""

    centre: np.ndarray  # θ̂, (P,)
    curvature: np.ndarray  # H, (P, P)
    square: float  # r²
    away: np.ndarray  # (P,): workspace
    asked: np.ndarray  # (2, P); NaN, which no position equals, while none was
    answers: np.ndarray  # (2,) bool
    latest: np.ndarray  # (1,) int64: which of the two was last asked for


def ellipsoid(centre: np.ndarray, curvature: np.ndarray, radius: float) -> Ellipsoid:
    """E = {(θ − centre)ᵀ curvature (θ − centre) ≤ radius²}."""
    size = len(centre)
    asked = np.full((2, size), np.nan), np.zeros(2, np.bool_), np.zeros(1, np.int64)
    matrix = np.ascontiguousarray((curvature + curvature.T) / 2.0)
    return Ellipsoid(np.array(centre, np.float64), matrix, float(radius) ** 2, np.zeros(size), *asked)


@dot_jit
def _square(matrix, away):
    """awayᵀ matrix away of a symmetric matrix, from its lower half."""
    total = 0.0
    for d in range(away.shape[0]):
        total += away[d] * (2.0 * first_dot(matrix, d, away, d) + matrix[d, d] * away[d])
    return total


@inline_jit
def inside(region, theta):
    """Whether θ, (P,), is in E; what is not a number is not. Asked again of the same θ it is recalled."""
    for slot in range(2):
        differing = 0
        for d in range(theta.shape[0]):
            differing += region.asked[slot, d] != theta[d]
        if differing == 0:
            region.latest[0] = slot
            return region.answers[slot]
    slot = 1 - region.latest[0]
    region.latest[0] = slot
    copy_into(region.asked[slot], theta)
    for d in range(theta.shape[0]):
        region.away[d] = theta[d] - region.centre[d]
    region.answers[slot] = _square(region.curvature, region.away) <= region.square
    return region.answers[slot]


class LocalBound(NamedTuple):
    """A parabola for each datum within E, of one predictor, and a model's bounds that hold beyond."""

    # (N, 4): η̂_n, log B_n there, its slope, and c_n, side by side so that a visit touches one cache line
    parabola: np.ndarray
    beyond: Any
    region: Ellipsoid
    is_inside: np.ndarray  # (1,) bool: on which side the bounds are being looked at


@implements(enter, LocalBound)
def _enter(bound, theta):
    bound.is_inside[0] = inside(bound.region, theta)


@implements(log_bound, LocalBound)
def _log_bound(bound, model, index, eta, values, slopes):
    if bound.is_inside[0]:
        for i in range(index.shape[0]):
            n = index[i]
            away = eta[i, 0] - bound.parabola[n, 0]
            bent = bound.parabola[n, 3] * away
            values[i] = bound.parabola[n, 1] + (bound.parabola[n, 2] - 0.5 * bent) * away
            if slopes is not None:
                slopes[i, 0] = bound.parabola[n, 2] - bent
    else:
        log_bound(bound.beyond, model, index, eta, values, slopes)


def collapse(bound: LocalBound, features: Any) -> Quadratic:
    """Σ_n log B_n within E as a quadratic in θ about θ̂; O(N D²), once."""

    def work(block: slice) -> tuple[np.ndarray, np.ndarray, float]:
        rows, curve = features.rows[block].astype(np.float64), bound.parabola[block]
        return rows.T @ (rows * curve[:, 3:]), curve[:, 2] @ rows, curve[:, 1].sum()

    precision, linear, constant = added(over_blocks(len(features.rows), work))
    return quadratic((precision + precision.T) / 2.0, linear, constant)._replace(centre=bound.region.centre)


class TwoLevels(NamedTuple):
    """A pseudo-prior within E and another beyond."""

    within: Any
    beyond: Any
    region: Ellipsoid


@implements(log_base, TwoLevels)
def _log_base(base, theta, gradient):
    if inside(base.region, theta):
        value = log_base(base.within, theta, gradient)
    else:
        value = log_base(base.beyond, theta, gradient)
    return value


@implements(log_beyond, TwoLevels)
def _log_beyond(base, theta, gradient):
    # the Gaussian part is that of the pseudo-prior within
    value = 0.0
    if not inside(base.region, theta):
        if gradient is not None:
            for d in range(theta.shape[0]):
                gradient[d] = -gradient[d]
        value -= log_base(base.within, theta, gradient)
        if gradient is not None:
            for d in range(theta.shape[0]):
                gradient[d] = -gradient[d]
        value += log_base(base.beyond, theta, gradient)
    return value + log_beyond(base.within, theta, gradient)


implements(dense, TwoLevels)(lambda base: dense(base.within))
