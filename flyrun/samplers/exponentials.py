"""Many exponential draws at once.

One at a time, each costs a look into tables that the data have driven out of the nearest cache. In bulk they
are uniforms, whose logarithms are taken in vector instructions: a third of the time.
"""

from typing import Any

import numpy as np
from numba.core import types
from numba.extending import overload

from flyrun.compiled import inline_jit
from flyrun.models.vector_math import log_positive

WHOLE = 16
"""Draws are made in multiples of this; what is not used is thrown away."""


def exponentials(rng: Any, n: int, room: Any) -> Any:
    """At least n independent standard exponentials; room: (≥ n rounded up to WHOLE,) float64, overwritten.

    A generator that only plants symbols, as tests use, is asked for them one by one.
    """
    if not isinstance(rng, np.random.Generator):
        return [rng.standard_exponential() for _ in range(n)]
    whole = -(-n // WHOLE) * WHOLE
    room[:whole] = -np.log1p(-rng.random(whole))
    return room


def room_for(n: int) -> np.ndarray:
    """Room for n draws."""
    return np.zeros(-(-n // WHOLE) * WHOLE)


@inline_jit
def _fill(rng, n, room):
    whole = -(-n // WHOLE) * WHOLE
    for i in range(whole):
        room[i] = 1.0 - rng.random()  # in (0, 1]
    for i in range(whole):
        room[i] = -log_positive(room[i])
    return room


@overload(exponentials, jit_options={"forceinline": True, "nogil": True, "error_model": "numpy"})
def _compiled(rng, n, room):
    if isinstance(rng, types.NumPyRandomGeneratorType):
        return lambda rng, n, room: _fill(rng, n, room)
    return None
