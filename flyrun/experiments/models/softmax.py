"""Softmax classification into K classes, and the bound of Böhning (1992) on its likelihood.

η = Θx; log L = η_t − log Σ_k e^{η_k} for a datum of class t. The curvature of log Σ e^η is nowhere above
A = ½(I − 11ᵀ/K), so the parabola log B = log L(ψ) + (e_t − softmax(ψ))ᵀ(η−ψ) − ½(η−ψ)ᵀA(η−ψ) lies below log L
and touches it, in value and slope, at η = ψ. Neither knows of a shift of all η_k: ηᵀAη = ½ Σ_k (η_k − η̄)².
D. Böhning (1992), Multinomial logistic regression algorithm; Maclaurin & Adams (2014), §4.2.
"""

from math import sqrt
from typing import NamedTuple

import numpy as np
from scipy.special import softmax

from flyrun.experiments.models.likelihood import bent, log_bound, log_likelihood
from flyrun.experiments.models.likelihood import part as part
from flyrun.experiments.models.multi_linear import MultiLinear, compact
from flyrun.experiments.models.taylor import subtract_expansion
from flyrun.ground.errors import DataError
from flyrun.ground.numerics.compiled import implements
from flyrun.ground.numerics.vector_math import exp_negative, log_positive

LOG_CONCAVE = True
LARGEST = (sqrt(2.0), 0.5, sqrt(2.0 / 27.0))  # of the derivatives of log L along unit vectors, for any K
SHIFT_FREE = True  # the likelihood knows nothing of Θ + 1vᵀ: along v the posterior is the prior


class Softmax(NamedTuple):
    """p(t | η) = e^{η_t} / Σ_k e^{η_k}."""

    labels: np.ndarray  # (N,) int64, 0 … K−1
    n_predictors: int  # K


class Bohning(NamedTuple):
    """One parabola for each datum, all of the same curvature A."""

    tangent: np.ndarray  # (N, K+1): its slope b_n at η = 0, which sums to 0, and its value c_n there


def bind(features: np.ndarray, target: np.ndarray, n_classes: int = 0) -> tuple[Softmax, MultiLinear]:
    """Model and features of a dataset. features: (N, D); target: (N,), 0 … K−1; n_classes 0: as seen."""
    n_classes = n_classes or int(target.max()) + 1
    if n_classes < 2:
        raise DataError("model=softmax needs at least two classes; the data have one")
    labels = np.ascontiguousarray(target, dtype=np.int64)
    return Softmax(labels, n_classes), MultiLinear(compact(features))


def rebind(model: Softmax, features: np.ndarray, target: np.ndarray) -> tuple[Softmax, MultiLinear]:
    """The same likelihood for other rows, (n, D)."""
    return bind(features, target, model.n_predictors)


@implements(log_likelihood, Softmax)
def _log_likelihood(model, index, eta, values, slopes):
    n_classes = eta.shape[1]
    for i in range(index.shape[0]):
        top = eta[i, 0]
        for k in range(1, n_classes):
            top = max(top, eta[i, k])
        total = 0.0  # in [1, K]: never overflows
        for k in range(n_classes):
            share = exp_negative(eta[i, k] - top)
            total += share
            if slopes is not None:
                slopes[i, k] = -share
        label = model.labels[index[i]]
        # log_positive makes a number of NaN; the last term keeps it NaN
        values[i] = (eta[i, label] - top) - log_positive(total) + 0.0 * total
        if slopes is not None:
            for k in range(n_classes):
                slopes[i, k] /= total
            slopes[i, label] += 1.0


@implements(log_bound, Bohning)
def _log_bound(bound, model, index, eta, values, slopes):
    n_classes = eta.shape[1]
    for i in range(index.shape[0]):
        n = index[i]
        mean = 0.0
        for k in range(n_classes):
            mean += eta[i, k]
        mean /= n_classes
        value = bound.tangent[n, n_classes]
        for k in range(n_classes):
            centred = eta[i, k] - mean
            value += centred * (bound.tangent[n, k] - 0.25 * centred)
            if slopes is not None:
                slopes[i, k] = bound.tangent[n, k] - 0.5 * centred
        values[i] = value


def tight_at(psi: np.ndarray, labels: np.ndarray) -> Bohning:
    """The bounds that touch the likelihoods at η_n = ψ_n. psi: (N, K); labels: (N,)."""
    psi = psi - psi.mean(axis=1, keepdims=True)
    each = np.arange(len(labels))
    top = psi.max(axis=1, keepdims=True)
    share = np.exp(psi - top)
    total = share.sum(axis=1, keepdims=True)
    slope = -share / total
    slope[each, labels] += 1.0
    log_l = psi[each, labels] - top[:, 0] - np.log(total[:, 0])
    value = log_l - (slope * psi).sum(axis=1) - 0.25 * (psi**2).sum(axis=1)
    return Bohning(np.column_stack([slope + 0.5 * psi, value]))


def untuned_bound(model: Softmax, features: MultiLinear, xi: float) -> Bohning:
    """Tight at ψ = ξ·e_t for a datum of class t (1.5 in the authors' code; 0 is the other natural choice)."""
    psi = np.zeros((len(model.labels), model.n_predictors))
    psi[np.arange(len(psi)), model.labels] = xi
    return tight_at(psi, model.labels)


def map_bound(model: Softmax, predictors: np.ndarray) -> Bohning:
    """Bounds tight at the predictors at θ_MAP, (N, K)."""
    return tight_at(predictors, model.labels)


def lower(bound: Bohning, by: np.ndarray) -> None:
    """Put the bounds lower, in place, by so much of the log density each, (N,)."""
    bound.tangent[:, -1] -= by


def curvature(model: Softmax, predictors: np.ndarray) -> np.ndarray:
    """−∂² log L_n/∂η² = diag(p) − ppᵀ, (N, K, K), at predictors (N, K)."""
    p = softmax(predictors, axis=1)
    return p[:, :, None] * (np.eye(p.shape[1]) - p[:, None, :])


def expected_pseudo_likelihood(model: Softmax, predictors: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """E L̃_n, (N,), for bounds tight at predictors, (N, K), when η_n varies by variance, (N, K, K).

    To second order: half the trace of the variance times what Böhning's A exceeds the curvature by.
    """
    n_classes = predictors.shape[1]
    beyond = 0.5 * (np.eye(n_classes) - 1.0 / n_classes) - curvature(model, predictors)
    return 0.5 * np.einsum("nkm,nkm->n", beyond, variance)


implements(bent, Bohning)(lambda bound, model, block: 1.0)


@implements(subtract_expansion, Softmax)
def _subtract_expansion(model, index, centres, eta, order, values):
    n_classes = eta.shape[1]
    for i in range(index.shape[0] if order > 0 else 0):
        n = index[i]
        top = centres[n, 0]
        for k in range(1, n_classes):
            top = max(top, centres[n, k])
        # moments of η − η̂ under the classes' probabilities at η̂, taken from the datum's own class
        shift = eta[i, model.labels[n]] - centres[n, model.labels[n]]
        total, first, second = 0.0, 0.0, 0.0
        for k in range(n_classes):
            share, away = exp_negative(centres[n, k] - top), eta[i, k] - centres[n, k] - shift
            total += share
            first += share * away
            second += share * away * away
        first /= total
        values[i] += first
        if order > 1:
            values[i] += 0.5 * (second / total - first * first)


def remainder_constants(model: Softmax, predictors: np.ndarray, order: int, local: bool) -> np.ndarray:
    """κ of each datum for T of order 0 to 2 in any direction, (N,): the same for all, local or not."""
    return np.full(len(predictors), LARGEST[order])
