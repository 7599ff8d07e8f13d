"""Which data are bright: Maclaurin & Adams (2014), §3.3 and Figure 3.

A list of the bright data, and a bit for every datum. Both moves are O(1). The paper's list goes on with the
dark data and is kept together with its inverse; here dark data are proposed by their numbers and bright ones
passed over, so that half of the list and the inverse need not be fetched from memory, nor changed.

Six data of which 3 and 1 are bright; then brighten(4); then darken(0), after which 4 has the place of 3.

    bright [ 3 1 ]               bright [ 3 1 4 ]             bright [ 4 1 ]
    bits     0 1 0 1 0 0         bits     0 1 0 1 1 0         bits     0 1 0 0 1 0
    datum    0 1 2 3 4 5         datum    0 1 2 3 4 5         datum    0 1 2 3 4 5
"""

from typing import NamedTuple

import numpy as np

from flyrun.ground.numerics.compiled import inline_jit

_ONE, _WORD, _PLACE = (np.uint64(number) for number in (1, 6, 63))


class Partition(NamedTuple):
    """Which data are bright."""

    # (N,) uint32: its first n_bright numbers are the bright data, what follows is room. Short, so that more
    # of them fit into the caches; without a sign, so that none is asked whether it counts from the end
    bright: np.ndarray
    bits: np.ndarray  # (⌈N/64⌉,) uint64: datum n is bright if bit n mod 64 of word n div 64 is 1
    n_bright: np.ndarray  # (1,) int64: number of bright data


def all_dark(n_data: int) -> Partition:
    """A partition of n_data data with none bright."""
    bits = np.zeros(-(-n_data // 64), np.uint64)
    return Partition(np.zeros(n_data, np.uint32), bits, np.zeros(1, np.int64))


def pack(partition: Partition) -> dict[str, np.ndarray]:
    """The bright data, (B,)."""
    return {"bright": partition.bright[: partition.n_bright[0]].copy()}


def unpack(n_data: int, bright: np.ndarray) -> Partition:
    """The partition of which this array, (B,), was packed."""
    partition = all_dark(n_data)
    partition.bright[: len(bright)] = bright
    np.bitwise_or.at(partition.bits, bright >> 6, _ONE << (bright.astype(np.uint64) & _PLACE))
    partition.n_bright[:] = len(bright)
    return partition


@inline_jit
def is_bright(partition, n):
    """1 if datum n is bright, else 0."""
    n = np.uint64(n)
    return (partition.bits[n >> _WORD] >> (n & _PLACE)) & _ONE


@inline_jit
def ith_bright(partition, i):
    """The i-th bright datum, 0 ≤ i < number of bright data."""
    return partition.bright[i]


@inline_jit
def _flip(partition, n):
    n = np.uint64(n)
    partition.bits[n >> _WORD] ^= _ONE << (n & _PLACE)


@inline_jit
def brighten(partition, n):
    """Make dark datum n bright: it becomes the last bright one."""
    count = partition.n_bright[0]
    partition.bright[np.uint64(count)] = n
    partition.n_bright[0] = count + 1
    _flip(partition, n)


@inline_jit
def darken(partition, i):
    """Make the i-th bright datum dark: the last bright one takes its place."""
    last = partition.n_bright[0] - 1
    _flip(partition, partition.bright[i])
    partition.bright[i] = partition.bright[np.uint64(last)]
    partition.n_bright[0] = last
