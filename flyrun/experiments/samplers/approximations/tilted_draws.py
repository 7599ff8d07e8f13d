"""Moments of a shard's tilted density, a Gaussian times the likelihoods of the shard's rows, from draws.

Draws are from a Gaussian q near by, N(μ, S), each with the density's weight over q's. The inverse of a
covariance of n draws is too large by (n − 1)/(n − P − 2) and as noisy as √(P/n); where weights, of mean 1,
only correct the moments of q the noise is less by their sd.
"""

from typing import NamedTuple

import numpy as np

from flyrun.experiments.models import passes
from flyrun.experiments.samplers.approximations.rows_under_gaussian import Natural, Shard


class Weighted(NamedTuple):
    """Draws from q and their weights."""

    mean: np.ndarray  # q's, (P,)
    covariance: np.ndarray  # q's, (P, P)
    away: np.ndarray  # draws less q's mean, (n, P)
    log_weight: np.ndarray  # (n,), up to a constant


def drawn(
    shard: Shard, cavity: Natural, near: Natural, rng: np.random.Generator, n: int, paired: bool
) -> Weighted:
    """n draws from the Gaussian `near`, weighted towards cavity × likelihoods. n queries of every row.

    paired: with every draw its mirror image, so that what is odd in the weights adds nothing to covariances.
    """
    mean, covariance = near.moments()
    noise = rng.standard_normal((-(-n // 2) if paired else n, len(mean)))
    if paired:
        noise = np.concatenate([noise, -noise])[:n]
    away = noise @ np.linalg.cholesky(covariance).T
    theta = mean + away
    log_weight = 0.5 * (noise**2).sum(axis=1) + theta @ cavity.linear
    log_weight -= 0.5 * ((theta @ cavity.precision) * theta).sum(axis=1)
    log_weight += passes.log_likelihoods(shard.module, shard.model, shard.features, theta)
    return Weighted(mean, covariance, away, log_weight)


def corrected(draws: Weighted) -> Natural:
    """The tilted density's Gaussian by moments of q, corrected: draws are control variates.

    m = μ + mean (w − 1)d and S + mean (w − 1)ddᵀ − (m − μ)(m − μ)ᵀ, d = θ − μ. LinAlgError where it is none.
    """
    weight = np.exp(draws.log_weight - draws.log_weight.max())
    share = (weight / weight.sum() - 1.0 / len(weight))[:, None]
    shift = (share * draws.away).sum(axis=0)
    covariance = draws.covariance + draws.away.T @ (share * draws.away) - np.outer(shift, shift)
    return of_moments(draws.mean + shift, covariance)


def raw(draws: Weighted, rng: np.random.Generator) -> tuple[Natural, float]:
    """The same by moments of a chain, and how many draws it is worth; of fewer than P + 3 it is no Gaussian.

    Independence Metropolis-Hastings with q's draws as proposals. A state that is held for h steps counts h;
    the inverse of the covariance is made smaller by what it is too large on average.
    """
    n, size = draws.away.shape
    luck = np.log(rng.random(n))
    held, now = np.zeros(n), 0
    for i in range(n):
        if draws.log_weight[i] - draws.log_weight[now] > luck[i]:
            now = i
        held[now] += 1
    share = held / n
    worth = 1.0 / (share**2).sum()
    shift = share @ draws.away
    around = draws.away - shift
    covariance = around.T @ (share[:, None] * around)
    gaussian = of_moments(draws.mean + shift, covariance)
    less = (worth - size - 2.0) / worth  # that of (worth − 1), and a covariance by n in place of n − 1
    return Natural(less * gaussian.precision, less * gaussian.linear), worth


def shrunk(gaussian: Natural, worth: float, towards: np.ndarray) -> Natural:
    """Of a Gaussian by so many draws, with a precision of the least expected squared error: α of its own and
    β of another's, `towards` (P, P), in whose coordinates errors count (Bodnar, Gupta & Parolya 2016).

    Its mean stays. LinAlgError where either is no Gaussian.
    """
    mean, _ = gaussian.moments()
    root = np.linalg.cholesky(towards)
    back = np.linalg.inv(root)
    size, few = len(mean), (len(mean) + 2.0) / worth
    # of the covariance, with what it is too large by
    inverse = back @ gaussian.precision @ back.T / (1.0 - few)
    trace, square = np.trace(inverse), (inverse**2).sum()
    apart = size * square - trace**2  # 0 where one is a multiple of the other
    alpha = 1.0 - few - trace**2 * size / (worth * apart) if apart > 1e-12 * size * square else 0.0
    alpha = min(max(alpha, 0.0), 1.0 - few)
    other = trace / size * (1.0 - few - alpha)
    precision = root @ (alpha * inverse + other * np.eye(size)) @ root.T
    precision = (precision + precision.T) / 2
    return Natural(precision, precision @ mean)


def of_moments(mean: np.ndarray, covariance: np.ndarray) -> Natural:
    """The Gaussian N(mean, covariance). LinAlgError where it is none."""
    np.linalg.cholesky(covariance)
    precision = np.linalg.inv(covariance)
    precision = (precision + precision.T) / 2
    return Natural(precision, precision @ mean)
