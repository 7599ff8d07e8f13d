"""Random partition trees (Wang, Guo, Heller & Dunson 2015, PART), two shards at a time up a binary tree.

Both shards' draws are cut at their common median in a coordinate taken at random, again and again. A block
has the mass Π (share of each shard in it)/volume, and inside the Gaussian product of what lies there,
coordinate by coordinate. Draws are of several trees, evenly.
"""

import numpy as np

from flyrun.experiments.config.sampler.combinations import PartitionTrees
from flyrun.experiments.samplers.combinations.rules import Rule, up_a_tree

_TRIES = 4  # coordinates, before a block is left whole


def combine(draws: np.ndarray, config: PartitionTrees, rng: np.random.Generator) -> np.ndarray:
    """(T, P) of draws (J, T, P)."""
    return up_a_tree(draws, lambda left, other: pair(left, other, config, rng))


RULES = {"partition_trees": Rule("Partition trees", combine)}


def pair(left: np.ndarray, other: np.ndarray, config: PartitionTrees, rng: np.random.Generator) -> np.ndarray:
    """(T, P): draws of the product of two densities, of draws (T, P) of each."""
    n, size = left.shape
    both = np.stack([left, other])
    least = max(2, round(config.least * n))
    low, high = both.min(axis=(0, 1)), both.max(axis=(0, 1))
    parts = []
    for part in np.array_split(np.arange(n), config.trees):
        blocks = _blocks(both, low, high, least, rng)
        mass = np.array([block.log_mass for block in blocks])
        share = np.exp(mass - mass.max())
        which = rng.choice(len(blocks), size=len(part), p=share / share.sum())
        centre, sd = (np.array([getattr(block, name) for block in blocks])[which] for name in ("mean", "sd"))
        parts.append(centre + sd * rng.standard_normal((len(part), size)))
    return rng.permutation(np.concatenate(parts))


class _Block:
    """A box, and what of both shards' draws, (n_1, P) and (n_2, P), lies in it: two of each at least."""

    def __init__(self, inside: list[np.ndarray], log_volume: float):
        self.log_mass = sum(np.log(len(x)) for x in inside) - log_volume
        precisions = [1.0 / np.maximum(x.var(axis=0, ddof=1), 1e-300) for x in inside]
        total = np.sum(precisions, axis=0)
        self.mean = sum(p * x.mean(axis=0) for p, x in zip(precisions, inside, strict=True)) / total
        self.sd = total**-0.5


def _blocks(
    both: np.ndarray, low: np.ndarray, high: np.ndarray, least: int, rng: np.random.Generator
) -> list[_Block]:
    """Those of one random tree of draws (2, T, P), each with at least `least` draws of each shard."""
    blocks, open_ = [], [(list(both), low, high)]
    while open_:
        inside, low, high = open_.pop()
        for d in rng.permutation(len(low))[:_TRIES]:
            cut = float(np.median(np.concatenate([x[:, d] for x in inside])))
            below = [x[:, d] <= cut for x in inside]
            counts = [int(b.sum()) for b in below]
            if all(least <= n <= len(x) - least for n, x in zip(counts, inside, strict=True)):
                left, right = high.copy(), low.copy()
                left[d] = right[d] = cut
                open_.append(([x[b] for x, b in zip(inside, below, strict=True)], low, left))
                open_.append(([x[~b] for x, b in zip(inside, below, strict=True)], right, high))
                break
        else:
            blocks.append(_Block(inside, float(np.log(np.maximum(high - low, 1e-300)).sum())))
    return blocks
