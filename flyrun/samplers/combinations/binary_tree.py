"""Shards two at a time, up a binary tree."""

from collections.abc import Callable

import numpy as np


def up_a_tree(draws: np.ndarray, pair: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray:
    """(T, P) of draws (J, T, P). pair: draws of the product of two densities, of draws (T, P) of each."""
    level = list(draws)
    while len(level) > 1:
        paired = [pair(level[k], level[k + 1]) for k in range(0, len(level) - 1, 2)]
        level = paired + level[len(level) // 2 * 2 :]
    return level[0]
