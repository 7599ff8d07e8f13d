"""Algorithm 2 of Maclaurin & Adams (2014): dark data are proposed with one probability, by skips."""

from math import log
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

_ONE = np.uint64(1)

LONGEST = 1e17
"""Data passed over for each unit of an exponential: an exponential is below 37, and so what is passed over
still an int64. Rates that are lower than its inverse propose nobody in the life of a chain."""


@unsaved(workspace=("proposed", "lit", "chance"))
class Implicit(NamedTuple):
    """Algorithm 2: Metropolis-Hastings on every z_n at once, the dark ones proposed with probability q.

    A bright datum is proposed to darken with probability r = q_{b→d}, 1 as in Algorithm 2, and does so with
    probability min(1, q/(r L̃)). A dark datum is proposed to be lit with probability q = q_{d→b}, and is with
    probability min(1, r L̃/q): the printed algorithm has the inequality the wrong way round here. Which dark
    data are proposed is drawn by geometric skips, so a sweep costs O(bright + q·dark), never O(N).
    """

    log_q: float  # log of the proposal probability q in (0, 1]
    # λ = −log(1 − q), so that ⌊Exponential/λ⌋ is the number of dark data passed over. What the exponential
    # has left after that many λ is independent of it: an exponential known to be below λ
    rate: float
    n_draws: int  # exponentials drawn together at first, about as many as a sweep takes: a multiple of LANES
    proposed: np.ndarray  # (N,) uint32: workspace, the dark data proposed to be lit
    # (N,) uint32: workspace, places in `proposed` of those accepted, then of bright data that darken
    lit: np.ndarray
    # (N,): workspace, for each proposed datum what says whether it is lit (see verdict.py)
    chance: np.ndarray
    stream: Stream  # of exponentials
    darken: float  # r, q ≤ r ≤ 1


def build(config: options.Implicit, n_data: int, expected: np.ndarray) -> Implicit:
    """Update with config.q and config.darken; "auto" is `global_rate`. expected: (N,)."""
    q = min(global_rate(expected), config.darken) if config.q == "auto" else config.q
    return implicit(q, n_data, config.darken)


def implicit(q: float, n_data: int, darken: float = 1.0) -> Implicit:
    """Algorithm 2 with proposal probabilities 0 < q ≤ darken ≤ 1."""
    n_draws = LANES * max(1, int(q * n_data) // LANES)
    return Implicit(float(np.log(q)), float(skip_rate(q)), n_draws, *sweep_room(n_data), float(darken))


def global_rate(expected: np.ndarray) -> float:
    """q that proposes about as many dark data as are bright, Σ E L̃_n/N, within [1/N, 1].

    expected: E L̃_n over the posterior, (N,). Fewer proposals let brightness mix slower than θ does; more cost
    queries that light nobody.
    """
    return float(np.clip(expected.mean(), 1.0 / expected.size, 1.0))


implements(log_rate, Implicit)(lambda brightness, n: brightness.log_q)
implements(reluctance, Implicit)(lambda brightness: -log(brightness.darken))


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
    if brightness.darken < 1.0:  # lit if V < rL̃: V/r in V's place
        for j in range(n_proposed):
            chance[j] = -np.log1p(np.expm1(-chance[j]) / brightness.darken)
    evaluate_dark(target, proposed[:n_proposed], theta)
    settle(brightness, rng, target, n_proposed)
