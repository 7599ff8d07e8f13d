"""Brightness with a proposal rate for each datum, which Maclaurin & Adams (2014, §5) leave to future work.

One q for all data is too high for the many that are nearly always dark and too low for the few with high
leverage, which then stay dark, or bright, for long. Here datum n has its own q_n, near c·E L̃_n, a multiple
of the probability with which it would be bright. Detailed balance holds datum by datum as in Algorithm 2: a
bright one darkens with probability min(1, q_n/L̃_n); a dark one is proposed with probability q_n and lit with
probability min(1, L̃_n/q_n).

A sweep costs O(bright + Σ q_n): data are binned by powers of two of q_n, geometric skips at the bin's highest
rate propose its members, bright ones are passed over, and the rest are thinned to their own rate. One
exponential serves each: it says how many are passed over, and what it has left whether the datum it stops at
is proposed and whether it is lit.
"""

from typing import NamedTuple

import numpy as np

from flyrun.experiments.config import brightness as options
from flyrun.experiments.models.features import expect
from flyrun.experiments.samplers.chain.brightness.base import (
    log_rate,
    reluctance,
    resample,
    settle,
    skip_rate,
    sweep_room,
)
from flyrun.experiments.samplers.chain.brightness.partition import is_bright
from flyrun.experiments.samplers.chain.targets.firefly import evaluate_dark
from flyrun.ground.numerics.compiled import implements
from flyrun.ground.numerics.state import unsaved
from flyrun.ground.numerics.streams import LANES, Stream, exponentials


@unsaved(workspace=("proposed", "lit", "chance"), fixed=("log_q", "members", "member_rate", "first", "rate"))
class PerDatum(NamedTuple):
    """Algorithm 2 with rates q_n."""

    log_q: np.ndarray  # (N,)
    members: np.ndarray  # (N,) uint32: the data, bin after bin
    member_rate: np.ndarray  # (N,): skip_rate of q of members[i]
    first: np.ndarray  # (bins + 1,) int64: where each bin starts in members
    rate: np.ndarray  # (bins,): skip_rate of the bin's highest q
    proposed: np.ndarray  # (N,) uint32: workspace, as is all that follows (see Implicit)
    lit: np.ndarray
    chance: np.ndarray
    stream: Stream


def build(config: options.PerDatum, n_data: int, expected: np.ndarray) -> PerDatum:
    """Update with q_n = config.factor·E L̃_n. expected: (N,)."""
    return per_datum(rates(expected, config.factor))


def per_datum(q: np.ndarray) -> PerDatum:
    """Update with rates q, (N,), each in (0, 1]."""
    q = np.asarray(q, dtype=np.float64)
    power = np.floor(-np.log2(q)).astype(np.int16)  # 2^−(power+1) < q ≤ 2^−power
    members = np.argsort(power, kind="stable").astype(np.uint32)  # of so short integers it takes O(N)
    counts = np.bincount(power)
    powers = np.flatnonzero(counts)
    first = np.append(0, np.cumsum(counts[powers])).astype(np.int64)
    bins = members, skip_rate(q)[members], first, skip_rate(0.5**powers)
    return PerDatum(np.log(q), *bins, *sweep_room(q.size))


def rates(expected: np.ndarray, factor: float) -> np.ndarray:
    """q_n = factor·E L̃_n, (N,), at most 1 and not so low that data are forgotten.

    The least rate costs a sweep half a query, or half of what all others cost where they cost less than one.
    """
    wanted = np.minimum(factor * expected, 1.0)
    share = 0.5 * np.clip(wanted.sum(), 1e-3, 1.0)
    return np.maximum(wanted, share / expected.size)


implements(log_rate, PerDatum)(lambda brightness, n: brightness.log_q[n])
implements(reluctance, PerDatum)(lambda brightness: 0.0)


@implements(resample, PerDatum)
def _per_datum_sweep(brightness, rng, target, theta):
    partition = target.memory.partition
    members, first, proposed = brightness.members, brightness.first, brightness.proposed

    n_proposed = 0
    draws, drawn = brightness.stream.room, 0
    exponentials(brightness.stream, rng, LANES)
    for b in range(brightness.rate.shape[0]):
        rate = brightness.rate[b]
        place, skip = first[b] - 1, 1.0 / rate
        while True:
            if drawn == LANES:
                exponentials(brightness.stream, rng, LANES)
                drawn = 0
            passed = int(skip * draws[drawn])
            rest = draws[drawn] - passed * rate
            drawn += 1
            place += 1 + passed
            if place >= first[b + 1]:
                break
            n = members[place]
            # in this order: the first needs no look at a place far off
            if rest < brightness.member_rate[place] and not is_bright(partition, n):
                expect(target.features, n)
                proposed[n_proposed] = n
                brightness.chance[n_proposed] = rest
                n_proposed += 1
    evaluate_dark(target, proposed[:n_proposed], theta)
    settle(brightness, rng, target, n_proposed)
