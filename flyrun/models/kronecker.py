"""Collapsed Böhning bounds, K classes × D features, without ever forming a K·D × K·D matrix.

Their curvature is A ⊗ S with A = ½(I − 11ᵀ/K) and S = Σ x xᵀ, so θᵀ(A ⊗ S)θ = ½ Σ_k c_kᵀ S c_k with
c_k = θ_k − θ̄ (the mean over classes). The c_k sum to 0: K−1 products with S, read once, give all K.
"""

from typing import NamedTuple

import numpy as np

from flyrun.compiled import implements
from flyrun.models.base import add_gaussian, dense, log_base, log_beyond
from flyrun.models.likelihood import Quadratic
from flyrun.models.multi_linear import rows_times


class Kronecker(NamedTuple):
    """−½ θᵀ(A ⊗ S + ridge·I)θ + hᵀθ + c."""

    gram: np.ndarray
    """S, (D, D), symmetric."""
    linear: np.ndarray
    """h, (K·D,)."""
    ridge: float
    constant: np.ndarray
    """c, (1,)."""
    centred: np.ndarray
    """(K, D): workspace, the c_k."""
    pulled: np.ndarray
    """(D, K): workspace, S c_k."""
    everyone: np.ndarray
    """0 … D−1."""


def kronecker(gram: np.ndarray, linear: np.ndarray, constant: float) -> Kronecker:
    """Collapsed bounds alone. gram: (D, D); linear: (K, D)."""
    room = np.zeros(linear.shape), np.zeros(linear.shape[::-1])
    return Kronecker(gram, linear.ravel(), 0.0, np.array([float(constant)]), *room, np.arange(len(gram)))


@implements(log_base, Kronecker)
def _log_kronecker(base, theta, gradient):
    centred, pulled = base.centred, base.pulled
    n_classes, size = centred.shape
    matrix, linear = theta.reshape((n_classes, size)), base.linear.reshape((n_classes, size))
    for d in range(size):
        mean = 0.0
        for k in range(n_classes):
            mean += matrix[k, d]
        mean /= n_classes
        for k in range(n_classes):
            centred[k, d] = matrix[k, d] - mean
    rows_times(base.gram, base.everyone, centred, n_classes - 1, pulled)
    for d in range(size):
        last = 0.0
        for k in range(n_classes - 1):
            last -= pulled[d, k]
        pulled[d, n_classes - 1] = last
    value = base.constant[0]
    for k in range(n_classes):
        for d in range(size):
            value += matrix[k, d] * (linear[k, d] - 0.5 * base.ridge * matrix[k, d])
            value -= 0.25 * centred[k, d] * pulled[d, k]
    if gradient is not None:
        out = gradient.reshape((n_classes, size))
        for k in range(n_classes):
            for d in range(size):
                out[k, d] += linear[k, d] - base.ridge * matrix[k, d] - 0.5 * pulled[d, k]
    return value


@implements(log_beyond, Kronecker)
def _nothing_beyond(base, theta, gradient):
    return 0.0


@implements(add_gaussian, Kronecker)
def _add_gaussian(base, precision, log_normaliser):
    return base._replace(ridge=base.ridge + precision, constant=base.constant + log_normaliser)


@implements(dense, Kronecker)
def _dense(base):
    n_classes = len(base.centred)
    curvature = 0.5 * (np.eye(n_classes) - 1.0 / n_classes)
    precision = np.kron(curvature, base.gram) + base.ridge * np.eye(len(base.linear))
    return Quadratic(precision, base.linear.copy(), base.constant.copy())
