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
from flyrun.models.features import expect
from flyrun.samplers.brightness import log_rate, mean_skip, resample, settle, settle_in_bulk
from flyrun.samplers.exponentials import WHOLE, exponentials, room_for
from flyrun.samplers.firefly import query
from flyrun.samplers.partition import is_bright
from flyrun.samplers.state import unsaved


@unsaved(workspace=("proposed", "draws"), fixed=("log_q", "members", "thinning", "first", "skip"))
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
    draws: np.ndarray
    """(≥ N,): workspace for exponentials."""


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
        draws=room_for(q.size),
    )


def rates(expected: np.ndarray, factor: float) -> np.ndarray:
    """q_n = factor·E L̃_n, kept in [½/N, 1]: no datum is forgotten for more than some 2N sweeps.

    expected: E L̃_n over the posterior, (N,).
    """
    return np.clip(factor * expected, 0.5 / expected.size, 1.0)


@implements(log_rate, PerDatum)
def _log_rate(brightness, n):
    return brightness.log_q[n]


implements(settle, PerDatum)(settle_in_bulk)


@implements(resample, PerDatum)
def _per_datum_sweep(brightness, rng, target, theta):
    partition = target.memory.partition
    members, first, proposed = brightness.members, brightness.first, brightness.proposed

    n_proposed = 0
    draws, drawn = exponentials(rng, WHOLE, brightness.draws), 0
    for b in range(brightness.skip.shape[0]):
        place = first[b] - 1
        while True:
            if drawn == WHOLE:
                draws, drawn = exponentials(rng, WHOLE, brightness.draws), 0
            place += 1 + int(brightness.skip[b] * draws[drawn])
            drawn += 1
            if place >= first[b + 1]:
                break
            n = members[place]
            if not is_bright(partition, n) and rng.random() < brightness.thinning[place]:
                expect(target.features, n)
                proposed[n_proposed] = n
                n_proposed += 1
    query(target, proposed[:n_proposed], theta)
    settle(brightness, rng, target, n_proposed)
