"""Densities of weighted particles under a Gaussian kernel, exact: no tree and no grid.

log Σ_j w_j Π_d N(x_d; c_jd, h_d²) by sums of exponentials about the largest so far. Centres are taken a block
at a time, which stays in the nearest cache, by loops that become vector instructions.
"""

import numpy as np

from flyrun.ground.numerics.compiled import dot_jit, jit
from flyrun.ground.numerics.vector_math import exp_negative

_BLOCK = 512


@dot_jit
def _exponents(points, i, centres, log_weight, low, count, out):
    for j in range(count):
        out[j] = log_weight[low + j]
    for d in range(centres.shape[0]):
        x = points[i, d]
        for j in range(count):
            away = x - centres[d, low + j]
            out[j] -= 0.5 * away * away


@dot_jit
def _sum_of_exponentials(exponents, count, top):
    total = 0.0
    for j in range(count):
        total += exp_negative(exponents[j] - top)
    return total


@jit
def _add(points, centres, log_weight, exponents, top, total):
    m = log_weight.shape[0]
    for low in range(0, m, _BLOCK):
        count = min(_BLOCK, m - low)
        for i in range(points.shape[0]):
            _exponents(points, i, centres, log_weight, low, count, exponents)
            high = top[i]
            for j in range(count):
                high = max(high, exponents[j])
            if high > top[i]:
                total[i] *= exp_negative(max(top[i] - high, -700.0))
                top[i] = high
            if high > -np.inf:
                total[i] += _sum_of_exponentials(exponents, count, high)


def log_density(
    points: np.ndarray, centres: np.ndarray, log_weight: np.ndarray, bandwidth: np.ndarray
) -> np.ndarray:
    """Log density, (n,), at points (n, P), of centres (m, P) whose weights sum to 1, sds `bandwidth` (P,).

    n·m evaluations of the kernel.
    """
    bandwidth = np.broadcast_to(bandwidth, points.shape[1:])
    top, total = np.full(len(points), -np.inf), np.zeros(len(points))
    scaled = np.ascontiguousarray(points / bandwidth), np.ascontiguousarray((centres / bandwidth).T)
    _add(*scaled, np.ascontiguousarray(log_weight), np.empty(_BLOCK), top, total)
    with np.errstate(divide="ignore"):
        log_total = np.log(total)
    return top + log_total - np.log(bandwidth).sum() - 0.5 * len(bandwidth) * np.log(2 * np.pi)


def silverman(n: float, size: int) -> float:
    """Silverman's (1986, eq. 4.14) bandwidth for n draws of a normal in `size` dimensions, in its sds."""
    return float((4.0 / (size + 2.0) / n) ** (1.0 / (size + 4.0)))


_PAIRED, _ROUNDS = 200, 6


def local_sd(theta: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Standard deviations within a mode, (P,), of particles (m, P) with weights (m,) that sum to 1.

    From differences of near particles: those of a normal of covariance S, weighed by one of covariance D,
    have covariance V with V⁻¹ = (2S)⁻¹ + D⁻¹. D = P·diag(S) is taken from the round before, the first from
    all particles; those of another mode weigh next to nothing. 0 where there is no spread.
    """
    size = theta.shape[1]
    share = (np.arange(_PAIRED) + 0.5) / _PAIRED  # an even sample of them: no luck in it
    ends = np.cumsum(weight)
    some = theta[np.minimum(np.searchsorted(ends, share * ends[-1]), len(theta) - 1)]
    mean = weight @ theta
    sd = np.sqrt(weight @ (theta - mean) ** 2)
    if not (sd > 0).all():
        return sd
    first, second = np.triu_indices(_PAIRED, 1)
    apart = some[first] - some[second]
    for _ in range(_ROUNDS):
        scaled = apart / (np.sqrt(size) * sd)
        near = np.exp(-0.5 * (scaled**2).sum(axis=1))
        near *= (scaled != 0).any(axis=1)  # copies of one particle tell nothing
        if near.sum() == 0:
            return sd
        covariance = (scaled.T * near) @ scaled / near.sum()
        values, vectors = np.linalg.eigh(covariance)
        # of a normal every value is below 1; luck may put one above
        spread = 0.5 / (1.0 / np.clip(values, 1e-12, 0.95) - 1.0)
        sd = np.sqrt(size) * sd * np.sqrt(vectors**2 @ spread)
    return sd
