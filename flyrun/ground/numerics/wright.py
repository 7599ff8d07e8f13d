"""Wright's function W(z, α), the sum of e^(jz)/(j!·Γ(jα)) over j = 1, 2 …, and log W's derivatives.

Sums are of the terms about the largest one's j, FAR sds to each side. Where many share an α, log W less its
leading part (1 + α)·e^u, u = (z − α·log α)/(1 + α), is read off polynomials between nodes in z: from one term
to the next log W changes as log(1 + e^z) does, whatever α, so that one spacing serves.
"""

import functools
import math

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from flyrun.ground.numerics.six_points import NODES, POWERS, shares
from flyrun.ground.numerics.special import Numbers, digamma, log_gamma, trigamma

#: sds to which the sum goes, and its step, in sds, where (1 + α)·j at the largest term is at least SMOOTH:
#: there a sum in larger steps is the sum, as of an integral
FAR, STEP, SMOOTH = 9.0, 0.7, 36.0
CELL = 0.0625  # between nodes, to errors of 2e-11 in log W
APART = 0.03125  # log α of nodes, to errors of 1e-10·α in log W
_PIECE = 64  # cells whose polynomials are made together
_TERMS, _PART = 30_000, 4_096  # and sums that are worked out at a time: they stay in a core's cache
_PLACES = (0, 1, 3), (2, 4), (5,)  # below, of what polynomials and their derivatives give

#: log W and its derivatives by z, a = log α, zz, za and aa
Derivatives = tuple[Numbers, Numbers, Numbers, Numbers, Numbers, Numbers]


def log_wright(z: Numbers, alpha: Numbers) -> Numbers:
    """log W(z, α)."""
    return _of_all(1, z, alpha)[0]


def wright_derivatives(z: Numbers, alpha: Numbers) -> Derivatives:
    """log W and its derivatives by z and log α."""
    return tuple(_of_all(6, z, alpha))  # type: ignore[return-value]


def _of_all(k: int, z: Numbers, alpha: Numbers) -> np.ndarray:
    """The first k of log W and its derivatives, 1 or 6, (k, …), by whichever way makes fewer sums."""
    shape = np.broadcast_shapes(np.shape(z), np.shape(alpha))
    z, alpha = np.broadcast_to(z, shape), np.asarray(alpha, np.float64)
    each = alpha.reshape((1,) * (len(shape) - alpha.ndim) + alpha.shape)
    out, alpha = np.empty((k, *shape)), np.broadcast_to(each, shape)
    if not out.size:
        return out
    with np.errstate(invalid="ignore"):  # what is infinite
        many, nodes = np.ptp(np.log(each)) / APART + len(NODES), np.maximum(_PIECE, np.ptp(z) / CELL)
    few = each.size <= many or k > 1
    if not (each.size if few else many) * nodes <= z.size:
        known = np.isfinite(z) & np.isfinite(alpha)
        out[:, ~known] = np.nan
        if known.any():
            out[:, known] = _summed(k, z[known], alpha[known])
    elif few:
        for place in np.ndindex(each.shape):
            which = tuple(slice(None) if n == 1 else i for i, n in zip(place, each.shape, strict=True))
            out[:, *which] = _read(k, z[which], float(each[place]))
    else:
        out[0] = _read_near(z.ravel(), alpha.ravel()).reshape(shape)
    return out


def _read(k: int, z: np.ndarray, alpha: float) -> np.ndarray:
    """These, (k, …), of one α."""
    out = _leading(k, z, alpha)
    for n, values in enumerate(_rest(k, z, alpha)):
        for place, value, pace in zip(_PLACES[n], values, (1.0, 1.0 / CELL, 2.0 / CELL**2), strict=False):
            value *= pace
            out[place] += value
    return out


