"""Updates of the brightness variables z given θ (Maclaurin & Adams 2014, §3.2).

Bright data carry log L̃_n at the current θ, so only dark data that are proposed to be lit cost a query. All
proposals of one sweep are made from the sets of bright and dark data as they stood at its start.
"""

from math import exp
from typing import Any, NamedTuple

import numpy as np

from flyrun.models.features import expect
from flyrun.numerics.compiled import implements, inlined, outer_jit
from flyrun.numerics.state import unsaved
from flyrun.numerics.streams import LANES, Stream, exponentials, stream
from flyrun.samplers.chain.brightness.partition import is_bright, ith_bright
from flyrun.samplers.chain.brightness.verdict import lit_among
from flyrun.samplers.chain.targets.firefly import choose, dim, light, look, query

_ONE = np.uint64(1)

LONGEST = 1e17
"""Data passed over for each unit of an exponential: an exponential is below 37, and so what is passed over
still an int64. Rates that are lower than its inverse propose nobody in the life of a chain."""


@inlined
def resample(brightness, rng, target, theta):
    """One sweep of z at the current position θ, (P,); changes target.memory only."""


class NoBrightness(NamedTuple):
    """For targets without auxiliary variables."""

    unused: int = 0


@implements(resample, NoBrightness)
def _no_sweep(brightness, rng, target, theta):
    pass


@inlined
def log_rate(brightness, n):
    """log q_n, q_n the probability with which dark datum n is proposed to be lit."""


@inlined
def settle(brightness, rng, target, n_proposed):
    """Light and darken by Metropolis-Hastings (Algorithm 2): dark data brightness.proposed[:n_proposed] have
    just been queried; all bright data are proposed to darken.
    """


