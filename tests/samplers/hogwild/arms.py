"""Arms from words, and what a method of theirs does in n steps."""

from pathlib import Path

import numpy as np

from flyrun.experiments.config.compose import compose_job
from flyrun.experiments.samplers.method import prepare


def method(*words):
    """The method of one arm, thinned by 1."""
    (arm,) = compose_job([*words, "protocol=smoke", "protocol.thin=1"]).arms
    return prepare(arm, Path())


def steps(made, n, seed=0, cuts=()):
    """The last state, and records, of n steps cut into chunks at these steps."""
    state, found = made.init(seed), []
    for first, last in zip((0, *cuts), (*cuts, n), strict=True):
        state, records = made.advance(state, last - first)
        found.append(records)
    return state, {name: np.concatenate([one[name] for one in found]) for name in found[0]}


def same(a, b):
    """Whether two dictionaries hold the same bits."""
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)
