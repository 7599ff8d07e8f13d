"""The full posterior for rules of acceptance that read some of the data: log likelihoods one by one, here and
at a proposal.

What was read at the current position is known until the chain moves: a datum costs a query at the proposal,
and one here only where it was not read yet since the chain came here, by this test or one before.
"""

from typing import Any, NamedTuple

import numpy as np

from flyrun.experiments.models.features import BLOCK, Features, Model, predict
from flyrun.experiments.models.likelihood import log_likelihood
from flyrun.experiments.samplers.chain.targets import proxies as aids
from flyrun.experiments.samplers.chain.targets import target as targets
from flyrun.experiments.samplers.chain.targets.full_data import Workspace, add_up, workspace
from flyrun.experiments.samplers.chain.targets.known_base import KnownBase, known_base
from flyrun.ground.numerics.compiled import implements, inline_jit, jit
from flyrun.ground.numerics.known_values import Stamped, forget_all, is_known, none_known, put
from flyrun.ground.numerics.lazy_shuffle import Deck, deal, deck, open_deck
from flyrun.ground.numerics.state import unsaved


class SubsetMemory(NamedTuple):
    """What changes while sampling."""

    queries: np.ndarray  # (1,) int64: the meter of likelihood queries
    deck: Deck  # whose first `read` cards the last test read
    read: np.ndarray  # (1,) int64
    known: KnownBase
    here: Stamped  # log L_n, or what proxies leave of it, at the current position
    total: np.ndarray  # (2,): their sums over all data, here and at the proposal; NaN where not all were read


@unsaved(workspace=("proposed", "missing", "differences"))
class Subset(NamedTuple):
    """log prior(θ) + Σ_n log L_n(θ), read datum by datum."""

    base: Any
    model: Model
    features: Features
    proxies: Any
    proposed: np.ndarray  # (N,): as `here`, at the proposal, of the cards that the test has read
    missing: np.ndarray  # (BLOCK,) uint32
    differences: np.ndarray  # (BLOCK,)
    work: Workspace
    memory: SubsetMemory

    @property
    def partial(self) -> bool:
        """Whether the log density of the state is not known, as not all data are read."""
        return True


def subset(base: Any, model: Model, features: Features, n_params: int, proxies: Any = aids.UNAIDED) -> Subset:
    """Target with an empty memory."""
    n_data = features.rows.shape[0]
    memory = SubsetMemory(
        np.zeros(1, np.int64), deck(n_data), np.zeros(1, np.int64), known_base(n_params), none_known(n_data),
        np.full(2, np.nan),
    )  # fmt: skip
    room = np.zeros(n_data), np.zeros(BLOCK, np.uint32), np.zeros(BLOCK)
    return Subset(base, model, features, proxies, *room, workspace(model.n_predictors), memory)


# Called for a block of data, so that handing on the target costs nothing beside it, and compiled once.
@jit
def _values(target, index, theta):
    """log L_n, or what proxies leave, of n in index, at most BLOCK, into target.work.values; metered."""
    predict(target.features, index, theta, target.work.eta)
    log_likelihood(target.model, index, target.work.eta, target.work.values, None)
    aids.subtract(target.proxies, target.model, index, target.work.eta, target.work.values)
    target.memory.queries[0] += index.shape[0]


@jit
def _read_here(target, index, theta):
    """Know log L_n here of all n in index, at most BLOCK of them."""
    here, missing, count = target.memory.here, target.missing, 0
    for i in range(index.shape[0]):
        missing[count] = index[i]
        count += not is_known(here, index[i])
    if count > 0:
        _values(target, missing[:count], theta)
        for i in range(count):
            put(here, missing[i], target.work.values[i])


@jit
def read(target, rng, first, last, theta, proposal):
    """Deal cards first … last − 1, at most BLOCK, and read them at both positions, (P,).

    target.differences[i] becomes log L_n(proposal) − log L_n(theta), n the (first + i)-th card, or the same
    of what proxies leave. Cards of a test are dealt from 0 on.
    """
    deal(target.memory.deck, rng, first, last)
    index = target.memory.deck.order[first:last]
    _read_here(target, index, theta)
    _values(target, index, proposal)
    here, values = target.memory.here.values, target.work.values
    for i in range(last - first):
        n = index[i]
        target.proposed[n] = values[i]
        target.differences[i] = values[i] - here[n]
    target.memory.read[0] = last
    target.memory.total[1] = np.nan


@inline_jit
def _sum(values):
    """Added up as the full-data target does, bit for bit."""
    total = 0.0
    for first in range(0, values.shape[0], BLOCK):
        part = values[first : first + BLOCK]
        total += add_up(part, part.shape[0])
    return total


@jit
def unaided_difference(target, theta, proposal):
    """Σ_n [log L_n(proposal) − log L_n(theta)] without proxies, read anew at both: 2N queries."""
    memory, work, n_data = target.memory, target.work, target.proposed.shape[0]
    total = 0.0
    for first in range(0, n_data, BLOCK):
        index = memory.deck.order[first : first + BLOCK]
        for sign, where in ((-1.0, theta), (1.0, proposal)):
            predict(target.features, index, where, work.eta)
            log_likelihood(target.model, index, work.eta, work.values, None)
            total += sign * add_up(work.values, index.shape[0])
    memory.queries[0] += 2 * n_data
    memory.read[0] = 0
    memory.total[1] = np.nan
    return total


@inline_jit
def whole_difference(target):
    """Σ_n of all differences, once all cards are read."""
    total = target.memory.total
    total[1] = _sum(target.proposed)
    if total[0] != total[0]:
        total[0] = _sum(target.memory.here.values)
    return total[1] - total[0]


@implements(targets.keep, Subset)
def _keep(target):
    memory = target.memory
    forget_all(memory.here)
    for i in range(memory.read[0]):
        n = memory.deck.order[i]
        put(memory.here, n, target.proposed[n])
    memory.total[0] = memory.total[1]


@implements(targets.start, Subset)
def _start(target, rng, theta):
    memory = target.memory
    open_deck(memory.deck, rng)
    forget_all(memory.here)
    n_data = target.proposed.shape[0]
    for first in range(0, n_data, BLOCK):
        _read_here(target, memory.deck.order[first : min(first + BLOCK, n_data)], theta)
    memory.total[0] = _sum(memory.here.values)


@implements(targets.kept_log_data, Subset)
def _kept_log_data(target, gradient):
    return target.memory.total[0] if aids.sum_is_whole(target.proxies) else np.nan


implements(targets.bright_count, Subset)(lambda target: target.memory.read[0])
