"""The likelihood as its Taylor polynomial at the MAP, summed over all data: a density that reads none.

θ = θ̂ + Cφ with CᵀHC = I, H the posterior's curvature at θ̂. In φ a converged MAP and a Gaussian prior make
of prior × exp Σ T_2 just N(0, I), and s_n, the root of a datum's leverage, is by how much its predictor can
move when φ moves by 1. Cornish et al. (2019) and Prado, Nemeth & Sherlock (2024) expand at the mode too, in
coordinates of θ.
"""

from collections.abc import Iterator
from types import ModuleType
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from flyrun.experiments.models import passes
from flyrun.experiments.models.features import Features, Model
from flyrun.ground.numerics.compiled import dot_jit, jit
from flyrun.ground.numerics.rows import add_row, first_dot, row_dot

FAR = 1e10
"""Sums of T_k from where on they are no help: their rounding, 10⁻⁶ there, grows to what decides."""

CUBE_ROWS = 512
"""Rows of a block for the cubic's sum: they and their products stay in a core's own cache."""


class Surrogate(NamedTuple):
    """Σ_n T_k,n(φ) − Σ_n log L_n(θ̂), k = order. P parameters, K predictors."""

    order: int
    mean: np.ndarray  # θ̂, (P,)
    whiten: np.ndarray  # Lᵀ, (P, P), upper triangle: φ = Lᵀ(θ − θ̂), LLᵀ = H
    lower: np.ndarray  # L
    colour: np.ndarray  # C = L⁻ᵀ, (P, P)
    pull: np.ndarray  # Σ ∇T at φ = 0, (P,)
    bend: np.ndarray  # −Σ ∇²T, (P, P)
    # Σ f'''x̃x̃x̃/6, P(P + 1)(P + 2)/6 numbers for order 3, else none: see `packed`
    cubic: np.ndarray
    predictors: np.ndarray  # η̂, (N, K)
    away: np.ndarray  # (P,): workspace, as are the next two
    pairs: np.ndarray  # (P(P + 1)/2,) for order 3
    pulls: np.ndarray  # the same


def packed_size(size: int) -> int:
    """How many numbers say a symmetric cube."""
    return size * (size + 1) * (size + 2) // 6


def surrogate(
    order: int,
    mean: np.ndarray,
    lower: np.ndarray,
    gradient: np.ndarray,
    bend: np.ndarray,
    predictors: np.ndarray,
    cubic: np.ndarray | None = None,
) -> Surrogate:
    """From gradient, (P,), and curvature, (P, P), in θ at the mean, of the likelihood alone, and `lower`, L.

    cubic: as `cube` makes it; needed for order 3.
    """
    size, colour = len(mean), coloured(lower)
    pairs = size * (size + 1) // 2 if order == 3 else 0
    inner = colour.T @ bend @ colour
    return Surrogate(
        order=order,
        mean=np.array(mean, np.float64),
        whiten=np.ascontiguousarray(lower.T),
        lower=np.ascontiguousarray(lower),
        colour=colour,
        pull=colour.T @ gradient,
        bend=(inner + inner.T) / 2.0,
        cubic=np.zeros(0) if cubic is None else cubic,
        predictors=predictors,
        away=np.zeros(size),
        pairs=np.zeros(pairs),
        pulls=np.zeros(pairs),
    )


def coloured(lower: np.ndarray) -> np.ndarray:
    """C = L⁻ᵀ, (P, P), of L: φ ~ N(0, I) makes θ̂ + Cφ a draw of covariance (LLᵀ)⁻¹."""
    return np.ascontiguousarray(solve_triangular(lower.T, np.eye(len(lower)), lower=False))


def roots_of_leverages(model: Model, rows: np.ndarray, colour: np.ndarray) -> np.ndarray:
    """s_n, (n,): by how much at most a datum's predictors move when φ moves by 1. rows: (n, D).

    For several predictors the operator norm; of a likelihood that knows no shift of all of them (softmax) the
    shift is left out.
    """
    size, several = rows.shape[1], model.n_predictors
    if several == 1:
        return np.sqrt(((rows @ colour) ** 2).sum(axis=1))
    moved = np.stack([rows @ colour[k * size : (k + 1) * size] for k in range(several)])
    moved -= moved.mean(axis=0)  # of those whose remainders leverages bound, softmax alone has several
    return np.sqrt(np.linalg.eigvalsh(np.einsum("knp,mnp->nkm", moved, moved))[:, -1])


def leverages(model: Model, features: Features, colour: np.ndarray) -> np.ndarray:
    """s_n of all data, (N,)."""

    def work(block: slice) -> np.ndarray:
        return roots_of_leverages(model, features.rows[block].astype(np.float64), colour)

    return passes.gathered(len(features.rows), work)


def predictors_at(model: Model, features: Features, theta: np.ndarray) -> np.ndarray:
    """η_n(θ) of all data, (N, K)."""

    def work(block: slice) -> np.ndarray:
        return passes.block_predictors(model, features, theta, block)

    return passes.gathered(len(features.rows), work)


