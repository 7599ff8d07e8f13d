"""The product of kernel density estimates of the shards (Neiswanger, Wang & Xing 2014, Algorithm 1).

It has T^J components, one for each choice of a draw of every shard, y_1 … y_J: N(ȳ, h²/J) with the weight
exp(−Σ_j |y_j − ȳ|²/2h²). A chain on the choices, one shard's after the other, makes draw i with h =
i^{−1/(4 + P)}. Draws are whitened by the mean of the shards' covariances before, so that h has no unit. The
product is the posterior only as h → 0 and T·h^P → ∞, and the chain seldom moves where P is large.

The semiparametric product (§3.3) is a Gaussian, and kernels for the rest: weights are these times
N(ȳ | m, P⁻¹ + h²/J)/Π_j N(y_j | μ_j, C_j), components N((J/h² + P)⁻¹(J/h²·ȳ + P·m), (J/h² + P)⁻¹). Where
shards are Gaussian all weights are nearly alike.
"""

from math import log
from typing import NamedTuple

import numpy as np

from flyrun.experiments.config.sampler.combinations import Combination
from flyrun.experiments.samplers.combinations.moments import covariances, product
from flyrun.experiments.samplers.combinations.rules import Rule
from flyrun.ground.numerics.compiled import outer_jit


class Shards(NamedTuple):
    """Draws in coordinates where the mean of the shards' covariances is I and the product's is diagonal."""

    draws: np.ndarray  # (J, T, P)
    log_density: np.ndarray  # (J, T): of each draw by the Gaussian of its shard
    mean: np.ndarray  # of the Gaussian product, (P,)
    precision: np.ndarray  # (P,)
    back: np.ndarray  # (P, P): θ = back·y
    parametric: bool  # whether the product of Gaussians is told apart, and kernels make the rest


def nonparametric(draws: np.ndarray, config: Combination, rng: np.random.Generator) -> np.ndarray:
    """(T, P) of draws (J, T, P)."""
    return walked(shards_of(draws, False), rng)[0]


def semiparametric(draws: np.ndarray, config: Combination, rng: np.random.Generator) -> np.ndarray:
    """(T, P) of draws (J, T, P)."""
    return walked(shards_of(draws, True), rng)[0]


RULES = {
    "kernel_product": Rule("Nonparametric product", nonparametric),
    "semiparametric": Rule("Semiparametric product", semiparametric),
}


def shards_of(draws: np.ndarray, parametric: bool) -> Shards:
    """The draws (J, T, P) as the chain has them."""
    every = covariances(draws)
    root = np.linalg.cholesky(every.mean(axis=0))
    target = product(draws)
    precision, turn = np.linalg.eigh(root.T @ target.precision @ root)
    back = root @ turn
    there = np.linalg.inv(back)
    moved = draws @ there.T
    log_density = np.stack(
        [_log_density(part, there @ c @ there.T) for part, c in zip(moved, every, strict=True)]
    )
    return Shards(moved, log_density, there @ target.mean, precision, back, parametric)


def _log_density(draws: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Of draws (T, P) under the Gaussian of their mean and this covariance, up to a constant: (T,)."""
    away = np.linalg.solve(np.linalg.cholesky(covariance), (draws - draws.mean(axis=0)).T)
    return -0.5 * (away**2).sum(axis=0)


def walked(shards: Shards, rng: np.random.Generator) -> tuple[np.ndarray, float]:
    """Draws (T, P), and the share of proposed choices that were accepted."""
    draws, accepted = np.empty(shards.draws.shape[1:]), np.zeros(1, np.int64)
    _walk(rng, shards, draws, accepted)
    return draws @ shards.back.T, float(accepted[0]) / shards.log_density.size


@outer_jit
def _log_weight(shards, mean, squares, log_density, h):
    """Of a choice with this mean, Σ|y_j|² and Σ of log densities by the shards' Gaussians."""
    n_shards = shards.draws.shape[0]
    total = squares
    for d in range(mean.shape[0]):
        total -= n_shards * mean[d] * mean[d]
    value = -0.5 * total / (h * h)
    if shards.parametric:
        value -= log_density
        for d in range(mean.shape[0]):
            away = mean[d] - shards.mean[d]
            value -= 0.5 * away * away / (1.0 / shards.precision[d] + h * h / n_shards)
    return value


@outer_jit
def _walk(rng, shards, out, accepted):
    n_shards, n_draws, size = shards.draws.shape
    chosen = np.empty(n_shards, np.int64)
    mean, other = np.zeros(size), np.empty(size)
    squares = log_density = 0.0
    for j in range(n_shards):
        chosen[j] = int(rng.random() * n_draws)
        log_density += shards.log_density[j, chosen[j]]
        for d in range(size):
            value = shards.draws[j, chosen[j], d]
            mean[d] += value / n_shards
            squares += value * value
    for i in range(n_draws):
        h = (i + 1.0) ** (-1.0 / (4.0 + size))
        now = _log_weight(shards, mean, squares, log_density, h)
        for j in range(n_shards):
            t, new = chosen[j], int(rng.random() * n_draws)
            more = squares
            for d in range(size):
                ours, theirs = shards.draws[j, t, d], shards.draws[j, new, d]
                other[d] = mean[d] + (theirs - ours) / n_shards
                more += theirs * theirs - ours * ours
            theirs_own = log_density + shards.log_density[j, new] - shards.log_density[j, t]
            then = _log_weight(shards, other, more, theirs_own, h)
            if log(1.0 - rng.random()) < then - now:
                chosen[j], squares, log_density, now = new, more, theirs_own, then
                accepted[0] += 1
                for d in range(size):
                    mean[d] = other[d]
        for d in range(size):
            precision, centre = n_shards / (h * h), mean[d]
            if shards.parametric:
                both = precision + shards.precision[d]
                centre = (precision * mean[d] + shards.precision[d] * shards.mean[d]) / both
                precision = both
            out[i, d] = centre + rng.standard_normal() / precision**0.5
