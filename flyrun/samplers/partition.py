"""The bright/dark partition of Maclaurin & Adams (2014), §3.3 and Figure 3.

`order` lists the data, the bright ones first; `place` is its inverse; `n_bright[0]` says how many are bright.
Every operation is O(1); a swap moves a datum across the border.

Six data of which 1 and 3 are bright, and after brighten(4): 4 and 0, the first dark datum, changed places.

             bright | dark                          bright     | dark
    order  [  3   1 |  0   2   4   5 ]     order  [  3   1   4 |  2   0   5 ]
    place  [  2   1    3   0   4   5 ]     place  [  4   1   3   0   2   5 ]
    datum     0   1    2   3   4   5       datum     0   1   2   3   4   5
    n_bright 2                             n_bright 3
"""

from typing import NamedTuple

import numpy as np

from flyrun.compiled import jit


class Partition(NamedTuple):
    """Which data are bright."""

    order: np.ndarray
    """(N,) int32: bright data, then dark data. Short integers: more of them fit into the caches."""
    place: np.ndarray
    """(N,) int32: place[order[i]] = i."""
    n_bright: np.ndarray
    """(1,) int64: number of bright data."""


def all_dark(n_data: int) -> Partition:
    """A partition of n_data data with none bright."""
    numbers = np.arange(n_data, dtype=np.int32)
    return Partition(numbers, numbers.copy(), np.zeros(1, np.int64))


def pack(partition: Partition) -> dict[str, np.ndarray]:
    """The data that are not at their first place, where they are, and the number of bright ones."""
    moved = np.flatnonzero(partition.order != np.arange(len(partition.order)))
    return {"moved": moved, "order": partition.order[moved], "n_bright": partition.n_bright.copy()}


def unpack(n_data: int, moved: np.ndarray, order: np.ndarray, n_bright: np.ndarray) -> Partition:
    """The partition of which these arrays were packed."""
    partition = all_dark(n_data)
    partition.order[moved] = order
    partition.place[order] = moved
    partition.n_bright[:] = n_bright
    return partition


@jit
def is_bright(partition, n):
    """Whether datum n is bright."""
    return partition.place[n] < partition.n_bright[0]


@jit
def ith_bright(partition, i):
    """The i-th bright datum, 0 ≤ i < number of bright data."""
    return partition.order[i]


@jit
def ith_dark(partition, i):
    """The i-th dark datum, 0 ≤ i < number of dark data."""
    return partition.order[partition.n_bright[0] + i]


@jit
def _move(partition, n, there):
    order, place = partition.order, partition.place
    here, other = place[n], order[there]
    order[here], order[there] = other, n
    place[other], place[n] = here, there


@jit
def brighten(partition, n):
    """Make dark datum n bright: it becomes the last bright one."""
    n_bright = partition.n_bright[0]
    _move(partition, n, n_bright)
    partition.n_bright[0] = n_bright + 1


@jit
def darken(partition, n):
    """Make bright datum n dark: it becomes the first dark one."""
    last = partition.n_bright[0] - 1
    _move(partition, n, last)
    partition.n_bright[0] = last
