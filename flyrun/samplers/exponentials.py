"""Many exponential draws at once.

One at a time, each costs a look into tables that the data have driven out of the nearest cache. In bulk they
are uniforms, whose logarithms are taken in vector instructions: a third of the time.
"""

from typing import Any

import numpy as np
from numba.core import types
from numba.extending import overload

from flyrun.compiled import inline_jit
from flyrun.models.vector_math import log_positive, one_minus_exp_negative

WHOLE = 16
"""Draws are made in multiples of this; what is not used is thrown away."""

SMALLEST = 2.0**-53
"""Chances are not told apart below this: uniforms are multiples of it."""


def exponentials(rng: Any, n: int, room: Any) -> Any:
    """At least n independent standard exponentials; room: (≥ n rounded up to WHOLE,) float64, overwritten.

    A generator that only plants symbols, as tests use, is asked for them one by one.
    """
    if not isinstance(rng, np.random.Generator):
        return [rng.standard_exponential() for _ in range(n)]
    whole = -(-n // WHOLE) * WHOLE
    room[:whole] = -np.log1p(-rng.random(whole))
    return room


def minus_log_chances(rests: Any, n: int) -> None:
    """r becomes −log(1 − e^−r), for the first n of rests, (≥ n rounded up to WHOLE,), r ≥ 0.

    An exponential known to be below λ = −log(1 − q) becomes −log V, with V uniform on (0, q).
    """
    for j in range(n):
        rests[j] = -np.log(-np.expm1(-rests[j]))


def room_for(n: int) -> np.ndarray:
    """Room for n draws."""
    return np.zeros(-(-n // WHOLE) * WHOLE)


_OPTIONS: Any = {"forceinline": True, "nogil": True, "error_model": "numpy", "_nrt": False}


@inline_jit
def _fill(rng, n, room):
    whole = -(-n // WHOLE) * WHOLE
    for i in range(whole):
        room[i] = 1.0 - rng.random()  # in (0, 1]
    for i in range(whole):
        room[i] = -log_positive(room[i])


@inline_jit
def _take_logs(rests, n):
    whole = -(-n // WHOLE) * WHOLE
    for j in range(whole):
        # rounding of what was taken off may have left −1e-17
        rests[j] = -log_positive(max(one_minus_exp_negative(-max(rests[j], 0.0)), SMALLEST))


@overload(exponentials, jit_options=_OPTIONS)
def _compiled(rng, n, room):
    if isinstance(rng, types.NumPyRandomGeneratorType):

        def body(rng, n, room):
            _fill(rng, n, room)
            return room

        return body
    return None


@overload(minus_log_chances, jit_options=_OPTIONS)
def _compiled_chances(rests, n):
    return lambda rests, n: _take_logs(rests, n)
