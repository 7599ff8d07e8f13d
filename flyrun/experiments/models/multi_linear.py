"""K linear predictors for each datum (softmax): every row is read once for all K."""

from typing import NamedTuple

import numpy as np

from flyrun.experiments.models.features import expect, predict, pull_back
from flyrun.ground.numerics.compiled import dot_jit, implements, jit
from flyrun.ground.numerics.prefetch import prefetch_row


class MultiLinear(NamedTuple):
    """η_nk = x_nᵀΘ_k; θ is Θ, (K, D), row after row, P = K·D."""

    rows: np.ndarray  # (N, D) C-contiguous; int8 where that is exact (`compact`)


def compact(features: np.ndarray) -> np.ndarray:
    """The same numbers, (N, D), as int8 where all are whole and small: an eighth of the memory to read."""
    lowest, highest = features.min(initial=0), features.max(initial=0)
    blocks = range(0, len(features), 4096)  # a whole comparison would need the features' memory again
    exact = lowest >= -128 and highest <= 127
    exact = exact and all(np.all((rows := features[i : i + 4096]) == np.rint(rows)) for i in blocks)
    return np.ascontiguousarray(features, dtype=np.int8 if exact else None)


# The loops below become vector instructions only where the compiler sees that no index is negative and that
# writing leaves what is read as it was: so classes are handed on as vectors of their own, slopes as numbers.
@dot_jit
def _dot(rows, n, u):
    """x_nᵀu."""
    total = 0.0
    for d in range(rows.shape[1]):
        total += rows[n, d] * u[d]
    return total


@dot_jit
def _three_dots(rows, n, u, v, w):
    """x_nᵀu, x_nᵀv and x_nᵀw."""
    a, b, c = 0.0, 0.0, 0.0
    for d in range(rows.shape[1]):
        x = rows[n, d]
        a += x * u[d]
        b += x * v[d]
        c += x * w[d]
    return a, b, c


@jit
def rows_times(rows, index, matrix, count, out):
    """out[i, k] = x_nᵀΘ_k, n = index[i], for the first `count` rows of matrix, Θ."""
    k = 0
    while k + 3 <= count:
        u, v, w = matrix[k], matrix[k + 1], matrix[k + 2]
        for i in range(index.shape[0]):
            out[i, k], out[i, k + 1], out[i, k + 2] = _three_dots(rows, index[i], u, v, w)
        k += 3
    while k < count:
        u = matrix[k]
        for i in range(index.shape[0]):
            out[i, k] = _dot(rows, index[i], u)
        k += 1


@implements(predict, MultiLinear)
def _predict(features, index, theta, eta):
    n_classes = eta.shape[1]
    rows_times(features.rows, index, theta.reshape((n_classes, features.rows.shape[1])), n_classes, eta)


implements(expect, MultiLinear)(lambda features, n: prefetch_row(features.rows, n))


# Four rows at once, since every pass over a row reads and writes all of the gradient.
@dot_jit
def _add_four(rows, i, j, k, m, p, q, r, s, out):
    for d in range(rows.shape[1]):
        out[d] += p * rows[i, d] + q * rows[j, d] + r * rows[k, d] + s * rows[m, d]


@dot_jit
def _add_four_thrice(rows, i, j, k, m, pi, pj, pk, pm, qi, qj, qk, qm, ri, rj, rk, rm, u, v, w):
    for d in range(rows.shape[1]):
        x, y, z, t = rows[i, d], rows[j, d], rows[k, d], rows[m, d]
        u[d] += pi * x + pj * y + pk * z + pm * t
        v[d] += qi * x + qj * y + qk * z + qm * t
        w[d] += ri * x + rj * y + rk * z + rm * t


@jit
def _add_to_one(rows, index, s, k, u):
    """u += Σ_i s[i, k]·x_n, n = index[i]."""
    whole = index.shape[0] - index.shape[0] % 4
    for i in range(0, whole, 4):
        a, b, c, d = index[i], index[i + 1], index[i + 2], index[i + 3]
        _add_four(rows, a, b, c, d, s[i, k], s[i + 1, k], s[i + 2, k], s[i + 3, k], u)
    for i in range(whole, index.shape[0]):
        n = index[i]
        _add_four(rows, n, n, n, n, s[i, k], 0.0, 0.0, 0.0, u)


@implements(pull_back, MultiLinear)
def _pull_back(features, index, slopes, gradient):
    rows, s, n_classes = features.rows, slopes, slopes.shape[1]
    out = gradient.reshape((n_classes, rows.shape[1]))
    whole = index.shape[0] - index.shape[0] % 4
    k = 0
    while k + 3 <= n_classes:
        u, v, w = out[k], out[k + 1], out[k + 2]
        for i in range(0, whole, 4):
            _add_four_thrice(
                rows, index[i], index[i + 1], index[i + 2], index[i + 3],
                s[i, k], s[i + 1, k], s[i + 2, k], s[i + 3, k],
                s[i, k + 1], s[i + 1, k + 1], s[i + 2, k + 1], s[i + 3, k + 1],
                s[i, k + 2], s[i + 1, k + 2], s[i + 2, k + 2], s[i + 3, k + 2],
                u, v, w,
            )  # fmt: skip
        for j in range(3):
            _add_to_one(rows, index[whole:], slopes[whole:], k + j, out[k + j])
        k += 3
    while k < n_classes:
        _add_to_one(rows, index, slopes, k, out[k])
        k += 1
