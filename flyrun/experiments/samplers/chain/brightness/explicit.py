"""Algorithm 1 of Maclaurin & Adams (2014): the z_n of a share of the data are drawn anew."""

from math import exp
from typing import NamedTuple

import numpy as np

from flyrun.experiments.config import brightness as options
from flyrun.experiments.samplers.chain.brightness.base import resample
from flyrun.experiments.samplers.chain.brightness.partition import is_bright, ith_bright
from flyrun.experiments.samplers.chain.targets.firefly import brighten, darken, query
from flyrun.ground.numerics.compiled import implements, outer_jit
from flyrun.ground.numerics.state import unsaved

ORDERS = ("with_replacement", "without_replacement", "sequential")
WITH_REPLACEMENT, WITHOUT_REPLACEMENT = 0, 1


@unsaved(workspace=("visits", "stamp"))
class Explicit(NamedTuple):
    """Algorithm 1: Gibbs draws of z_n for a share of the data at every sweep.

    Which data: drawn with replacement (as printed), without replacement, or the next block in turn (§3.2).
    A visit to a bright datum is free, its likelihood being kept; a visit to a dark one is a query.
    """

    order: int  # its place in ORDERS
    deck: np.ndarray  # (N,) int64: the data, partly shuffled by draws without replacement
    place: np.ndarray  # (1,) int64: where the next sequential block starts
    visits: np.ndarray  # (n_visits,) uint32: workspace, the dark data of this sweep
    stamp: np.ndarray  # (N,) int64: workspace, the sweep that last visited a datum
    sweep: np.ndarray  # (1,) int64: number of the sweep


def build(config: options.Explicit, n_data: int, expected: np.ndarray) -> Explicit:
    """Update from config.fraction and config.order. expected: (N,)."""
    return explicit(config.fraction, config.order, n_data)


def explicit(fraction: float, order: str, n_data: int) -> Explicit:
    """Algorithm 1 visiting ⌈fraction·N⌉ data a sweep, 0 < fraction ≤ 1, in an order named in ORDERS."""
    place, sweep = np.zeros(1, np.int64), np.zeros(1, np.int64)
    visits, stamp = np.zeros(int(np.ceil(fraction * n_data)), np.uint32), np.zeros(n_data, np.int64)
    return Explicit(ORDERS.index(order), np.arange(n_data), place, visits, stamp, sweep)


@outer_jit
def _next_datum(brightness, rng, visit):
    deck = brightness.deck
    if brightness.order == WITH_REPLACEMENT:
        return rng.integers(0, deck.shape[0])
    if brightness.order == WITHOUT_REPLACEMENT:  # Fisher-Yates: any start order of the deck serves
        j = rng.integers(visit, deck.shape[0])
        n = deck[j]
        deck[j] = deck[visit]
        deck[visit] = n
        return n
    n = brightness.place[0]
    brightness.place[0] = (n + 1) % deck.shape[0]
    return n


@implements(resample, Explicit)
def _explicit_sweep(brightness, rng, target, theta):
    memory = target.memory
    partition = memory.partition
    visits, stamp = brightness.visits, brightness.stamp
    brightness.sweep[0] += 1

    # Each datum once: a second draw of the same z_n at the same θ has the same distribution as the first, so
    # it would cost a query and change nothing.
    n_dark = 0
    for visit in range(visits.shape[0]):
        n = _next_datum(brightness, rng, visit)
        if stamp[n] != brightness.sweep[0]:
            stamp[n] = brightness.sweep[0]
            if not is_bright(partition, n):
                visits[n_dark] = n
                n_dark += 1
    query(target, visits[:n_dark], theta)

    # downwards, so that the datum that takes a place has been looked at
    for i in range(partition.n_bright[0] - 1, -1, -1):
        visited = stamp[ith_bright(partition, i)] == brightness.sweep[0]
        if visited and rng.random() * (1.0 + exp(-memory.values[i])) >= 1.0:
            darken(target, i)
    for j in range(n_dark):
        if rng.random() * (1.0 + exp(-memory.proposed_values[j])) < 1.0:
            brighten(target, visits[j], j)
