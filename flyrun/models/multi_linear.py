"""K linear predictors for each datum (softmax): every row is read once for all K."""

from typing import NamedTuple

import numpy as np

from flyrun.compiled import dot_jit, implements, jit
from flyrun.models.features import predict, pull_back


class MultiLinear(NamedTuple):
    """η_nk = x_nᵀΘ_k; θ is Θ, (K, D), row after row, P = K·D."""

    rows: np.ndarray
    """(N, D) C-contiguous; int8 where that is exact (`compact`)."""


def compact(features: np.ndarray) -> np.ndarray:
    """The same numbers as int8 where all are whole and small: an eighth of the memory to read."""
    lowest, highest = features.min(initial=0), features.max(initial=0)
    if lowest >= -128 and highest <= 127 and np.all(features == np.rint(features)):
        return np.ascontiguousarray(features, dtype=np.int8)
    return np.ascontiguousarray(features)


@dot_jit
def _row_dot(rows, n, vector, first):
    """x_nᵀv for the D entries of vector from `first`."""
    total = 0.0
    for d in range(rows.shape[1]):
        total += rows[n, d] * vector[first + d]
    return total


@dot_jit
def _three_row_dots(rows, n, vector, first):
    """x_nᵀv for three stretches of D entries from `first`."""
    size = rows.shape[1]
    second, third = first + size, first + 2 * size
    a, b, c = 0.0, 0.0, 0.0
    for d in range(size):
        x = rows[n, d]
        a += x * vector[first + d]
        b += x * vector[second + d]
        c += x * vector[third + d]
    return a, b, c


@jit
def row_dots(rows, n, vector, out, i, count):
    """out[i, k] = x_nᵀv_k for k < count, v_k the k-th stretch of D entries of vector."""
    size = rows.shape[1]
    k = 0
    while k + 3 <= count:
        out[i, k], out[i, k + 1], out[i, k + 2] = _three_row_dots(rows, n, vector, k * size)
        k += 3
    while k < count:
        out[i, k] = _row_dot(rows, n, vector, k * size)
        k += 1


@implements(predict, MultiLinear)
def _predict(features, index, theta, eta):
    for i in range(index.shape[0]):
        row_dots(features.rows, index[i], theta, eta, i, eta.shape[1])


# Slopes are handed on as numbers, not arrays: the compiler then knows that writing to `out` leaves them be,
# and makes vector instructions of the loops. Four rows at once, since every pass reads and writes all of out.
@dot_jit
def _add_four(rows, i, j, k, m, p, q, r, s, first, out):
    for d in range(rows.shape[1]):
        out[first + d] += p * rows[i, d] + q * rows[j, d] + r * rows[k, d] + s * rows[m, d]


@dot_jit
def _add_four_thrice(rows, i, j, k, m, pi, pj, pk, pm, qi, qj, qk, qm, ri, rj, rk, rm, first, out):
    size = rows.shape[1]
    second, third = first + size, first + 2 * size
    for d in range(size):
        x, y, z, w = rows[i, d], rows[j, d], rows[k, d], rows[m, d]
        out[first + d] += pi * x + pj * y + pk * z + pm * w
        out[second + d] += qi * x + qj * y + qk * z + qm * w
        out[third + d] += ri * x + rj * y + rk * z + rm * w


@implements(pull_back, MultiLinear)
def _pull_back(features, index, slopes, gradient):
    rows, count, n_classes = features.rows, index.shape[0], slopes.shape[1]
    size = rows.shape[1]
    whole = count - count % 4
    for i in range(0, whole, 4):
        a, b, c, d = index[i], index[i + 1], index[i + 2], index[i + 3]
        k = 0
        while k + 3 <= n_classes:
            _add_four_thrice(
                rows, a, b, c, d,
                slopes[i, k], slopes[i + 1, k], slopes[i + 2, k], slopes[i + 3, k],
                slopes[i, k + 1], slopes[i + 1, k + 1], slopes[i + 2, k + 1], slopes[i + 3, k + 1],
                slopes[i, k + 2], slopes[i + 1, k + 2], slopes[i + 2, k + 2], slopes[i + 3, k + 2],
                k * size, gradient,
            )  # fmt: skip
            k += 3
        while k < n_classes:
            p, q, r, s = slopes[i, k], slopes[i + 1, k], slopes[i + 2, k], slopes[i + 3, k]
            _add_four(rows, a, b, c, d, p, q, r, s, k * size, gradient)
            k += 1
    for i in range(whole, count):
        n = index[i]
        for k in range(n_classes):
            _add_four(rows, n, n, n, n, slopes[i, k], 0.0, 0.0, 0.0, k * size, gradient)