def _read_near(z: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """log W, (n,), of z and α (n,), between log α that are APART: at the same u, where all change alike."""
    out, log_alpha = _leading(1, z, alpha)[0], np.log(alpha)
    u, cells = (z - alpha * log_alpha) / (1.0 + alpha), np.floor(log_alpha / APART)
    parts = [(cell, np.flatnonzero(cells == cell)) for cell in np.unique(cells)]
    for cell, which in ((c, some[at : at + _PART]) for c, some in parts for at in range(0, len(some), _PART)):
        t = log_alpha[which] / APART - cell
        for weight, level in zip(shares(t), (cell + NODES) * APART, strict=True):
            its = math.exp(level)
            ((rest,),) = _rest(1, (1.0 + its) * u[which] + its * level, its)
            out[which] += weight * rest
    return out


def _rest(k: int, z: np.ndarray, alpha: float) -> list[np.ndarray]:
    """What is beyond the leading part, by cells: as `_polynomial`, of log W, or of all that `_piece` has."""
    first, last = (math.floor(end / (CELL * _PIECE)) for end in (z.min(), z.max()))
    pieces = [_piece(alpha, number) for number in range(first, last + 1)]
    coefficients = np.concatenate(pieces, axis=2) if len(pieces) > 1 else pieces[0]
    t = z * (1.0 / CELL)
    t -= first * _PIECE
    cell = t.astype(np.intp)
    t -= cell
    if k == 1:
        return [_polynomial(coefficients[0], cell, t, 1)]
    return [_polynomial(its, cell, t, 3 - n) for n, its in enumerate(coefficients)]


def _polynomial(coefficients: np.ndarray, cell: np.ndarray, t: np.ndarray, k: int) -> np.ndarray:
    """(k, …): cells' polynomials of coefficients (6, cells), slopes, half the second derivatives, at t."""
    *others, last = coefficients
    out = np.zeros((k, *t.shape))
    last.take(cell, out=out[0], mode="clip")
    for each in others[::-1]:
        for n in range(k - 1, 0, -1):
            out[n] *= t
            out[n] += out[n - 1]
        out[0] *= t
        out[0] += each.take(cell)
    return out


@functools.lru_cache(1_024)
def _piece(alpha: float, number: int) -> np.ndarray:
    """Of log W and its derivatives by a and aa, less their leading parts, t's coefficients, (3, 6, cells)."""
    z = CELL * (_PIECE * number + np.arange(NODES[0], _PIECE + NODES[-1]))
    values = _summed(6, z, np.full(len(z), alpha)) - _leading(6, z, alpha)
    windows = sliding_window_view(values[[0, 2, 5]], len(NODES), axis=1)
    return np.ascontiguousarray(np.moveaxis(windows @ POWERS.T, 2, 1))


def _leading(k: int, z: np.ndarray, alpha: Numbers) -> np.ndarray:
    """The first k of (1 + α)·e^u and its derivatives, (k, …)."""
    level, share, out = np.log(alpha), alpha / (1.0 + alpha), np.empty((k, *np.shape(z)))
    u = (z - alpha * level) / (1.0 + alpha)
    np.exp(u, out=out[0])
    if k > 1:
        top, v = out[0], u + level
        out[1], out[2], out[3] = top, (-alpha * top) * v, top / (1.0 + alpha)
        out[4] = (-share * top) * (v + 1.0)
        out[5] = out[4] * (1.0 - alpha * v)
    out[0] *= 1.0 + alpha
    return out


def _window(z: np.ndarray, alpha: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The first j of sums, their step and the number of terms."""
    top = np.exp(np.minimum((z - alpha * np.log(alpha)) / (1.0 + alpha), 300.0))
    sd = np.sqrt(top / (1.0 + alpha))
    step = np.where((1.0 + alpha) * top < SMOOTH, 1.0, np.maximum(1.0, np.floor(sd * STEP)))
    first = np.maximum(1.0, np.floor(top - FAR * sd - 2.0))
    return first, step, np.floor((top + FAR * sd + 6.0 - first) / step) + 1.0


def _gammas(j: np.ndarray, at: np.ndarray) -> Numbers:
    return log_gamma(j + 1.0) + log_gamma(at)


def _slopes(j: np.ndarray, at: np.ndarray) -> Numbers:
    return -at * digamma(at)


def _curvatures(j: np.ndarray, at: np.ndarray) -> Numbers:
    return -at * at * trigamma(at)


#: of a term, by j and jα: the log of its divisor, its log's slope by log α, the second derivative less that
_FUNCTIONS = _gammas, _slopes, _curvatures


def _summed(k: int, z: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """These, (k, n), by sums, of z and α (n,). What Gamma gives is read off a table where that is smaller."""
    first, step, number = _window(z, alpha)
    parts = np.array_split(np.argsort(number), math.ceil(number.sum() / _TERMS))
    ends = [number[some[-1]] - 1.0 for some in parts]
    most = max(float(np.max(first[some] + end * step[some])) for some, end in zip(parts, ends, strict=True))
    values, place = np.unique(alpha, return_inverse=True)
    functions, tables = _FUNCTIONS[: 1 if k == 1 else 3], None
    if len(values) * most <= number.sum():
        whole = np.arange(1.0, most + 1.0)
        tables = [np.ravel(f(whole, values[:, None] * whole)) for f in functions]
    out = np.empty((k, len(z)))
    for some, end in zip(parts, ends, strict=True):
        j = first[some, None] + step[some, None] * np.arange(end + 1.0)
        if tables is None:
            at = j * alpha[some, None]
            factors = [f(j, at) for f in functions]
        else:
            index = (j + (place[some, None] * most - 1.0)).astype(np.intp)
            factors = [table.take(index) for table in tables]
        logs = j * z[some, None] - factors[0]
        level = logs.max(axis=1, keepdims=True)
        weights = np.exp(logs - level)
        total = weights.sum(axis=1)
        out[0, some] = level[:, 0] + np.log(step[some] * total)
        if k > 1:
            out[1:, some] = _moments(weights / total[:, None], j, *factors[1:])
    return out


def _moments(weights: np.ndarray, j: np.ndarray, by_a: Numbers, more: Numbers) -> list[np.ndarray]:
    """log W's derivatives, (5, n), by weights of sum 1 and the terms' logs', all (n, T)."""

    def mean(*values: Numbers) -> np.ndarray:
        return np.einsum(",".join(["nt"] * (1 + len(values))) + "->n", weights, *values)

    first, second = mean(j), mean(by_a)
    j, by_a = j - first[:, None], by_a - second[:, None]
    return [first, second, mean(j, j), mean(j, by_a), mean(by_a, by_a) + second + mean(more)]
