"""Firefly Monte Carlo with adaptive subsampling: the "tunable" version of §3.6.

Angelino, Johnson & Adams (2016) propose to evaluate "only a subset of terms in Equation (3.41)", one that has
"terms corresponding to both possible values of z_n":

    log p(θ, z | x) = log p(θ) + Σ_{n bright} log(L_n − B_n) + Σ_{n dark} log B_n.

Batches of terms are read, without replacement, until Student's t test (Algorithm 6) is sure at level ε.

- terms=both: as the survey has it, a batch of bright terms and one of dark ones a stage, two strata whose
  totals and variances add up. A dark term costs a query, though its bound alone is evaluated.
- terms=bright: Σ_n log B_n is known in closed form, so that no dark term need be read; with it the ratio is
  p̃(θ')/p̃(θ)·Π L̃_n(θ')/L̃_n(θ) over the bright data alone.

log L̃_n is kept at θ, so a bright datum costs one query. What is accepted has the rest of its bright data read
as well, as brightness needs their likelihoods: only refusals save. Biased for ε > 0.
"""

from math import log, sqrt
from typing import NamedTuple

import numpy as np
from scipy.stats import t as student_t

from flyrun.experiments.config import acceptance as options
from flyrun.experiments.models.base_density import log_base
from flyrun.experiments.models.features import BLOCK, predict
from flyrun.experiments.models.likelihood import enter, log_bound
from flyrun.experiments.samplers.chain.acceptance.rule import decide, probability
from flyrun.experiments.samplers.chain.brightness.partition import is_bright
from flyrun.experiments.samplers.chain.setup import Setup
from flyrun.experiments.samplers.chain.targets.firefly import evaluate_bright, swap_bright
from flyrun.experiments.samplers.chain.targets.known_base import log_base_at
from flyrun.experiments.samplers.chain.targets.target import keep, kept_log_data
from flyrun.ground.numerics.compiled import copy_into, implements, inline_jit, jit
from flyrun.ground.numerics.lazy_shuffle import Deck, deal, deck
from flyrun.ground.numerics.state import unsaved


@unsaved(workspace=("values",), fixed=("quantiles",))
class BrightSubset(NamedTuple):
    """A t test on bright data."""

    batch: int  # data of a stage
    quantiles: np.ndarray  # t⁻¹_{m−1}(1 − ε), (K,), of m = batch, 2·batch, … up to N
    values: np.ndarray  # (BLOCK,): workspace


@unsaved(workspace=("dark", "change"))
class BothValues(NamedTuple):
    """A t test on bright and on dark terms of equation 3.41."""

    bright: BrightSubset
    prior: NamedTuple  # without the bounds, as dark terms bring theirs
    deck: Deck  # of all data: dark ones are its cards that are not bright
    dark: np.ndarray  # (batch,) uint32: workspace, as is the next
    change: np.ndarray  # (BLOCK,)


def build(config: options.BrightSubset, setup: Setup) -> BrightSubset | BothValues:
    """The rule from its configuration (batch, epsilon, terms)."""
    rule = bright_subset(setup.n_data, config.batch, config.epsilon)
    return both_values(rule, setup.problem.prior, setup.n_data) if config.terms == "both" else rule


def bright_subset(n_data: int, batch: int, epsilon: float) -> BrightSubset:
    """The rule for N data. 2 ≤ batch ≤ BLOCK; 0 ≤ epsilon ≤ ½."""
    sizes = np.arange(batch, n_data + batch, batch)
    quantiles = student_t.ppf(1.0 - epsilon, sizes - 1) if epsilon > 0 else np.full(len(sizes), np.inf)
    return BrightSubset(batch, quantiles, np.zeros(BLOCK))


def both_values(rule: BrightSubset, prior: NamedTuple, n_data: int) -> BothValues:
    """The same on both kinds of terms, of N data with this prior."""
    return BothValues(rule, prior, deck(n_data), np.zeros(rule.batch, np.uint32), np.zeros(BLOCK))


@jit
def _read_bright(rule, rng, target, first, count, proposal):
    """Shuffle the bright data's places first … count − 1 and query them at the proposal."""
    n_bright = target.memory.partition.n_bright[0]
    for i in range(first, count):  # bright data are in no order: a shuffle's next cards
        swap_bright(target, i, i + int(rng.random() * (n_bright - i)))
    evaluate_bright(target, first, count, proposal, rule.values)


@inline_jit
def _with_one(count, mean, squares, value):
    """Mean and Σ(x − mean)² of `count` numbers and of one more."""
    more = value - mean
    mean += more / (count + 1)
    return mean, squares + more * more * count / (count + 1)


@inline_jit
def _squared_error(count, squares, total):
    """Of the mean of `count` of `total` numbers, read without replacement; 0 where all are read."""
    return squares / (count - 1) / count * (total - count) / (total - 1) if count < total else 0.0


