"""Bounds of two levels, see local_bounds.py, for a softmax over K classes. Ours.

Along a line η̂ + td the curvature of log Σ e^η is the variance of d under the classes' probabilities at t. It
changes by a factor e^{tR} at most when no two components of d differ by more than R: its derivative is a
third central moment, R times the variance at most. So the tangent at η̂ needs only to bend by φ(R)·F,
F = diag(p) − ppᵀ the curvature there and φ(R) = 2(e^R − 1 − R)/R² → 1. Within the ellipsoid E of radius r
components i and j of η_n move apart by r·√((e_i − e_j)ᵀV_n(e_i − e_j)) at most, V_n the covariance of η_n
under the Gaussian at the MAP. A datum of which Böhning's A leaves less E L̃ keeps A within E too: with many
parameters to few data, most do.
"""

from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from scipy.special import softmax

from flyrun.experiments.models import passes
from flyrun.experiments.models.features import Features, Model, gram
from flyrun.experiments.models.likelihood import bent, enter, log_bound
from flyrun.experiments.models.local_bounds import Ellipsoid, enter_region
from flyrun.ground.numerics.compiled import implements

_MOST_RANGE = 50.0  # φ is 10^19 there: A serves


class LocalClasses(NamedTuple):
    """A tangent for each datum within E, and Böhning's bounds, which hold beyond."""

    tangent: np.ndarray  # (N, 2K+2): η̂_n, the probabilities there, log B_n there, and φ_n or, for A, 0
    beyond: Any
    region: Ellipsoid
    is_inside: np.ndarray  # (1,) bool: on which side the bounds are being looked at
    least: np.ndarray  # the least curvature of the posterior within E, (P, P)

    def lower(self, by: np.ndarray) -> None:
        """Put the bounds within E lower, in place, by so much of the log density each, (N,)."""
        self.tangent[:, -2] -= by


@implements(bent, LocalClasses)
def _bent(bound, model, block):
    p, factor = bound.tangent[block, model.n_predictors : -2], bound.tangent[block, -1, None, None]
    return np.where(factor > 0.0, factor * _bend(p), _everywhere(p))


implements(enter, LocalClasses)(enter_region)


@implements(log_bound, LocalClasses)
def _log_bound(bound, model, index, eta, values, slopes):
    if not bound.is_inside[0]:
        log_bound(bound.beyond, model, index, eta, values, slopes)
    else:
        n_classes = eta.shape[1]
        for i in range(index.shape[0]):
            n = index[i]
            label, factor = model.labels[n], bound.tangent[n, 2 * n_classes + 1]
            under, mean = 0.0, 0.0  # means of d = η − η̂: by the probabilities, and plain
            for k in range(n_classes):
                away = eta[i, k] - bound.tangent[n, k]
                under += bound.tangent[n, n_classes + k] * away
                mean += away / n_classes
            centre = under if factor > 0.0 else mean
            square = 0.0
            for k in range(n_classes):
                away = eta[i, k] - bound.tangent[n, k] - centre
                weight = factor * bound.tangent[n, n_classes + k] if factor > 0.0 else 0.5
                square += weight * away * away
                if slopes is not None:
                    slopes[i, k] = -bound.tangent[n, n_classes + k] - weight * away
            values[i] = bound.tangent[n, 2 * n_classes] - 0.5 * square
            values[i] += eta[i, label] - bound.tangent[n, label] - under
            if slopes is not None:
                slopes[i, label] += 1.0


def bend_factor(ranges: np.ndarray) -> np.ndarray:
    """φ, (N,), of ranges R, (N,)."""
    small = np.minimum(ranges, _MOST_RANGE)
    safe = np.maximum(small, 1e-3)
    exact = 2.0 * (np.expm1(safe) - safe) / safe**2
    return np.where(small < 1e-3, 1.0 + small / 3.0 + small**2 / 12.0, exact)


def within(
    module: ModuleType, model: Model, features: Features, region: Ellipsoid
) -> tuple[LocalClasses, np.ndarray]:
    """Bounds tight at the region's centre, and E L̃_n, (N,), to second order. One pass."""
    n_classes, size = model.n_predictors, features.rows.shape[1]
    covariance = np.linalg.inv(region.curvature).reshape(n_classes, size, n_classes, size)
    none = module.map_bound(module.part(model, slice(0, 0)), np.zeros((0, n_classes)))

    def work(block: slice) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        part, at = module.part(model, block), passes.block_predictors(model, features, region.centre, block)
        rows = features.rows[block].astype(np.float64)
        variance = passes.predictor_variance(rows, covariance)
        p, bend = softmax(at, axis=1), module.curvature(part, at)
        alone = np.einsum("nkk->nk", variance)
        apart = (alone[:, :, None] + alone[:, None, :] - 2.0 * variance).max(axis=(1, 2))
        ranges = np.sqrt(region.square * np.maximum(apart, 0.0))
        factor = bend_factor(ranges)
        spread = np.einsum("nkm,nkm->n", bend, variance)
        expect = 0.5 * (factor - 1.0) * spread, module.expected_pseudo_likelihood(part, at, variance)
        local = expect[0] < expect[1]
        values, _ = passes.values_and_slopes(part, at)
        tangent = np.column_stack([at, p, values, np.where(local, factor, 0.0)])
        (everywhere,) = module.map_bound(part, at)
        lost = gram(features, rows, -np.expm1(-ranges)[:, None, None] * bend)
        return tangent, everywhere, np.where(local, *expect), lost

    n_data = len(features.rows)
    tangent, expected = np.empty((n_data, 2 * n_classes + 2)), np.empty(n_data)
    beyond, least, first = np.empty((n_data, none[0].shape[1])), region.curvature, 0
    for tight, everywhere, expect, lost in passes.over_blocks(n_data, work):
        block = slice(first, first + len(tight))
        tangent[block], beyond[block], expected[block] = tight, everywhere, expect
        least, first = least - lost, block.stop
    return LocalClasses(tangent, type(none)(beyond), region, np.zeros(1, np.bool_), least), expected


def _bend(p: np.ndarray) -> np.ndarray:
    return p[:, :, None] * (np.eye(p.shape[1]) - p[:, None, :])


def _everywhere(p: np.ndarray) -> np.ndarray:
    """Böhning's A, (K, K)."""
    return 0.5 * (np.eye(p.shape[1]) - 1.0 / p.shape[1])
