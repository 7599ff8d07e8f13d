"""Values known of some of the data in the current state, forgotten all at once: a stamp says of which state.

A state's number goes up by one and every stamp is old: no array is cleared.
"""

from typing import Any, NamedTuple

import numpy as np

from flyrun.ground.numerics.compiled import inline_jit
from flyrun.ground.numerics.state import packed


def _pack(known: "Stamped") -> dict[str, np.ndarray]:
    index = np.flatnonzero(known.stamp == known.state[0])
    return {"index": index, "values": known.values[index]}


def _unpack(known: "Stamped", arrays: dict[str, np.ndarray]) -> Any:
    fresh = none_known(len(known.values))
    fresh.values[arrays["index"]] = arrays["values"]
    fresh.stamp[arrays["index"]] = fresh.state[0]
    return fresh


@packed(_pack, _unpack)
class Stamped(NamedTuple):
    """One number for each datum, or none. Its name is part of the digests in results/reference/check."""

    values: np.ndarray  # (N,): those with an old stamp mean nothing
    stamp: np.ndarray  # (N,) int64: the state that a value is of
    state: np.ndarray  # (1,) int64: the current one


def none_known(n_data: int) -> Stamped:
    """Nothing known."""
    return Stamped(np.zeros(n_data), np.zeros(n_data, np.int64), np.ones(1, np.int64))


@inline_jit
def is_known(known, n):
    """Whether the value of datum n is of the current state."""
    return known.stamp[n] == known.state[0]


@inline_jit
def put(known, n, value):
    """Know it of datum n."""
    known.values[n] = value
    known.stamp[n] = known.state[0]


@inline_jit
def forget_all(known):
    """Begin another state, of which nothing is known."""
    known.state[0] += 1
