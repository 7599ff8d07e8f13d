"""The map that a level's effects follow: u = Q(z + Q'r), Q = TW', W the inverse of chol(I + c·T'HT).

Where the rows of a level say −½u'cHu + u'r of its effects u ~ N(0, TT'), z is N(0, I) whatever T, c and r:
no funnel is left. Elsewhere z is near that, and the Jacobian makes any map exact. T may be 0.

Shapes: J levels of q effects in C chains. z, r, u: (q, J, C); H: (q, q, J); T: (q, q, C), lower; c: (C,).
h, (n, C), holds log sds, then of a correlated T, row by row, atanh of its partial correlations.
"""

from typing import NamedTuple

import numpy as np

_FEW = 4  # effects of a level up to which loops over these are the fastest
_SURE = 1.0 - 1e-15  # of a partial correlation read again, at most


class Triangle(NamedTuple):
    """T of h. partial: partial correlations; left: what is left of a row's sd at each, (q, q, C)."""

    t: np.ndarray
    partial: np.ndarray
    left: np.ndarray


def triangle(h: np.ndarray, q: int) -> Triangle:
    """T of h (n, C), n = q where effects are independent."""
    sd, chains = np.exp(h[:q]), h.shape[1]
    partial, left, t = np.zeros((q, q, chains)), np.ones((q, q, chains)), np.zeros((q, q, chains))
    rows, columns = np.tril_indices(q, -1)
    if len(h) > q:
        partial[rows, columns] = np.tanh(h[q:])
    for k in range(q - 1):
        left[:, k + 1] = left[:, k] * np.sqrt(1.0 - partial[:, k] ** 2)
    t[rows, columns] = sd[rows] * partial[rows, columns] * left[rows, columns]
    diagonal = np.arange(q)
    t[diagonal, diagonal] = sd * left[diagonal, diagonal]
    return Triangle(t, partial, left)


def of_triangle(t: np.ndarray, correlated: bool) -> np.ndarray:
    """h (S, n) of T (S, q, q), lower."""
    sd = np.sqrt((t * t).sum(axis=2))
    parts, left = [np.log(sd)], np.ones(t.shape[:2])
    partial = np.zeros(t.shape)
    for k in range(t.shape[1] - 1):
        partial[:, :, k] = (t[:, :, k] / (sd * left)).clip(-_SURE, _SURE)
        left = left * np.sqrt(1.0 - partial[:, :, k] ** 2)
    rows, columns = np.tril_indices(t.shape[1], -1)
    return np.concatenate([*parts, np.arctanh(partial[:, rows, columns])] if correlated else parts, axis=1)


