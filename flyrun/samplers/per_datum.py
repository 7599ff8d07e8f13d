"""Brightness with a proposal rate for each datum, which Maclaurin & Adams (2014, §5) leave to future work.

One q for all data is too high for the many that are nearly always dark and too low for the few with high
leverage, which then stay dark, or bright, for long. Here datum n has its own q_n, near c·E L̃_n, a multiple
of the probability with which it would be bright. Detailed balance holds datum by datum as in Algorithm 2: a
bright one darkens with probability min(1, q_n/L̃_n); a dark one is proposed with probability q_n and lit with
probability min(1, L̃_n/q_n).

A sweep costs O(bright + Σ q_n): data are binned by powers of two of q_n, geometric skips at the bin's highest
rate propose its members, bright ones are passed over, and the rest are thinned to their own rate.
"""

from typing import NamedTuple

import numpy as np

from flyrun.compiled import implements
from flyrun.samplers.brightness import log_uniform_below, mean_skip, resample
from flyrun.samplers.firefly import query
from flyrun.samplers.partition import brighten, darken, is_bright, ith_bright
from flyrun.samplers.state import unsaved


@unsaved(workspace=("proposed",), fixed=("log_q", "members", "thinning", "first", "skip"))
class PerDatum(NamedTuple):
    """Algorithm 2 with rates q_n."""

    log_q: np.ndarray
    """(N,)."""
    members: np.ndarray
    """(N,) int64: the data, bin after bin."""
    thinning: np.ndarray
    """(N,): q of members[i] over its bin's rate, in (½, 1]."""
    first: np.ndarray
    """(bins + 1,) int64: where each bin starts in members."""
    skip: np.ndarray
    """(bins,): mean_skip of the bin's rate."""
    proposed: np.ndarray
    """(N,) int64: workspace."""


def per_datum(q: np.ndarray) -> PerDatum:
    """Update with rates q, (N,), each in (0, 1]."""
    q = np.asarray(q, dtype=np.float64)
    power = np.floor(-np.log2(q)).astype(np.int16)  # 2^−(power+1) < q ≤ 2^−power
    members = np.argsort(power, kind="stable")  # of so short integers it takes O(N)
    counts = np.bincount(power)
    powers = np.flatnonzero(counts)
    return PerDatum(
        log_q=np.log(q),
        members=members,
        thinning=np.ldexp(q, power)[members],
        first=np.append(0, np.cumsum(counts[powers])).astype(np.int64),
        skip=mean_skip(0.5**powers),
        proposed=np.zeros(q.size, np.int64),
    )


def rates(expected: np.ndarray, factor: float) -> np.ndarray:
    """q_n = factor·E L̃_n, kept in [½/N, 1]: no datum is forgotten for more than some 2N sweeps.

    expected: E L̃_n over the posterior, (N,).
    """
    return np.clip(factor * expected, 0.5 / expected.size, 1.0)


@implements(resample, PerDatum)
def _per_datum_sweep(brightness, rng, target, theta):
    memory = target.memory
    partition = memory.partition
    n_bright = partition.n_bright[0]
    members, first, proposed = brightness.members, brightness.first, brightness.proposed

    n_proposed = 0
    for b in range(brightness.skip.shape[0]):
        skip = brightness.skip[b]
        place = first[b] + int(skip * rng.standard_exponential())
        while place < first[b + 1]:
            n = members[place]
            if not is_bright(partition, n) and rng.random() < brightness.thinning[place]:
                proposed[n_proposed] = n
                n_proposed += 1
            place += 1 + int(skip * rng.standard_exponential())
    query(target, proposed[:n_proposed], theta)

    # As in Algorithm 2: who is lit is settled before anyone darkens, and done after.
    n_lit = 0
    for j in range(n_proposed):
        n = proposed[j]
        if log_uniform_below(rng, memory.values[n] - brightness.log_q[n]):
            proposed[n_lit] = n
            n_lit += 1
    for j in range(n_bright - 1, -1, -1):
        n = ith_bright(partition, j)
        if log_uniform_below(rng, brightness.log_q[n] - memory.values[n]):
            darken(partition, n)
    for j in range(n_lit):
        brighten(partition, proposed[j])