def cube(
    module: ModuleType, model: Model, features: Features, predictors: np.ndarray, colour: np.ndarray
) -> np.ndarray:
    """Σ f'''(η̂_n) x̃_n x̃_n x̃_n/6, packed, of predictors (N, 1), the only kind that it is for. O(N P³).

    Packed: for i the numbers W_ijk of all pairs k ≤ j ≤ i, so that G(φ) = Σ_i φ_i Σ_{k≤j≤i} W_ijk φ_jφ_k, the
    inner sum a product of two vectors that lie in one piece.
    """
    size = len(colour)
    lower = [np.tril_indices(i + 1) for i in range(size)]

    def work(block: slice) -> tuple[np.ndarray]:
        total = np.zeros(packed_size(size))
        third = module.derivative(module.part(model, block), predictors[block], 3)
        for first in range(block.start, block.stop, CUBE_ROWS):
            part = slice(first, min(first + CUBE_ROWS, block.stop))
            rows = features.rows[part].astype(np.float64) @ colour
            weighed = rows * third[part.start - block.start : part.stop - block.start, None]
            for i, place in enumerate(_places(size)):
                ahead = np.ascontiguousarray(rows[:, : i + 1])
                total[place] += (ahead.T @ (ahead * weighed[:, i, None]))[lower[i]]
        return (total,)

    (total,) = passes.added(passes.over_blocks(len(features.rows), work))
    for i, place in enumerate(_places(size)):
        j, k = lower[i]
        # how often i, j and k are met in the full cube, each in six orders of which all are alike
        often = np.where((j == i) & (k == i), 1.0, np.where((j == i) | (j == k), 3.0, 6.0))
        total[place] *= often / 6.0
    return total


def _places(size: int) -> Iterator[slice]:
    first = 0
    for i in range(size):
        length = (i + 1) * (i + 2) // 2
        yield slice(first, first + length)
        first += length


@jit
def to_phi(surrogate, theta, phi):
    """phi = Lᵀ(θ − θ̂), (P,)."""
    size, away = theta.shape[0], surrogate.away
    for d in range(size):
        away[d] = theta[d] - surrogate.mean[d]
    for d in range(size):
        phi[d] = row_dot(surrogate.whiten, d, away)


@jit
def to_theta(surrogate, phi, theta):
    """theta = θ̂ + Cφ, (P,)."""
    for d in range(phi.shape[0]):
        theta[d] = surrogate.mean[d] + row_dot(surrogate.colour, d, phi)


@dot_jit
def _dot_from(numbers, first, vector, count):
    """Σ_{j < count} numbers[first + j]·vector[j]."""
    part = numbers[first : first + count]
    total = 0.0
    for j in range(count):
        total += part[j] * vector[j]
    return total


@dot_jit
def _add_from(numbers, first, factor, out, count):
    part = numbers[first : first + count]
    for j in range(count):
        out[j] += factor * part[j]


@jit
def _cubic(surrogate, phi, gradient):
    pairs, pulls, size = surrogate.pairs, surrogate.pulls, phi.shape[0]
    n_pairs, first, value = 0, 0, 0.0
    for i in range(size):
        for k in range(i + 1):
            pairs[n_pairs] = phi[i] * phi[k]
            pulls[n_pairs] = 0.0
            n_pairs += 1
        inner = _dot_from(surrogate.cubic, first, pairs, n_pairs)
        value += phi[i] * inner
        if gradient is not None:
            gradient[i] += inner
            _add_from(surrogate.cubic, first, phi[i], pulls, n_pairs)
        first += n_pairs
    if gradient is not None:
        place = 0
        for j in range(size):
            for k in range(j + 1):
                gradient[j] += pulls[place] * phi[k]
                gradient[k] += pulls[place] * phi[j]
                place += 1
    return value


@jit
def summed(surrogate, phi, gradient):
    """Σ T_k(φ) − Σ T_k(0); adds its gradient in φ to gradient, (P,), unless None. No query."""
    value, size = 0.0, phi.shape[0]
    if surrogate.order >= 1:
        for d in range(size):
            value += phi[d] * surrogate.pull[d]
            if gradient is not None:
                gradient[d] += surrogate.pull[d]
    if surrogate.order >= 2:
        if gradient is not None:
            for d in range(size):
                pulled = row_dot(surrogate.bend, d, phi)
                value -= 0.5 * phi[d] * pulled
                gradient[d] -= pulled
        else:
            for d in range(size):
                value -= phi[d] * (first_dot(surrogate.bend, d, phi, d) + 0.5 * surrogate.bend[d, d] * phi[d])
    if surrogate.order >= 3:
        value += _cubic(surrogate, phi, gradient)
    return value


@jit
def add_in_theta(surrogate, gradient, out):
    """out += L·gradient: from φ to θ, both (P,)."""
    for d in range(gradient.shape[0]):
        add_row(surrogate.whiten, d, gradient[d], out)
