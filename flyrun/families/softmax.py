"""Classes 0 … K−1 without an order: P(y = k) ∝ exp η_k.

Only differences between the η_k matter. The K−1 linear predictors p are what is left: η = H·p, H the Helmert
matrix, (K, K−1), whose columns are orthonormal and sum to 0. Independent priors N(0, s²) on the coefficients
of all K classes are independent priors N(0, s²) on those of p.
"""

from collections.abc import Sequence

import numpy as np

from flyrun.families import domains
from flyrun.families.family import Derivatives, Family
from flyrun.ground.numerics.special import Numbers


def helmert(n_classes: int) -> np.ndarray:
    """H, (K, K−1): column j sets class j + 1 against the mean of those before it."""
    j = np.arange(1, n_classes)
    k = np.arange(n_classes)[:, None]
    return np.where(k < j, -1.0, np.where(k == j, j, 0.0)) / np.sqrt(j * (j + 1.0))


def contrasts(levels: int) -> np.ndarray:
    """(K−1, K−1): what takes p to η_1 − η_0 … η_{K−1} − η_0."""
    basis = helmert(max(levels, 2))
    return basis[1:] - basis[0]


def _parts(y: Numbers, p: Sequence[Numbers]) -> tuple[np.ndarray, np.ndarray, np.ndarray, Numbers]:
    """H, its rows at y, (K−1, …), the classes' chances, (K, …), and log P(y)."""
    basis = helmert(len(p) + 1)
    at_y = np.moveaxis(basis[np.asarray(y, np.int64)], -1, 0)
    eta = np.tensordot(basis, np.stack(np.broadcast_arrays(*p)), 1)
    highest = eta.max(axis=0)
    chances = np.exp(eta - highest)
    total = chances.sum(axis=0)
    log_own = sum(h * value for h, value in zip(at_y, p, strict=True)) - highest - np.log(total)
    return basis, at_y, chances / total, log_own


def log_density(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Numbers:
    """Of class numbers y."""
    return _parts(y, p)[-1]


def slopes_into(y: Numbers, trials: Numbers, p: Sequence[Numbers], out: np.ndarray) -> None:
    """Slopes by p into out[0] … out[K−2], (K−1, ...)."""
    basis, at_y, chances, _ = _parts(y, p)
    out[:] = at_y - np.tensordot(basis.T, chances, 1)


def derivatives(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Derivatives:
    """By p."""
    basis, at_y, chances, _ = _parts(y, p)
    mean = np.tensordot(basis.T, chances, 1)
    curvatures = tuple(
        tuple(np.tensordot(basis[:, j] * basis[:, m], chances, 1) - mean[j] * mean[m] for m in range(len(p)))
        for j in range(len(p))
    )
    return tuple(at_y - mean), curvatures


def start(y: np.ndarray, trials: np.ndarray, offset: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The classes' shares of all rows, (K−1,)."""
    each = np.log(np.bincount(y.astype(int), weights) + 0.5)
    return each @ helmert(len(each))


def draw(rng: np.random.Generator, trials: Numbers, p: Sequence[Numbers]) -> Numbers:
    """Class numbers."""
    eta = np.tensordot(helmert(len(p) + 1), np.stack(np.broadcast_arrays(*p)), 1)
    return (eta + rng.gumbel(size=eta.shape)).argmax(axis=0).astype(float)


FAMILY = Family(
    "softmax",
    "softmax regression",
    domains.CLASSES,
    "logit",
    log_density,
    derivatives,
    start,
    draw,
    slopes_into=slopes_into,
    linear=lambda levels: max(levels, 2) - 1,
    contrasts=contrasts,
)
