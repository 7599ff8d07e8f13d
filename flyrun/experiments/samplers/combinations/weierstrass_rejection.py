"""The Weierstrass rejection sampler (Wang & Dunson 2013), two shards at a time up a binary tree.

A pair of draws makes Σ W_j θ_j, W_j = (C_1⁻¹ + C_2⁻¹)⁻¹C_j⁻¹, and is kept with probability
exp(−dᵀ(C_1 + C_2)⁻¹d/2h), d = θ_1 − θ_2. h is what keeps the share `accepted` of the pairs, as its authors
tune it. As h → 0 that is the product of both densities; of Gaussians it is for every h, as the average then
does not depend on d. In many dimensions h is wide, and the rule little more than consensus with full weights.
By importance that probability is a weight, by which pairs are drawn again.
"""

import numpy as np
from scipy.optimize import brentq

from flyrun.experiments.config.sampler.combinations import WeierstrassRejection
from flyrun.experiments.samplers.combinations.moments import covariances
from flyrun.experiments.samplers.combinations.rules import Rule, up_a_tree

_FIRST = 20_000  # pairs that h is found by


def combine(draws: np.ndarray, config: WeierstrassRejection, rng: np.random.Generator) -> np.ndarray:
    """(T, P) of draws (J, T, P)."""
    return up_a_tree(draws, lambda left, other: pair(left, other, config.accepted, rng, config.keep))


RULES = {"weierstrass_rejection": Rule("Weierstrass rejection", combine)}


def pair(
    left: np.ndarray, other: np.ndarray, accepted: float, rng: np.random.Generator, keep: str = "rejection"
) -> np.ndarray:
    """(T, P) of draws (T, P) of two densities."""
    n = len(left)
    ours, theirs = covariances(np.stack([left, other]))
    both = np.linalg.inv(ours + theirs)
    share, whiten = theirs @ both, np.linalg.cholesky(both)

    def tried(count: int) -> tuple[np.ndarray, np.ndarray]:
        """Averages (count, P) of pairs, and squares of how far their draws are apart, (count,)."""
        first, second = left[rng.integers(n, size=count)], other[rng.integers(n, size=count)]
        apart = first - second
        return second + apart @ share.T, ((apart @ whiten) ** 2).sum(axis=1)

    candidates, apart = tried(max(n, _FIRST))
    width = bandwidth(apart, accepted)
    if keep == "importance":
        weight = np.exp(-0.5 * apart / width)
        return candidates[rng.choice(len(candidates), n, p=weight / weight.sum())]
    kept: list[np.ndarray] = []
    while True:
        kept.append(candidates[rng.standard_exponential(len(candidates)) > 0.5 * apart / width])
        if sum(map(len, kept)) >= n:
            return np.concatenate(kept)[:n]
        candidates, apart = tried(max(n, _FIRST))


def bandwidth(apart: np.ndarray, accepted: float) -> float:
    """h at which exp(−apart/2h) is `accepted` on average, of squared distances (M,)."""
    scale = max(float(np.median(apart)), np.finfo(float).tiny)

    def over(log_h: float) -> float:
        return float(np.exp(-0.5 * apart / (scale * np.exp(log_h))).mean()) - accepted

    return scale * float(np.exp(brentq(over, -60.0, 60.0)))
