"""Rules on the moments and ranks of shards' draws: each makes draws (T, P) of draws (J, T, P).

Consensus is Angelino, Johnson & Adams (2016), Algorithm 12, mended: the sample covariance C_j of a
subposterior's draws has the prior's 1/J inside already (eq. 4.12), so that weights are Σ C_j⁻¹, Σ⁻¹ =
Σ_j C_j⁻¹. As printed, with the prior's precision added to Σ⁻¹, the prior counts twice.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.spatial.distance import cdist

from flyrun.experiments.config.sampler import combinations as options
from flyrun.experiments.samplers.combinations.moments import covariances, product, root, transport

_ITERATIONS, _CLOSE = 200, 1e-10  # of barycentre and median
_OF_A_SHARD = 100  # draws at most that distances of shards are of


class Rule(NamedTuple):
    """What makes draws (T, P) of draws (J, T, P) by combine(draws, config, rng).

    Where it learns, combine takes scores(theta (S, P)) -> ∇ log posterior, (S, P), besides.
    """

    label: str
    combine: Callable[..., np.ndarray]
    moments: bool = False  # whether it asks for the shards' moments alone
    learns: bool = False


def consensus(draws: np.ndarray, config: options.Consensus, rng: np.random.Generator) -> np.ndarray:
    """Consensus Monte Carlo (Scott et al. 2016): weighted averages of draws (J, T, P), one a shard."""
    weights = _weights(config.weights, covariances(draws))
    total = np.einsum("jpq,jtq->tp", weights, draws)
    return np.linalg.solve(weights.sum(axis=0), total.T).T


def _weights(kind: str, covariance: np.ndarray) -> np.ndarray:
    """(J, P, P), up to a factor of all."""
    eye = np.eye(covariance.shape[1])
    if kind == "uniform":
        return np.broadcast_to(eye, covariance.shape)
    if kind == "scalar":
        return eye / np.trace(covariance, axis1=1, axis2=2)[:, None, None]
    if kind == "diagonal":
        return eye / np.diagonal(covariance, axis1=1, axis2=2)[:, None, :]
    return np.linalg.inv(covariance)


def gaussian_product(draws: np.ndarray, config: options.Combination, rng: np.random.Generator) -> np.ndarray:
    """Product of the Gaussians with the moments of (J, T, P) (Angelino et al. 2016, Algorithm 13)."""
    return product(draws).draws(rng, draws.shape[1])


def pie(draws: np.ndarray, config: options.Combination, rng: np.random.Generator) -> np.ndarray:
    """PIE (Li, Srivastava & Dunson 2017): quantiles of a coordinate of (J, T, P), averaged over shards.

    Of subposteriors whose likelihood is raised to J, each as wide as the posterior. It says nothing of how
    coordinates go together: their order is that of the first shard's draws.
    """
    quantiles = np.sort(draws, axis=1).mean(axis=0)
    ranks = draws[0].argsort(axis=0).argsort(axis=0)
    return np.take_along_axis(quantiles, ranks, axis=0)


def swiss(draws: np.ndarray, config: options.Combination, rng: np.random.Generator) -> np.ndarray:
    """SwISS (Vyner, Nemeth & Sherlock 2023): draws (J, T, P) stretched and moved to the product's moments.

    A_j takes N(μ_j, C_j) to the Gaussian product's N(m, P⁻¹) without turning more than it must; all draws are
    pooled, of each shard T/J at random, so that what is no Gaussian in a shard's shape is kept.
    """
    target = product(draws)
    return _pooled(draws, covariances(draws), np.linalg.inv(target.precision), target.mean)


def wasp(draws: np.ndarray, config: options.Combination, rng: np.random.Generator) -> np.ndarray:
    """WASP (Srivastava, Li & Dunson 2018), of distributions that differ in place and scale: their barycentre.

    Of subposteriors whose likelihood is raised to J; every shard's draws, (J, T, P), are transported to it
    (Álvarez-Esteban et al. 2016), of each shard T/J.
    """
    every = covariances(draws)
    return _pooled(draws, every, barycentre(every), draws.mean(axis=(0, 1)))


def median_posterior(draws: np.ndarray, config: options.Combination, rng: np.random.Generator) -> np.ndarray:
    """The median posterior (Minsker et al. 2014): draws of each shard, as often as its weight in the median.

    Of subposteriors whose likelihood is raised to J; draws: (J, T, P). Distances are of kernel means, a
    Gaussian kernel as wide as the median distance between draws, in sds of the shards.
    """
    some = draws[:, :: -(-draws.shape[1] // _OF_A_SHARD)] / np.median(draws.std(axis=1), axis=0)
    square = np.array([[cdist(shard, other, "sqeuclidean") for other in some] for shard in some])
    weights = median_weights(np.exp(-square / np.median(square)).mean(axis=(2, 3)))
    shard = rng.choice(len(draws), draws.shape[1], p=weights)
    return draws[shard, rng.permutation(draws.shape[1])]


def median_weights(gram: np.ndarray) -> np.ndarray:
    """w, (J,), of the geometric median Σ w_j x_j, from all x_jᵀx_k, (J, J), by Weiszfeld's steps."""
    weights = np.full(len(gram), 1.0 / len(gram))
    for _ in range(_ITERATIONS):
        squares = np.diag(gram) - 2 * gram @ weights + weights @ gram @ weights
        weights = 1.0 / np.sqrt(np.maximum(squares, _CLOSE))
        weights /= weights.sum()
    return weights


def _pooled(draws: np.ndarray, every: np.ndarray, wanted: np.ndarray, centre: np.ndarray) -> np.ndarray:
    """(T, P): of each shard T/J draws, moved from its covariance in `every` to `wanted`, about a centre."""
    pooled = np.empty(draws.shape[1:])
    for j, (theirs, covariance) in enumerate(zip(draws, every, strict=True)):
        away = theirs[j :: len(draws)] - theirs.mean(axis=0)
        pooled[j :: len(draws)] = centre + away @ transport(covariance, wanted)
    return pooled


def barycentre(covariances: np.ndarray) -> np.ndarray:
    """K, (P, P), of C_j, (J, P, P), by the fixed point of Álvarez-Esteban et al.

    In the distance W₂ the barycentre of N(μ_j, C_j) is N(mean μ_j, K), K = mean over j of (K^½ C_j K^½)^½
    (Agueh & Carlier 2011).
    """
    centre = covariances.mean(axis=0)
    for _ in range(_ITERATIONS):
        half = root(centre)
        back = np.linalg.inv(half)
        mean = np.mean([root(half @ covariance @ half) for covariance in covariances], axis=0)
        new = back @ mean @ mean @ back
        if np.abs(new - centre).max() <= _CLOSE * np.abs(centre).max():
            return new
        centre = new
    return centre


def up_a_tree(draws: np.ndarray, pair: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray:
    """Shards two at a time, up a binary tree. pair: draws of two densities' product, of (T, P) of each."""
    level = list(draws)
    while len(level) > 1:
        paired = [pair(level[k], level[k + 1]) for k in range(0, len(level) - 1, 2)]
        level = paired + level[len(level) // 2 * 2 :]
    return level[0]


RULES = {
    "consensus": Rule("Consensus", consensus),
    "gaussian_product": Rule("Gaussian product", gaussian_product, moments=True),
    "pie": Rule("PIE", pie),
    "swiss": Rule("SwISS", swiss),
    "wasp": Rule("WASP", wasp),
    "median_posterior": Rule("Median posterior", median_posterior),
}