def settle_in_bulk(brightness, rng, target, n_proposed):
    """What `settle` does for updates with the fields `proposed`, `lit`, `chance` and `stream`.

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
    choose(target, lit, n_lit)

    # Downwards, so that the swap of a darkened datum only moves data already visited.
    end = np.uint64(n_lit)
    draws = brightness.stream.room
    exponentials(brightness.stream, rng, n_bright)
    for i in range(n_bright - 1, -1, -1):
        lit[end] = i
        level = max(memory.values[i] - log_rate(brightness, ith_bright(partition, i)), 0.0)
        end += np.uint64(draws[i] > level)  # min(1, q/L̃)
    for j in range(n_lit, np.int64(end)):
        dim(target, lit[j])
    for j in range(n_lit):
        light(target, proposed[lit[j]], j)


@unsaved(workspace=("proposed", "lit", "chance"))
class Implicit(NamedTuple):
    """Algorithm 2: Metropolis-Hastings on every z_n at once, the dark ones proposed with probability q.

    A bright datum is always proposed to darken and does so with probability min(1, q/L̃). A dark datum is
    proposed to be lit with probability q, and is with probability min(1, L̃/q): the printed algorithm has the
    inequality the wrong way round here. Which dark data are proposed is drawn by geometric skips, so a sweep
    costs O(bright + q·dark), never O(N).
    """

    log_q: float
    """log of the proposal probability q in (0, 1]."""
    rate: float
    """λ = −log(1 − q), so that ⌊Exponential/λ⌋ is the number of dark data passed over. What the exponential
    has left after that many λ is independent of it: an exponential known to be below λ."""
    n_draws: int
    """Exponentials drawn together at first, about as many as a sweep takes: a multiple of LANES."""
    proposed: np.ndarray
    """(N,) uint32: workspace, the dark data proposed to be lit."""
    lit: np.ndarray
    """(N,) uint32: workspace, places in `proposed` of those accepted, then of bright data that darken."""
    chance: np.ndarray
    """(N,): workspace, for each proposed datum what says whether it is lit (see verdict.py)."""
    stream: Stream
    """Of exponentials."""


def implicit(q: float, n_data: int) -> Implicit:
    """Algorithm 2 with proposal probability 0 < q ≤ 1."""
    n_draws = LANES * max(1, int(q * n_data) // LANES)
    return Implicit(float(np.log(q)), float(skip_rate(q)), n_draws, *sweep_room(n_data))


def sweep_room(n_data: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, Stream]:
    """What `settle_in_bulk` works with: proposed, lit, chance, stream."""
    return np.zeros(n_data, np.uint32), np.zeros(n_data, np.uint32), np.zeros(n_data), stream(n_data)


def global_rate(expected: np.ndarray) -> float:
    """q that proposes about as many dark data as are bright, Σ E L̃_n/N, within [1/N, 1].

    expected: E L̃_n over the posterior, (N,). Fewer proposals let brightness mix slower than θ does; more cost
    queries that light nobody.
    """
    return float(np.clip(expected.mean(), 1.0 / expected.size, 1.0))


def skip_rate(q: Any) -> Any:
    """λ = −log(1 − q): ⌊Exponential/λ⌋ is geometric, data passed over before one of probability q."""
    with np.errstate(divide="ignore"):
        return np.minimum(-np.log1p(-np.asarray(q)), 1e300)  # finite for q = 1: none is passed over


@implements(log_rate, Implicit)
def _log_rate(brightness, n):
    return brightness.log_q


implements(settle, Implicit)(settle_in_bulk)


@implements(resample, Implicit)
def _implicit_sweep(brightness, rng, target, theta):
    partition, proposed, chance = target.memory.partition, brightness.proposed, brightness.chance
    n_data, rate = partition.bright.shape[0], brightness.rate
    skip = min(1.0 / rate, LONGEST)
    draws, n_draws = brightness.stream.room, brightness.n_draws
    count, n = np.uint64(0), -1  # unsigned, as an index of hot loops: see Partition
    while n < n_data:
        exponentials(brightness.stream, rng, n_draws)
        for i in range(n_draws):
            passed = int(skip * draws[i])
            n += 1 + passed
            if n >= n_data:
                break
            expect(target.features, n)
            # bright data are passed by: the others are proposed independently of them
            proposed[count] = n
            chance[count] = draws[i] - passed * rate
            count += _ONE - is_bright(partition, n)
        n_draws = LANES
    n_proposed = np.int64(count)
    look(target, proposed[:n_proposed], theta)
    settle(brightness, rng, target, n_proposed)


WITH_REPLACEMENT, WITHOUT_REPLACEMENT, SEQUENTIAL = 0, 1, 2
ORDERS = {
    "with_replacement": WITH_REPLACEMENT,
    "without_replacement": WITHOUT_REPLACEMENT,
    "sequential": SEQUENTIAL,
}


@unsaved(workspace=("visits", "stamp"))
class Explicit(NamedTuple):
    """Algorithm 1: Gibbs draws of z_n for a share of the data at every sweep.

    Which data: drawn with replacement (as printed), without replacement, or the next block in turn (§3.2).
    A visit to a bright datum is free, its likelihood being kept; a visit to a dark one is a query.
    """

    order: int
    """One of ORDERS' values."""
    deck: np.ndarray
    """(N,) int64: the data, partly shuffled by draws without replacement."""
    place: np.ndarray
    """(1,) int64: where the next sequential block starts."""
    visits: np.ndarray
    """(n_visits,) int64: workspace, the dark data of this sweep."""
    stamp: np.ndarray
    """(N,) int64: workspace, the sweep that last visited a datum."""
    sweep: np.ndarray
    """(1,) int64: number of the sweep."""


def explicit(fraction: float, order: str, n_data: int) -> Explicit:
    """Algorithm 1 visiting ⌈fraction·N⌉ data a sweep, 0 < fraction ≤ 1, in an order named in ORDERS."""
    n_visits = int(np.ceil(fraction * n_data))
    return Explicit(
        ORDERS[order],
        deck=np.arange(n_data),
        place=np.zeros(1, np.int64),
        visits=np.zeros(n_visits, np.int64),
        stamp=np.zeros(n_data, np.int64),
        sweep=np.zeros(1, np.int64),
    )


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
            dim(target, i)
    for j in range(n_dark):
        if rng.random() * (1.0 + exp(-memory.proposed_values[j])) < 1.0:
            light(target, visits[j], j)


def build(config: Any, n_data: int) -> NoBrightness | Implicit | Explicit:
    """Brightness update from its configuration."""
    if config.name == "implicit":
        return implicit(config.q, n_data)
    if config.name == "explicit":
        return explicit(config.fraction, config.order, n_data)
    return NoBrightness()
