"""Random numbers in bulk, from sixteen xoshiro256++ generators side by side (Blackman & Vigna 2021, §10.7).

NumPy's generator is a call for each number, and a sweep needs hundreds: each takes a third of a likelihood's
time, and the tables it looks into are driven out of the nearest cache by the data. Here a step of all sixteen
is a few vector instructions, and so is what becomes of their words. They start from words of the chain's own
generator, drawn at their first use, and belong to the chain's state from then on.
"""

from typing import Any, NamedTuple

import numpy as np
from numba.core import types
from numba.extending import overload

from flyrun.ground.numerics.compiled import INLINE_KERNEL, inline_jit, outer_jit
from flyrun.ground.numerics.state import unsaved
from flyrun.ground.numerics.vector_math import cos_sin_of_turn, log_positive, unit_interval

LANES = 16
"""Generators side by side. Numbers are drawn in multiples of this; what is not used is thrown away."""

_HALF, _SHIFT, _TURN, _TURN_BACK, _END, _END_BACK = (np.uint64(bits) for bits in (32, 17, 23, 41, 45, 19))


@unsaved(workspace=("room",))
class Stream(NamedTuple):
    """Sixteen generators."""

    state: np.ndarray
    """(4, LANES) uint64: column k is the k-th generator's; all 0, which none's is, before its first use."""
    room: np.ndarray  # (≥ n,), whole LANES: workspace for n numbers


def stream(n: int) -> Stream:
    """Generators that have not started, for up to n numbers at a time."""
    return Stream(np.zeros((4, LANES), np.uint64), np.zeros(2 * LANES * -(-n // (2 * LANES))))


def uniforms(stream: Stream, rng: Any, n: int) -> None:
    """n independent uniforms on (0, 1], or some more, into stream.room. rng: see `exponentials`."""
    if isinstance(rng, np.random.Generator):
        with np.errstate(over="ignore"):
            _uniforms(stream, rng, -(-n // LANES) * LANES)
        return
    for i in range(n):
        stream.room[i] = rng.random()


def exponentials(stream: Stream, rng: Any, n: int) -> None:
    """n independent standard exponentials, or some more, into stream.room.

    rng starts the stream. A generator that only plants numbers, as tests use, is asked for them one by one.
    """
    if isinstance(rng, np.random.Generator):
        with np.errstate(over="ignore"):  # sums of words wrap
            _exponentials(stream, rng, n)
        return
    for i in range(n):
        stream.room[i] = rng.standard_exponential()


def normals(stream: Stream, rng: Any, out: np.ndarray) -> None:
    """Fill out, (n,), with independent standard normals. rng: see `exponentials`.

    Box & Muller (1958): the radius is the root of twice an exponential, the angle uniform.
    """
    if isinstance(rng, np.random.Generator):
        with np.errstate(over="ignore"):
            _normals(stream, rng, out)
        return
    for i in range(out.shape[0]):
        out[i] = rng.standard_normal()


@outer_jit
def _start(state, rng):
    for i in range(state.shape[0]):
        for lane in range(state.shape[1]):
            high, low = np.uint64(rng.random() * 4294967296.0), np.uint64(rng.random() * 4294967296.0)
            state[i, lane] = (high << _HALF) | low


@inline_jit
def _uniforms(stream, rng, n):
    """n independent uniforms on (0, 1], n a multiple of LANES, into stream.room."""
    state, room = stream.state, stream.room
    if state[0, 0] == 0:
        _start(state, rng)
    for first in range(0, n, LANES):
        part = room[first : first + LANES]  # with first + lane for index these would be scattered one by one
        for lane in range(LANES):
            s, t, u, v = state[0, lane], state[1, lane], state[2, lane], state[3, lane]
            total = s + v
            part[lane] = unit_interval(((total << _TURN) | (total >> _TURN_BACK)) + s)
            u ^= s
            v ^= t
            state[0, lane] = s ^ v
            state[1, lane] = t ^ u
            state[2, lane] = u ^ (t << _SHIFT)
            state[3, lane] = (v << _END) | (v >> _END_BACK)


@inline_jit
def _exponentials(stream, rng, n):
    room, whole = stream.room, -(-n // LANES) * LANES
    _uniforms(stream, rng, whole)
    for i in range(whole):
        room[i] = -log_positive(room[i])


@inline_jit
def _normals(stream, rng, out):
    n, room = out.shape[0], stream.room
    whole = 2 * LANES * -(-n // (2 * LANES))
    _uniforms(stream, rng, whole)
    for first in range(0, whole, 2 * LANES):
        for i in range(first, first + LANES):
            radius = np.sqrt(-2.0 * log_positive(room[i]))
            cosine, sine = cos_sin_of_turn(room[i + LANES])
            room[i], room[i + LANES] = radius * cosine, radius * sine
    for i in range(n):
        out[i] = room[i]


@overload(uniforms, jit_options=INLINE_KERNEL)
def _compiled_uniforms(stream, rng, n):
    if isinstance(rng, types.NumPyRandomGeneratorType):
        return lambda stream, rng, n: _uniforms(stream, rng, -(-n // LANES) * LANES)
    return None


@overload(exponentials, jit_options=INLINE_KERNEL)
def _compiled_exponentials(stream, rng, n):
    if isinstance(rng, types.NumPyRandomGeneratorType):
        return lambda stream, rng, n: _exponentials(stream, rng, n)
    return None


@overload(normals, jit_options=INLINE_KERNEL)
def _compiled_normals(stream, rng, out):
    if isinstance(rng, types.NumPyRandomGeneratorType):
        return lambda stream, rng, out: _normals(stream, rng, out)
    return None
