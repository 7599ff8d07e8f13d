"""The shapes that updates move in: a Gaussian N(μ, P⁻¹) near the target; products with P, P⁻¹ and its root.

The identity is the plain case. `Dense` holds whole matrices. `PerClass` is the collapsed Böhning bounds' own
form, P = (I − 11ᵀ/K) ⊗ M + 11ᵀ/K ⊗ ridge·I for K classes: each product costs K·D², not (K·D)².
"""

from typing import Any, NamedTuple

import numpy as np

from flyrun.experiments.models.base_density import log_base, log_beyond
from flyrun.experiments.models.kronecker import Kronecker
from flyrun.experiments.models.laplace_prior import LaplaceTimesBounds, gaussian_in_place
from flyrun.experiments.models.local_bounds import TwoLevels
from flyrun.experiments.models.multi_linear import rows_times
from flyrun.ground.numerics.compiled import copy_into, generic, implements, jit
from flyrun.ground.numerics.rows import first_dot, four_dots, row_dot
from flyrun.ground.numerics.state import unsaved


@generic
def precision_times(metric, vector, out):
    """out = P·vector, both (P,)."""


@generic
def covariance_times(metric, vector, out):
    """out = P⁻¹·vector."""


@generic
def scale_noise(metric, vector, out):
    """out = R·vector with R·Rᵀ = P⁻¹: standard normals become a draw from N(0, P⁻¹)."""


class Identity(NamedTuple):
    """P = I."""

    unused: int = 0


IDENTITY = Identity()


def _identity(metric, vector, out):
    copy_into(out, vector)


for _product in (precision_times, covariance_times, scale_noise):
    implements(_product, Identity)(_identity)


class Dense(NamedTuple):
    """P as a matrix. Each (P, P)."""

    precision: np.ndarray
    covariance: np.ndarray
    root: np.ndarray  # lower triangle


def dense_metric(precision: np.ndarray) -> Dense:
    """From a precision (P, P), symmetric and positive definite."""
    covariance = np.linalg.inv(precision)
    covariance = (covariance + covariance.T) / 2.0
    root = np.linalg.cholesky(covariance)
    return Dense(*(np.ascontiguousarray(matrix) for matrix in (precision, covariance, root)))


@jit
def _times(matrix, vector, out):
    size = out.shape[0]
    whole = size & -4
    for d in range(0, whole, 4):
        out[d], out[d + 1], out[d + 2], out[d + 3] = four_dots(matrix, d, d + 1, d + 2, d + 3, vector)
    for d in range(whole, size):
        out[d] = row_dot(matrix, d, vector)


implements(precision_times, Dense)(lambda metric, vector, out: _times(metric.precision, vector, out))
implements(covariance_times, Dense)(lambda metric, vector, out: _times(metric.covariance, vector, out))


@implements(scale_noise, Dense)
def _dense_scale(metric, vector, out):
    for d in range(out.shape[0]):
        out[d] = first_dot(metric.root, d, vector, d + 1)


@unsaved(workspace=("centred", "product"))
class PerClass(NamedTuple):
    """P = (I − 11ᵀ/K) ⊗ M + 11ᵀ/K ⊗ ridge·I, and so P⁻¹ and R with M⁻¹ and its root in place of M."""

    precision: np.ndarray  # M, (D, D)
    covariance: np.ndarray
    root: np.ndarray
    ridge: float
    centred: np.ndarray  # (K, D): workspace, as is the next
    product: np.ndarray  # (D, K)
    everyone: np.ndarray  # 0 … D−1


def per_class(matrix: np.ndarray, ridge: float, n_classes: int) -> PerClass:
    """From M, (D, D), symmetric and positive definite, and the ridge."""
    size = len(matrix)
    room = np.zeros((n_classes, size)), np.zeros((size, n_classes))
    return PerClass(*dense_metric(matrix), float(ridge), *room, np.arange(size))


@jit
def _class_times(metric, matrix, shared, vector, out):
    """out_k = matrix·(v_k − v̄) + shared·v̄. The v_k − v̄ sum to 0: K − 1 products give all K."""
    centred, product = metric.centred, metric.product
    n_classes, size = centred.shape
    given, output = vector.reshape((n_classes, size)), out.reshape((n_classes, size))
    for d in range(size):
        mean = 0.0
        for k in range(n_classes):
            mean += given[k, d]
        mean /= n_classes
        product[d, n_classes - 1] = shared * mean
        for k in range(n_classes):
            centred[k, d] = given[k, d] - mean
    rows_times(matrix, metric.everyone, centred, n_classes - 1, product)
    for d in range(size):
        mean, last = product[d, n_classes - 1], 0.0
        for k in range(n_classes - 1):
            last -= product[d, k]
            output[k, d] = product[d, k] + mean
        output[n_classes - 1, d] = last + mean


@implements(precision_times, PerClass)
def _class_precision(metric, vector, out):
    _class_times(metric, metric.precision, metric.ridge, vector, out)


@implements(covariance_times, PerClass)
def _class_covariance(metric, vector, out):
    _class_times(metric, metric.covariance, 1.0 / metric.ridge, vector, out)


@implements(scale_noise, PerClass)
def _class_scale(metric, vector, out):
    _class_times(metric, metric.root, metric.ridge**-0.5, vector, out)


class Own(NamedTuple):
    """The reference is the Gaussian part of the target's own base."""

    pulls: bool = False


class Foreign(NamedTuple):
    """The reference is another Gaussian than the target's base: it pulls, as P·(θ − μ)."""

    pulls: bool = True


@generic
def log_base_over(kind, base, theta, away, pull, gradient):
    """log base(θ) − log reference(θ) up to a constant; adds its gradient unless None.

    away: θ − μ; pull: P·(θ − μ), so that the reference's log density is −½ away·pull.
    """


@implements(log_base_over, Own)
def _over_own(kind, base, theta, away, pull, gradient):
    return log_beyond(base, theta, gradient)


@implements(log_base_over, Foreign)
def _over_foreign(kind, base, theta, away, pull, gradient):
    square = 0.0
    for d in range(theta.shape[0]):
        square += away[d] * pull[d]
        if gradient is not None:
            gradient[d] += pull[d]
    return log_base(base, theta, gradient) + 0.5 * square


@unsaved(fixed=("metric", "mean"))
class Reference(NamedTuple):
    """N(μ, P⁻¹)."""

    metric: Dense | PerClass  # P
    mean: np.ndarray  # μ, (P,)
    kind: Own | Foreign


def reference_of(base: Any, target: bool) -> Reference:
    """The Gaussian that collapsed bounds make with the prior, for one that is not smooth with the Gaussian of
    the same variance. target: whether base is the target's."""
    part = base.within if isinstance(base, TwoLevels) else base
    part = gaussian_in_place(part) if isinstance(part, LaplaceTimesBounds) else part
    if isinstance(part, Kronecker):
        n_classes, size = part.centred.shape
        metric: Any = per_class(0.5 * part.gram + part.ridge * np.eye(size), part.ridge, n_classes)
    else:
        metric = dense_metric(part.precision)
    return Reference(metric, part.top(), Own() if target else Foreign())


def reference_at(mean: np.ndarray, precision: np.ndarray) -> Reference:
    """N(mean, precision⁻¹), (P,) and (P, P), whatever the target."""
    return Reference(dense_metric(precision), np.array(mean, dtype=np.float64), Foreign())
