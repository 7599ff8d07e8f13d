"""The Weierstrass rejection sampler (Wang & Dunson 2013), two shards at a time up a binary tree.

A pair of draws is kept with probability exp(−Σ_j |θ_j − θ̄|²/2h²), for a draw of N(θ̄, h²/2): exact draws
of the product of both densities, each smoothed by N(0, h²). h² is `bandwidth` times the mean of both
covariances.
"""

import numpy as np

from flyrun.config.sampler.combinations import WeierstrassRejection
from flyrun.errors import FlyrunError
from flyrun.samplers.combinations.binary_tree import up_a_tree
from flyrun.samplers.combinations.moments import covariances

LABEL, MOMENTS = "Weierstrass rejection", False
_TRIES = 2_000  # pairs for a draw wanted, after which it is given up
_AT_ONCE = 1 << 20  # numbers


def combine(draws: np.ndarray, config: WeierstrassRejection, rng: np.random.Generator) -> np.ndarray:
    """(T, P) of draws (J, T, P). FlyrunError where hardly any pair is kept."""
    return up_a_tree(draws, lambda one, other: pair(one, other, config.bandwidth, rng))


def pair(one: np.ndarray, other: np.ndarray, bandwidth: float, rng: np.random.Generator) -> np.ndarray:
    """(T, P) of draws (T, P) of two densities."""
    n, size = one.shape
    root = np.linalg.cholesky(bandwidth * covariances(np.stack([one, other])).mean(axis=0))
    whitened = np.linalg.inv(root).T
    ours, theirs = one @ whitened, other @ whitened
    made: list[np.ndarray] = []
    kept = tried = 0
    batch = max(n, _AT_ONCE // size)
    while kept < n:
        if tried >= _TRIES * n:
            raise FlyrunError(
                f"sampler=weierstrass_rejection: {kept:,} of {tried:,} pairs of draws in {size} dimensions "
                "were kept; raise sampler.bandwidth, or choose another rule"
            )
        first, second = ours[rng.integers(n, size=batch)], theirs[rng.integers(n, size=batch)]
        # |θ_1 − θ̄|² + |θ_2 − θ̄|² = |θ_1 − θ_2|²/2
        keep = rng.standard_exponential(batch) > 0.25 * ((first - second) ** 2).sum(axis=1)
        made.append(0.5 * (first[keep] + second[keep]))
        kept, tried = kept + int(keep.sum()), tried + batch
    centre = np.concatenate(made)[:n]
    return (centre + rng.standard_normal((n, size)) * np.sqrt(0.5)) @ root.T
