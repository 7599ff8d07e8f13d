"""Collapsed Böhning bounds, K classes × D features, without ever forming a K·D × K·D matrix.

Their curvature is A ⊗ S with A = ½(I − 11ᵀ/K) and S = Σ x xᵀ, so θᵀ(A ⊗ S)θ = ½ Σ_k c_kᵀ S c_k with
c_k = θ_k − θ̄ (the mean over classes). The c_k sum to 0: K−1 products with S, read once, give all K.
"""

from typing import NamedTuple

import numpy as np

from flyrun.experiments.models.base_density import about, dense, log_base, log_beyond, nothing_beyond
from flyrun.experiments.models.likelihood import quadratic
from flyrun.experiments.models.multi_linear import rows_times
from flyrun.ground.numerics.compiled import implements


class Kronecker(NamedTuple):
    """−½ δᵀ(A ⊗ S + ridge·I)δ + hᵀδ + c, δ = θ − m (see Quadratic)."""

    gram: np.ndarray  # S, (D, D), symmetric
    centre: np.ndarray  # m, (K·D,)
    linear: np.ndarray  # h, (K·D,)
    ridge: float
    constant: np.ndarray  # c, (1,)
    centred: np.ndarray  # (K, D): workspace, the c_k
    pulled: np.ndarray  # (D, K): workspace, S c_k
    everyone: np.ndarray  # 0 … D−1

    def curvature_times(self, step: np.ndarray) -> np.ndarray:
        """(A ⊗ S + ridge·I)·step, (K·D,)."""
        moves = step.reshape(self.centred.shape)
        return (0.5 * (moves - moves.mean(axis=0)) @ self.gram).ravel() + self.ridge * step

    def with_ridge(self, ridge: float) -> "Kronecker":
        """With so much more of a ridge."""
        return self._replace(ridge=self.ridge + ridge)

    def top(self) -> np.ndarray:
        """Where it is highest, (K·D,)."""
        slopes = self.linear.reshape(self.centred.shape)
        shared = slopes.mean(axis=0)
        apart = np.linalg.solve(0.5 * self.gram + self.ridge * np.eye(len(self.gram)), (slopes - shared).T).T
        return self.centre + (apart + shared / self.ridge).ravel()


def kronecker(gram: np.ndarray, linear: np.ndarray, constant: float) -> Kronecker:
    """Collapsed bounds alone, about m = 0. gram: (D, D); linear: (K, D)."""
    room = np.zeros(linear.shape), np.zeros(linear.shape[::-1])
    height = np.array([float(constant)])
    return Kronecker(gram, np.zeros(linear.size), linear.ravel(), 0.0, height, *room, np.arange(len(gram)))


@implements(log_base, Kronecker)
def _log_kronecker(base, theta, gradient):
    centred, pulled = base.centred, base.pulled
    n_classes, size = centred.shape
    shape = n_classes, size
    matrix, centre, linear = theta.reshape(shape), base.centre.reshape(shape), base.linear.reshape(shape)
    for d in range(size):
        mean = 0.0
        for k in range(n_classes):
            centred[k, d] = matrix[k, d] - centre[k, d]
            mean += centred[k, d]
        mean /= n_classes
        for k in range(n_classes):
            centred[k, d] -= mean
    rows_times(base.gram, base.everyone, centred, n_classes - 1, pulled)
    for d in range(size):
        last = 0.0
        for k in range(n_classes - 1):
            last -= pulled[d, k]
        pulled[d, n_classes - 1] = last
    value = base.constant[0]
    for k in range(n_classes):
        for d in range(size):
            away = matrix[k, d] - centre[k, d]
            value += away * (linear[k, d] - 0.5 * base.ridge * away)
            value -= 0.25 * centred[k, d] * pulled[d, k]
    if gradient is not None:
        out = gradient.reshape((n_classes, size))
        for k in range(n_classes):
            for d in range(size):
                away = matrix[k, d] - centre[k, d]
                out[k, d] += linear[k, d] - base.ridge * away - 0.5 * pulled[d, k]
    return value


implements(log_beyond, Kronecker)(nothing_beyond)


@implements(dense, Kronecker)
def _dense(base):
    n_classes = len(base.centred)
    curvature = 0.5 * (np.eye(n_classes) - 1.0 / n_classes)
    precision = np.kron(curvature, base.gram) + base.ridge * np.eye(len(base.linear))
    here = about(base, np.zeros(len(base.linear)))
    return quadratic(precision, here.linear, here.constant[0])