def triangle_slopes(its: Triangle, h: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """Slopes by h, (n, C), of a function whose slopes by T are these, (q, q, C)."""
    q = len(its.t)
    each = slopes * its.t
    total = np.empty_like(h)
    total[:q] = each.sum(axis=1)
    for place, (i, k) in enumerate(zip(*np.tril_indices(q, -1), strict=True) if len(h) > q else ()):
        z = its.partial[i, k]
        straight = slopes[i, k] * np.exp(h[i]) * its.left[i, k] * (1.0 - z * z)
        total[q + place] = straight - z * each[i, k + 1 : i + 1].sum(axis=0)
    return total


def diagonal(h: np.ndarray, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """T, (q, C), of independent effects of precisions Σ_m shares_mk·e^(−2h_m); parts of these, (m, q, C).

    shares: (m, q); h: (m, C). Parts are relative.
    """
    with np.errstate(divide="ignore"):
        each = np.log(shares)[:, :, None] - 2.0 * h[:, None]
    whole = np.logaddexp.reduce(each, axis=0)
    return np.exp(-0.5 * whole), np.exp(each - whole)


def lkj(h: np.ndarray, q: int, eta: float) -> tuple[np.ndarray, np.ndarray]:
    """Log density (C,) of LKJ(eta) of atanh partial correlations, with the Jacobian; its slopes (n, C)."""
    y = h[q:]
    if not len(y):
        return np.zeros(h.shape[1]), np.zeros(h.shape)
    power = eta + 0.5 * (q - 2.0 - np.tril_indices(q, -1)[1][: len(y), None])
    value = power * 2.0 * (np.log(2.0) - np.abs(y) - np.log1p(np.exp(-2.0 * np.abs(y))))
    slopes = np.concatenate([np.zeros((q, h.shape[1])), -2.0 * power * np.tanh(y)])
    return value.sum(axis=0), slopes


class Mapped(NamedTuple):
    """u of z, and what the reverse pass needs; v, with u = Tv; level: log det of W less ½|v|², (C,)."""

    u: np.ndarray
    level: np.ndarray
    w: np.ndarray
    q: np.ndarray
    drawn: np.ndarray
    score: np.ndarray
    v: np.ndarray


def roots(information: np.ndarray, t: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """W and Q = TW', (q, q, J, C). information: H."""
    inverse = _inverse(information, t, c)
    return inverse, product(t[:, :, None], inverse.swapaxes(0, 1))


def forward(z: np.ndarray, r: np.ndarray, inverse: np.ndarray, q: np.ndarray) -> Mapped:
    """u of z, by W and Q."""
    score = turned(q, r)
    drawn = z + score
    v = turned(inverse, drawn)
    diagonal = np.arange(len(z))
    level = np.log(inverse[diagonal, diagonal]).sum(axis=(0, 1)) - 0.5 * (v * v).sum(axis=(0, 1))
    return Mapped(times(q, drawn), level, inverse, q, drawn, score, v)


def backward(v: np.ndarray, r: np.ndarray, inverse: np.ndarray, q: np.ndarray) -> np.ndarray:
    """z, (q, J, C), of v, (q, J, C), with u = Tv."""
    drawn = np.linalg.solve(inverse.transpose(2, 3, 1, 0), v.transpose(1, 2, 0)[..., None])[..., 0]
    return drawn.transpose(2, 0, 1) - turned(q, r)


def _inverse(information: np.ndarray, t: np.ndarray, c: np.ndarray) -> np.ndarray:
    """W, (q, q, J, C), lower."""
    t = t[:, :, None]
    bent = c * product(t.swapaxes(0, 1), product(information[..., None], t))
    q = len(bent)
    if q > _FEW:
        fine = np.isfinite(bent).all(axis=(0, 1))
        blocks = np.where(fine, bent, 0.0).transpose(2, 3, 0, 1) + np.eye(q)
        inverse = np.tril(np.linalg.inv(np.linalg.cholesky(blocks))).transpose(2, 3, 0, 1)
        return np.where(fine, inverse, np.nan)
    root, inverse = np.zeros_like(bent), np.zeros_like(bent)
    for i in range(q):
        for k in range(i + 1):
            left = bent[i, k] + (i == k)
            for m in range(k):
                left = left - root[i, m] * root[k, m]
            root[i, k] = np.sqrt(left) if i == k else left / root[k, k]
        inverse[i, i] = 1.0 / root[i, i]
        for k in range(i):
            inverse[i, k] = -(root[i, k:i] * inverse[k:i, k]).sum(axis=0) * inverse[i, i]
    return inverse


def reverse(mapped: Mapped, by_u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Slopes by z and r, (q, J, C), of the log density with `level`, whose slopes by u are by_u (q, J, C)."""
    z = turned(mapped.q, by_u) - times(mapped.w, mapped.v)
    return z, times(mapped.q, z)


def reverse_roots(
    mapped: Mapped,
    r: np.ndarray,
    information: np.ndarray,
    c: np.ndarray,
    by_u: np.ndarray,
    z: np.ndarray,
    by_q: np.ndarray | None = None,
    varies: bool = True,
) -> tuple[np.ndarray, np.ndarray | float]:
    """Slopes by T, (q, q, C), and by c beside r's part, (C,), where that varies.

    z: those by z; by_q: of what else reads Q.
    """
    inner = by_u[:, None] * mapped.drawn[None] + r[:, None] * z[None]
    both = mapped.drawn[:, None] * z[None] + z[:, None] * mapped.score[None]
    if by_q is not None:
        inner = inner + by_q
        both = both + product(by_q.swapaxes(0, 1), mapped.q)
    q = len(z)
    both = -np.where(np.tri(q, dtype=bool)[..., None, None], both, both.swapaxes(0, 1))
    both[np.arange(q), np.arange(q)] -= 1.0
    inner = inner + c * product(product(information[..., None], mapped.q), both)
    by_t = product(inner, mapped.w).sum(axis=2)
    if not varies:
        return by_t, 0.0
    by_c = (both[np.arange(q), np.arange(q)]).sum(axis=(0, 1))
    by_c = by_c - (product(both, mapped.w) * mapped.w).sum(axis=(0, 1, 2))
    return by_t, 0.5 * by_c / c


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Of small matrices, (q, q, ...) each: sums over few terms of long arrays, which einsum is slow at."""
    total = a[:, 0, None] * b[None, 0]
    for m in range(1, len(b)):
        total = total + a[:, m, None] * b[None, m]
    return total


def times(matrices: np.ndarray, values: np.ndarray) -> np.ndarray:
    """(q, J, C) of (q, q, J, C) and (q, J, C)."""
    return (matrices * values[None]).sum(axis=1)


def turned(matrices: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The same of transposed matrices."""
    return (matrices * values[:, None]).sum(axis=0)
