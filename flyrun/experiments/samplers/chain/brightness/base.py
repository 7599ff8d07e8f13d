"""What an update of the brightness variables z given θ must offer, and what those of Algorithm 2 share.

Maclaurin & Adams (2014), §3.2. Bright data carry log L̃_n at the current θ, so only dark data that are
proposed to be lit cost a query. All proposals of one sweep are made from the sets of bright and dark data as
they stood at its start.

An update is a file here: a NamedTuple, its `resample`, and `build(config, n_data, expected)`, where expected
is E L̃_n over the posterior, (N,), for one whose configuration says `expects_tight`, and else may be empty.
"""

from math import expm1
from typing import Any

import numpy as np
from numba.extending import overload

from flyrun.experiments.samplers.chain.brightness.partition import ith_bright
from flyrun.experiments.samplers.chain.targets.firefly import brighten, darken, select
from flyrun.ground.numerics.compiled import INLINE_KERNEL, inline_jit, inlined, plain_jit
from flyrun.ground.numerics.streams import Stream, exponentials, stream

SMALLEST = 2.0**-53
"""Chances are not told apart below this, so that rounding lights nobody whose bound is tight."""


def lit_among(rests: np.ndarray, gaps: np.ndarray, n: int, lit: np.ndarray) -> int:
    """The places j < n of the lit data into lit, (≥ n,), ascending; returns how many. No logarithm is taken.

    A dark datum is proposed if V, a uniform, is below its rate q. What is kept of V is r = −log(1 − V), what
    an exponential draw has left after the data it passed over. It is lit if V < L̃ = e^g − 1 too, g = log L −
    log B, that is, if log(1 + V) < g; and r − r² ≤ log(1 + V) = log(2 − e^−r) ≤ r − r² + r³ for all r ≥ 0.

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


@inlined
def resample(brightness, rng, target, theta):
    """One sweep of z at the current position θ, (P,); changes target.memory only."""


@inlined
def log_rate(brightness, n):
    """log q_n, q_n the probability with which dark datum n is proposed to be lit."""


@inlined
def reluctance(brightness):
    """−log q_{b→d}, of the probability with which a bright datum is proposed to darken; 0: all are."""


@plain_jit
def settle(brightness, rng, target, n_proposed):
    """Light and darken by Metropolis-Hastings (Algorithm 2), for updates with these two and `sweep_room`.

    Dark data brightness.proposed[:n_proposed] have just been queried.

    A dark datum is proposed if a uniform V is below q_n and lit if it is below L̃_n too: that is Algorithm
    2's "with probability min(1, L̃/q)" with a uniform that is drawn already; chance[:n_proposed] tells it (see
    verdict.py). −log of a uniform is an exponential: "with probability min(1, q/L̃)" needs no exp. Verdicts
    are counted without branches, which the processor would guess wrongly too often.
    """
    memory = target.memory
    partition = memory.partition
    n_bright = partition.n_bright[0]
    proposed, lit, chance = brightness.proposed, brightness.lit, brightness.chance

    # Who is lit is settled before anyone darkens, and done after: else a datum could move twice.
    n_lit = lit_among(chance, memory.proposed_values, n_proposed, lit)
    select(target, lit, n_lit)

    # Downwards, so that the swap of a darkened datum only moves data already visited.
    end = np.uint64(n_lit)
    draws = brightness.stream.room
    exponentials(brightness.stream, rng, n_bright)
    for i in range(n_bright - 1, -1, -1):
        lit[end] = i
        level = max(memory.values[i] - log_rate(brightness, ith_bright(partition, i)), reluctance(brightness))
        end += np.uint64(draws[i] > level)  # min(q_{b→d}, q/L̃)
    for j in range(n_lit, np.int64(end)):
        darken(target, lit[j])
    for j in range(n_lit):
        brighten(target, proposed[lit[j]], j)


def sweep_room(n_data: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, Stream]:
    """What `settle` works with: proposed, lit, chance, (N,) each, and stream."""
    return np.zeros(n_data, np.uint32), np.zeros(n_data, np.uint32), np.zeros(n_data), stream(n_data)


def skip_rate(q: float | np.ndarray) -> Any:
    """λ = −log(1 − q): ⌊Exponential/λ⌋ is geometric, data passed over before one of probability q."""
    with np.errstate(divide="ignore"):
        return np.minimum(-np.log1p(-np.asarray(q)), 1e300)  # finite for q = 1: none is passed over
