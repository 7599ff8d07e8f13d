"""Bounds of two levels: a tight one where the posterior is, one that holds everywhere beyond; for classes see
local_classes.py. Ours.

A parabola below a log likelihood f everywhere bends more than f itself does. Within the ellipsoid
E = {(θ − θ̂)ᵀH(θ − θ̂) ≤ r²}, H the posterior's curvature at θ̂, a predictor is never further from η̂_n than
w_n = r·s_n, s_n² = x_nᵀH⁻¹x_n, and there the tangent needs only to bend by
c_n = sup 2[f(η̂) + f'(η̂)d − f(η̂ + d)]/d² over 0 < |d| ≤ w_n, which tends to −f'' as data grow: so
Σ E L̃_n falls like N^(−1/2). Beyond E another bound serves, so that nothing is cut off: both are below the
likelihood where they are used, their products are pseudo-priors on either side, and the border is a jump in
the pseudo-prior which the pseudo-likelihoods make up for.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import eigh
from scipy.special import gammainc, gammaincc
from scipy.special import gammaln as log_gamma

from flyrun.experiments.models.base_density import dense, log_base, log_beyond
from flyrun.experiments.models.likelihood import bent, enter, log_bound
from flyrun.experiments.models.tangents import along
from flyrun.ground.numerics.compiled import copy_into, dot_jit, implements, inline_jit, jit
from flyrun.ground.numerics.rows import first_dot


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
    """E = {(θ − centre)ᵀ curvature (θ − centre) ≤ radius²}; centre: (P,), curvature: (P, P)."""
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


@jit
def _outside(region, thetas, beyond):
    for i in range(thetas.shape[0]):
        for d in range(thetas.shape[1]):
            region.away[d] = thetas[i, d] - region.centre[d]
        beyond[i] = not _square(region.curvature, region.away) <= region.square


def outside(region: Ellipsoid, thetas: np.ndarray) -> np.ndarray:
    """Whether positions, (T, P), are beyond the border, (T,) bool."""
    beyond = np.empty(len(thetas), np.bool_)
    _outside(region, np.ascontiguousarray(thetas), beyond)
    return beyond


def brought_in(region: Ellipsoid, theta: np.ndarray) -> np.ndarray:
    """θ, or, for one beyond the border, the place just within it on the way to the centre, (P,)."""
    away = theta - region.centre
    distance = math.sqrt(away @ region.curvature @ away / region.square)
    return theta if distance <= 1.0 else region.centre + 0.99 / distance * away


class LocalBound(NamedTuple):
    """A parabola for each datum within E, of one predictor, and a model's bounds that hold beyond."""

    # (N, 4): η̂_n, log B_n there, its slope, and c_n, side by side so that a visit touches one cache line
    parabola: np.ndarray
    beyond: Any
    region: Ellipsoid
    is_inside: np.ndarray  # (1,) bool: on which side the bounds are being looked at
    least: np.ndarray  # the posterior's least curvature within E, (P, P), or (0, 0) where it is not known

    def lower(self, by: np.ndarray) -> None:
        """Put the bounds within E lower, in place, by so much of the log density each, (N,)."""
        self.parabola[:, 1] -= by


implements(bent, LocalBound)(lambda bound, model, block: bound.parabola[block, 3])


@implements(enter, LocalBound)
def enter_region(bound, theta):
    """Of bounds with a region: tells on which side of its border θ is."""
    bound.is_inside[0] = inside(bound.region, theta)


@implements(log_bound, LocalBound)
def _log_bound(bound, model, index, eta, values, slopes):
    if bound.is_inside[0]:
        along(bound.parabola, index, eta, values, slopes)
    else:
        log_bound(bound.beyond, model, index, eta, values, slopes)


def mass_beyond(bound: Any, precision: np.ndarray) -> float:
    """At most so much of the posterior lies beyond E; NaN where the least curvature within is not known.

    For a log-concave likelihood, a Gaussian prior and the mode as centre; precision: of the pseudo-prior
    within, (P, P). Along a ray from the mode log π falls by ½κs² at least as far as the border, s = r in the
    curvature's norm, and from there on, being concave, no less steeply: by ½κrs. Within it falls by
    ½δᵀ precision δ at most. κ: the least curvature over that at the mode.
    """
    size, radius = len(bound.region.centre), math.sqrt(bound.region.square)
    if not bound.least.size:
        return math.nan
    least = float(eigh(bound.least, bound.region.curvature, eigvals_only=True, subset_by_index=[0, 0])[0])
    if least <= 0.0:
        return math.inf
    wider = np.linalg.slogdet(precision)[1] - np.linalg.slogdet(bound.region.curvature)[1]
    log_tail = log_gamma(size) + np.log(gammaincc(size, 0.5 * least * radius**2))
    log_tail -= size * math.log(0.5 * least * radius)
    log_sphere = (1.0 - 0.5 * size) * math.log(2.0) - log_gamma(0.5 * size)
    inside = float(gammainc(0.5 * size, 0.5 * radius**2))  # of a Gaussian, whose mass is more spread
    return float(np.exp(0.5 * wider + log_sphere + log_tail) / inside)


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
