"""How parameters meet data: the linear predictors η_n and the way back to θ.

Everything a likelihood knows of θ is η_n, a vector of K numbers (K = 1 for regression and two classes), so a
likelihood's derivative is K slopes and the chain rule to θ is `pull_back`. Both work on a block of data named
by their indices: long enough for vector instructions, short enough for the nearest cache.

The last functions here are the same in NumPy, for passes over all rows: of a block's rows, (n, D) float64,
and k ≤ K combinations of the predictors. Their bodies for `object` are of Θ, (k, D), row after row.
"""

from typing import NamedTuple, Protocol

import numpy as np

from flyrun.ground.numerics.compiled import generic, implements, inlined
from flyrun.ground.numerics.prefetch import prefetch_row
from flyrun.ground.numerics.rows import add_four_rows, add_row, four_dots, row_dot

BLOCK = 256  # data worked on at once


@inlined
def predict(features, index, theta, eta):
    """Write η_n(θ) into eta[i], (K,), for every n = index[i]."""


@inlined
def pull_back(features, index, slopes, gradient):
    """Add Σ_i Σ_k slopes[i, k]·∂η_nk/∂θ, n = index[i], to gradient, (P,)."""


@inlined
def expect(features, n):
    """Hint that datum n is predicted soon, so that its row is on its way from memory meanwhile."""


@generic
def n_params(features, n_predictors):
    """P."""


@generic
def predicted(features, rows, theta):
    """The predictors of rows at θ, (P,), or at one (…, P) for each of (…, n, D): (…, n, k)."""


@generic
def pulled(features, rows, slopes):
    """Σ_n Σ_k slopes[n, k]·∂η_nk/∂θ, (P,). slopes: (n, k)."""


@generic
def gram(features, rows, weight):
    """Σ_n Σ_km weight[n, k, m]·∂η_nk/∂θ ∂η_nm/∂θᵀ, (P, P). weight: (n, k, k), each symmetric."""


@generic
def variances(features, rows, covariance):
    """How the predictors vary, (n, k, k), where θ does by covariance, (P, P)."""


implements(n_params, object)(lambda features, n_predictors: n_predictors * features.rows.shape[1])


@implements(predicted, object)
def _predicted(features, rows, theta):
    each = theta.reshape(*theta.shape[:-1], -1, rows.shape[-1])
    return rows @ each.T if each.ndim == 2 else np.einsum("nsd,nkd->nsk", rows, each)


implements(pulled, object)(lambda features, rows, slopes: (slopes.T @ rows).ravel())


@implements(gram, object)
def _gram(features, rows, weight):
    k, size = weight.shape[1], rows.shape[1]
    total = np.empty((k, size, k, size))
    for i in range(k):
        for j in range(i + 1):
            product = rows.T @ (rows * weight[:, i, j, None])
            total[i, :, j], total[j, :, i] = product, product
    return total.reshape(k * size, k * size)


@implements(variances, object)
def _variances(features, rows, covariance):
    size = rows.shape[1]
    k = len(covariance) // size
    variance = np.empty((len(rows), k, k))
    blocks = covariance.reshape(k, size, k, size)
    for i in range(k):
        for j in range(i + 1):
            both = np.einsum("nd,nd->n", rows @ blocks[i, :, j], rows)
            variance[:, i, j] = variance[:, j, i] = both
    return variance


class Features(Protocol):
    """How parameters meet the data; made of rows alone."""

    def __init__(self, rows: np.ndarray) -> None:
        """Rows, (N, D), C-contiguous."""

    @property
    def rows(self) -> np.ndarray:
        """(N, D)."""


class Model(Protocol):
    """A likelihood, whatever it is made of besides."""

    @property
    def n_predictors(self) -> int:
        """K, linear predictors of a datum."""


class Linear(NamedTuple):
    """η_n = x_nᵀθ, K = 1, P = D."""

    rows: np.ndarray  # (N, D) C-contiguous; a row is one datum's features


def signed(features: np.ndarray, target: np.ndarray | None) -> Linear:
    """The rows t_n x_n, for labels folded into the features. features: (N, D); target: (N,), each −1 or +1.

    Without target the rows are t_n x_n already, and are kept as they are: for files mapped into memory.
    """
    if target is not None:
        kind = np.result_type(features.dtype, np.float32)  # what is float32 stays so: ±1 rounds nothing
        features = np.multiply(features, target[:, None], dtype=kind, casting="same_kind")
    return Linear(np.ascontiguousarray(features))


@implements(predict, Linear)
def _predict_linear(features, index, theta, eta):
    rows = features.rows
    # four at once where a row's numbers need no conversion: of float32, one row after the other is quicker
    whole = index.shape[0] & -4 if rows.itemsize == 8 else 0
    for i in range(0, whole, 4):
        a, b, c, d = four_dots(rows, index[i], index[i + 1], index[i + 2], index[i + 3], theta)
        eta[i, 0], eta[i + 1, 0], eta[i + 2, 0], eta[i + 3, 0] = a, b, c, d
    for i in range(whole, index.shape[0]):
        eta[i, 0] = row_dot(rows, index[i], theta)


implements(expect, Linear)(lambda features, n: prefetch_row(features.rows, n))


@implements(pull_back, Linear)
def _pull_back_linear(features, index, slopes, gradient):
    rows, whole = features.rows, index.shape[0] & -4
    for i in range(0, whole, 4):
        add_four_rows(
            rows, index[i], index[i + 1], index[i + 2], index[i + 3],
            slopes[i, 0], slopes[i + 1, 0], slopes[i + 2, 0], slopes[i + 3, 0],
            gradient,
        )  # fmt: skip
    for i in range(whole, index.shape[0]):
        add_row(rows, index[i], slopes[i, 0], gradient)
