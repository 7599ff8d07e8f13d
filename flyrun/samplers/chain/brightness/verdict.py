"""Whether proposed dark data are lit, told from g = log L − log B without a logarithm of each.

A dark datum is proposed if V, a uniform, is below its rate q. What is kept of V is r = −log(1 − V), what an
exponential draw has left after the data it passed over. It is lit if V < L̃ = e^g − 1 too, that is, if
log(1 + V) < g; and r − r² ≤ log(1 + V) = log(2 − e^−r) ≤ r − r² + r³ for all r ≥ 0.
"""

from math import expm1
from typing import Any

import numpy as np
from numba.extending import overload

from flyrun.numerics.compiled import INLINE_KERNEL, inline_jit

SMALLEST = 2.0**-53
"""Chances are not told apart below this, so that rounding lights nobody whose bound is tight."""


def lit_among(rests: Any, gaps: Any, n: int, lit: Any) -> int:
    """The places j < n of the lit data into lit, (≥ n,), ascending; returns how many.

    rests: r, gaps: g, both (≥ n,). What is not a number counts as lit, to be found out. Not compiled, r may
    be a symbol, as tests plant them.
    """
    count = 0
    for j in range(n):
        if -np.log(-np.expm1(-rests[j])) > -np.log(np.expm1(gaps[j])):
            lit[count] = j
            count += 1
    return count


@inline_jit
def _lit_among(rests, gaps, n, lit):
    count = np.uint64(0)
    # Rounding of what was taken off may have left −1e-17. A loop of its own, in vector instructions: within
    # the other it costs a sixth of an iteration.
    for j in range(n):
        rests[j] = max(rests[j], SMALLEST)
    for j in range(n):
        r, g = rests[j], gaps[j]
        lower = r * (1.0 - r)
        upper = lower + r * r * r
        verdict = not g <= upper
        if lower < g <= upper:  # seldom
            verdict = -expm1(-r) < expm1(g)
        # counted without a branch, which the processor would guess wrongly too often
        lit[count] = j
        count += np.uint64(verdict)
    return np.int64(count)


@overload(lit_among, jit_options=INLINE_KERNEL)
def _compiled(rests, gaps, n, lit):
    return lambda rests, gaps, n, lit: _lit_among(rests, gaps, n, lit)