@inline_jit
def _by_all(target, u, log_ratio):
    """Whether to accept once every bright datum is read, and with which chance."""
    total = 0.0
    for i in range(target.memory.partition.n_bright[0]):
        total += target.memory.proposed_values[i]
    chance = probability(log_ratio + total - kept_log_data(target, None))
    return u < chance, chance


@inline_jit
def _move(rule, target, theta, proposal, count):
    """Accept: the bright data from place `count` on are queried, too, for brightness needs them."""
    n_bright = target.memory.partition.n_bright[0]
    for first in range(count, n_bright, BLOCK):
        evaluate_bright(target, first, min(first + BLOCK, n_bright), proposal, rule.values)
    copy_into(theta, proposal)
    keep(target)


@implements(decide, BrightSubset)
def _bright_subset(rule, rng, target, theta, proposal, log_ratio):
    memory = target.memory
    n_bright, u = memory.partition.n_bright[0], rng.random()
    level = log(u) - log_ratio if u > 0.0 else -np.inf  # of the sum over all bright data
    count, stage, mean, squares = 0, 0, 0.0, 0.0
    while count < n_bright:
        first, count = count, min(count + rule.batch, n_bright)
        _read_bright(rule, rng, target, first, count, proposal)
        for i in range(first, count):
            mean, squares = _with_one(i, mean, squares, memory.proposed_values[i] - memory.values[i])
        error = sqrt(_squared_error(count, squares, n_bright))
        if count < n_bright and abs(mean - level / n_bright) >= rule.quantiles[stage] * error:
            break
        stage += 1
    if count == n_bright:
        accepted, chance = _by_all(target, u, log_ratio)
    else:
        accepted = mean * n_bright > level
        chance = 1.0 if accepted else 0.0
    if accepted:
        _move(rule, target, theta, proposal, count)
    return chance


@jit
def _bounds_change(target, index, theta, proposal, change):
    """change[i] = log B_n(proposal) − log B_n(theta), n = index[i]; at most BLOCK."""
    work = target.bound_work
    enter(target.bound, theta)
    predict(target.features, index, theta, work.eta)
    log_bound(target.bound, target.model, index, work.eta, change, None)
    enter(target.bound, proposal)
    predict(target.features, index, proposal, work.eta)
    log_bound(target.bound, target.model, index, work.eta, work.values, None)
    for i in range(index.shape[0]):
        change[i] = work.values[i] - change[i]


@jit
def _read_dark(rule, rng, target, card, most, theta, proposal):
    """Deal from `card` on until `most` dark data came: their changes of log B_n. Returns the next card."""
    count, n_data = 0, rule.deck.order.shape[0]
    while count < most and card < n_data:
        deal(rule.deck, rng, card, card + 1)
        n = rule.deck.order[card]
        rule.dark[count] = n
        count += 1 - is_bright(target.memory.partition, n)
        card += 1
    _bounds_change(target, rule.dark[:count], theta, proposal, rule.change)
    target.memory.queries[0] += count
    return card


@implements(decide, BothValues)
def _both_values(rule, rng, target, theta, proposal, log_ratio):
    bright, memory = rule.bright, target.memory
    n_bright, u = memory.partition.n_bright[0], rng.random()
    n_dark = rule.deck.order.shape[0] - n_bright
    without = log_ratio - log_base_at(target, proposal) + log_base_at(target, theta)
    without += log_base(rule.prior, proposal, None) - log_base(rule.prior, theta, None)
    level = log(u) - without if u > 0.0 else -np.inf  # of the sum over all terms
    lit, mean, squares = 0, 0.0, 0.0
    dim, dark_mean, dark_squares = 0, 0.0, 0.0
    card, stage, accepted, sure = 0, 0, False, False
    while not sure and (lit < n_bright or dim < n_dark):
        first, lit = lit, min(lit + bright.batch, n_bright)
        if lit > first:
            _read_bright(bright, rng, target, first, lit, proposal)
            _bounds_change(target, memory.partition.bright[first:lit], theta, proposal, rule.change)
            for i in range(first, lit):
                value = memory.proposed_values[i] - memory.values[i] + rule.change[i - first]
                mean, squares = _with_one(i, mean, squares, value)
        begin, dim = dim, min(dim + bright.batch, n_dark)
        if dim > begin:
            card = _read_dark(rule, rng, target, card, dim - begin, theta, proposal)
            for i in range(begin, dim):
                dark_mean, dark_squares = _with_one(i, dark_mean, dark_squares, rule.change[i - begin])
        if lit < n_bright or dim < n_dark:
            total = n_bright * mean + n_dark * dark_mean
            error = n_bright * n_bright * _squared_error(lit, squares, n_bright)
            error += n_dark * n_dark * _squared_error(dim, dark_squares, n_dark)
            sure = abs(total - level) >= bright.quantiles[stage] * sqrt(error)
            accepted = total > level
        stage += 1
    chance = 1.0 if accepted else 0.0
    if not sure:
        accepted, chance = _by_all(target, u, log_ratio)
    if accepted:
        _move(bright, target, theta, proposal, lit)
    return chance
