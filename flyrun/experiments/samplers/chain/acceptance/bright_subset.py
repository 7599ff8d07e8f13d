"""Firefly Monte Carlo with adaptive subsampling of the bright data: the "tunable" version of §3.6.

Angelino, Johnson & Adams (2016) propose to evaluate "only a subset of terms in Equation (3.41)". Given the
brightness the ratio is p̃(θ')/p̃(θ)·Π L̃_n(θ')/L̃_n(θ) over B bright data: batches of them are read, without
replacement, until Student's t test (Algorithm 6) is sure at level ε. log L̃_n is kept at θ, so a datum costs
one query. What is accepted has the rest of its bright data read as well, as brightness needs their
likelihoods: only refusals save. Biased for ε > 0.
"""

from math import log, sqrt
from typing import NamedTuple

import numpy as np
from scipy.stats import t as student_t

from flyrun.experiments.config import acceptance as options
from flyrun.experiments.models.features import BLOCK
from flyrun.experiments.samplers.chain.acceptance.rule import decide, probability
from flyrun.experiments.samplers.chain.setup import Setup
from flyrun.experiments.samplers.chain.targets.firefly import evaluate_bright, swap_bright
from flyrun.experiments.samplers.chain.targets.target import keep, kept_log_data
from flyrun.ground.numerics.compiled import copy_into, implements
from flyrun.ground.numerics.state import unsaved


@unsaved(workspace=("values",), fixed=("quantiles",))
class BrightSubset(NamedTuple):
    """A t test on bright data."""

    batch: int  # data of a stage
    quantiles: np.ndarray  # t⁻¹_{m−1}(1 − ε), (K,), of m = batch, 2·batch, … up to N
    values: np.ndarray  # (BLOCK,): workspace


def build(config: options.BrightSubset, setup: Setup) -> BrightSubset:
    """The rule from its configuration (batch, epsilon)."""
    return bright_subset(setup.n_data, config.batch, config.epsilon)


def bright_subset(n_data: int, batch: int, epsilon: float) -> BrightSubset:
    """The rule for N data. 2 ≤ batch ≤ BLOCK; 0 ≤ epsilon ≤ ½."""
    sizes = np.arange(batch, n_data + batch, batch)
    quantiles = student_t.ppf(1.0 - epsilon, sizes - 1) if epsilon > 0 else np.full(len(sizes), np.inf)
    return BrightSubset(batch, quantiles, np.zeros(BLOCK))


@implements(decide, BrightSubset)
def _bright_subset(rule, rng, target, theta, proposal, log_ratio):
    memory = target.memory
    n_bright, u = memory.partition.n_bright[0], rng.random()
    level = log(u) - log_ratio if u > 0.0 else -np.inf  # of the sum over all bright data
    count, stage, mean, squares = 0, 0, 0.0, 0.0
    while count < n_bright:
        first, count = count, min(count + rule.batch, n_bright)
        for i in range(first, count):  # bright data are in no order: a shuffle's next cards
            swap_bright(target, i, i + int(rng.random() * (n_bright - i)))
        evaluate_bright(target, first, count, proposal, rule.values)
        for i in range(first, count):
            more = memory.proposed_values[i] - memory.values[i] - mean
            mean += more / (i + 1)
            squares += more * more * i / (i + 1)
        if count < n_bright:
            spread = sqrt(squares / (count - 1) / count * (n_bright - count) / (n_bright - 1))
            if abs(mean - level / n_bright) >= rule.quantiles[stage] * spread:
                break
        stage += 1
    chance = 0.0
    if count == n_bright:
        total = 0.0
        for i in range(n_bright):
            total += memory.proposed_values[i]
        chance = probability(log_ratio + total - kept_log_data(target, None))
        accepted = u < chance
    else:
        accepted = mean * n_bright > level
        chance = 1.0 if accepted else 0.0
    if accepted:
        for first in range(count, n_bright, BLOCK):
            evaluate_bright(target, first, min(first + BLOCK, n_bright), proposal, rule.values)
        copy_into(theta, proposal)
        keep(target)
    return chance
