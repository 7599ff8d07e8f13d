"""Firefly Monte Carlo's joint density of θ and brightness (Maclaurin & Adams 2014, eq. 2).

p(θ, z | data) ∝ p̃(θ) Π_{n bright} L̃_n(θ), with the pseudo-prior p̃ = prior × Π B_n and the
pseudo-likelihood L̃_n = (L_n − B_n)/B_n. Summed over z it is the posterior, exactly; given z it needs only the
bright likelihoods.

In logs, with g = log L − log B ≥ 0: log L̃ = g + log(1 − e^{−g}), finite wherever g is, and
d log L̃ = dg/(1 − e^{−g}). For every bright datum the value and its slopes at the current θ are kept, so that
neither darkening nor the gradient after a change of brightness costs a query.
"""

from typing import Any, NamedTuple

import numpy as np

from flyrun.experiments.models.features import BLOCK, Features, Model, predict, pull_back
from flyrun.experiments.models.likelihood import enter, log_bound, log_likelihood
from flyrun.experiments.samplers.chain.brightness import partition
from flyrun.experiments.samplers.chain.brightness.partition import Partition, all_dark
from flyrun.experiments.samplers.chain.targets import target as targets
from flyrun.experiments.samplers.chain.targets.full_data import Workspace, add_up, workspace
from flyrun.experiments.samplers.chain.targets.known_base import KnownBase, known_base
from flyrun.ground.errors import DensityError
from flyrun.ground.numerics.compiled import implements, inline_jit, inlined, jit
from flyrun.ground.numerics.state import packed
from flyrun.ground.numerics.vector_math import log_positive, one_minus_exp_negative

VECTOR = 16
"""Blocks of data are filled up to a multiple of this: loops over them have no rest to do one by one."""

TIGHT = 1e-100
"""Least gap g: at the tight point it is 0, or below by rounding, and such a datum is never bright."""


START_BLOCK = 65_536
"""Data looked at together for the first state: workspace that later stays small is not filled for all."""


def _pack(memory: "FireflyMemory") -> dict[str, np.ndarray]:
    # of the dark data nothing is known
    n_bright = memory.partition.n_bright[0]
    return {
        "queries": memory.queries.copy(),
        "values": memory.values[:n_bright].copy(),
        **({} if memory.slopes is None else {"slopes": memory.slopes[:n_bright].copy()}),
        **{f"partition.{name}": values for name, values in partition.pack(memory.partition).items()},
        **{f"known.{name}": values.copy() for name, values in memory.known._asdict().items()},
    }


def _unpack(memory: "FireflyMemory", arrays: dict[str, np.ndarray]) -> Any:
    size, start = len(memory.values), "partition."
    placed = {name.removeprefix(start): values for name, values in arrays.items() if start in name}
    room = memory._asdict()
    for name, part in room.items():
        if isinstance(part, np.ndarray):  # zeros, not copies: pages never written to take no memory
            room[name] = np.zeros(part.shape, part.dtype)
            if name in arrays:
                room[name][: len(arrays[name])] = arrays[name]
    room["known"] = KnownBase(*(arrays[f"known.{name}"].copy() for name in KnownBase._fields))
    return type(memory)(**room | {"partition": partition.unpack(size, **placed)})


@packed(_pack, _unpack)
class FireflyMemory(NamedTuple):
    """What changes while sampling."""

    queries: np.ndarray  # (1,) int64: the meter of likelihood queries
    partition: Partition
    values: np.ndarray  # (N,): log L̃ of the i-th bright datum at the current position, i < n_bright
    slopes: np.ndarray | None  # (N, K): ∂ log L̃_n/∂η there; None when no update asks for gradients
    # (≥ N,): the same at the last proposal, in their order; or what looks at dark data leave
    proposed_values: np.ndarray
    proposed_slopes: np.ndarray | None  # (≥ N, K)
    known: KnownBase


class Firefly(NamedTuple):
    """log p̃(θ) + Σ_{n bright} log L̃_n(θ)."""

    base: Any
    model: Model
    bound: Any
    features: Features
    likelihood_work: Workspace
    bound_work: Workspace
    padded: np.ndarray  # (BLOCK + VECTOR,) uint32: workspace, the data of a block
    memory: FireflyMemory


def firefly(base: Any, model: Model, bound: Any, features: Features, gradients: bool) -> Firefly:
    """Firefly target, all data dark. `gradients`: whether the θ-update will ask for them."""
    n_data, n_features = features.rows.shape
    k = model.n_predictors
    room = -(-n_data // VECTOR) * VECTOR
    memory = FireflyMemory(
        queries=np.zeros(1, np.int64),
        partition=all_dark(n_data),
        values=np.zeros(n_data),
        slopes=np.zeros((n_data, k)) if gradients else None,
        proposed_values=np.zeros(room),
        proposed_slopes=np.zeros((room, k)) if gradients else None,
        known=known_base(n_features * k),
    )
    padded = np.zeros(BLOCK + VECTOR, np.uint32)
    return Firefly(base, model, bound, features, workspace(k), workspace(k), padded, memory)


@inline_jit
def _gaps(first, n, log_l, log_b, slopes_l, slopes_b, gaps, slopes):
    """g and, from place `first` on, its slopes, unless None, of a block of n data from log L and log B."""
    for i in range(n):
        gaps[i] = max(log_l[i] - log_b[i], TIGHT)
    if slopes is not None:
        here = slopes[first : first + n]
        for i in range(n):
            for k in range(here.shape[1]):
                here[i, k] = slopes_l[i, k] - slopes_b[i, k]


@inline_jit
def _pseudo(first, n, gaps, shares, values, slopes):
    """log L̃, unless None, and its slopes, unless None, of a block of n data: those from place `first` on.

    gaps: (n,), g; shares: (n,), workspace; values: (≥ n,); slopes: (≥ n, K), those of g before.
    """
    for i in range(n):
        shares[i] = one_minus_exp_negative(-gaps[i])
    if values is not None:
        room = values[first : first + n]
        for i in range(n):
            room[i] = gaps[i] + log_positive(shares[i])
    if slopes is not None:
        here = slopes[first : first + n]
        # with no inner loop for one predictor: else the compiler would do all of this number by number
        if here.shape[1] == 1:
            for i in range(n):
                here[i, 0] /= shares[i]
        else:
            for i in range(n):
                for k in range(here.shape[1]):
                    here[i, k] /= shares[i]


@inline_jit
def _fill_up(index, first, padded):
    """A block of index from `first` on, in whole vectors: the last datum stands for what is missing."""
    # a part of its own: for first + i the compiler would allow for places before the array, number by number
    part = index[first : first + BLOCK]
    count = part.shape[0]
    whole = -(-count // VECTOR) * VECTOR
    for i in range(count):
        padded[i] = part[i]
    last = part[count - 1]
    for i in range(VECTOR):
        padded[np.uint64(count) + np.uint64(i)] = last
    return whole


@inline_jit
def _query_block(target, index, first, theta, gaps, slopes):
    """Query a block of index from `first` on: g into whole vectors of gaps, (n,), and its slopes into those
    from place `first` on, (≥ n, K), unless None. Returns n."""
    upper, lower = target.likelihood_work, target.bound_work
    block = target.padded[: _fill_up(index, first, target.padded)]
    predict(target.features, index[first : first + BLOCK], theta, upper.eta)
    if slopes is None:
        log_likelihood(target.model, block, upper.eta, upper.values, None)
        log_bound(target.bound, target.model, block, upper.eta, lower.values, None)
    else:
        log_likelihood(target.model, block, upper.eta, upper.values, upper.slopes)
        log_bound(target.bound, target.model, block, upper.eta, lower.values, lower.slopes)
    _gaps(first, block.shape[0], upper.values, lower.values, upper.slopes, lower.slopes, gaps, slopes)
    return block.shape[0]


@inline_jit
def _evaluate(target, index, theta, values, slopes):
    """Query the data in index: log L̃_n(θ) into values, (≥ n,), and slopes, (≥ n, K), each unless None.

    What follows in `values` and `slopes` up to a whole vector is overwritten.
    """
    gaps, shares = target.likelihood_work.values, target.bound_work.values
    enter(target.bound, theta)
    target.memory.queries[0] += index.shape[0]
    for first in range(0, index.shape[0], BLOCK):
        n = _query_block(target, index, first, theta, gaps, slopes)
        _pseudo(first, n, gaps, shares, values, slopes)


@inlined
def evaluate_dark(target, index, theta):
    """Query dark data at the current position θ. index: (n,).

    Until the next evaluation the gap g of index[j] is in memory.proposed_values[j], and its slopes are in
    proposed_slopes[j].
    """


@inlined
def select(target, chosen, n):
    """Of the data of the last `evaluate_dark` those at places chosen[:n], ascending, move to the front, and
    what is remembered of them becomes log L̃ and its slopes: (n,) and (n, K)."""


@inlined
def query(target, index, theta):
    """`evaluate_dark` and `select` at once, for all the data in index, (n,)."""


@inlined
def brighten(target, n, j):
    """Make dark datum n bright and keep log L̃ (and slopes) from place j of the last `select` or `query`."""


@inlined
def darken(target, i):
    """Make the i-th bright datum dark and forget what was kept of it; the last bright one takes its place."""


@jit
def evaluate_bright(target, first, last, theta, values):
    """Query the bright data in places first … last − 1, at most BLOCK, at a proposal: log L̃_n into
    memory.proposed_values[first:last]. values: (BLOCK,), workspace."""
    _evaluate(target, target.memory.partition.bright[first:last], theta, values, None)
    for i in range(last - first):
        target.memory.proposed_values[first + i] = values[i]


@inline_jit
def swap_bright(target, i, j):
    """Let the i-th and the j-th bright datum change places; of a target that keeps no slopes."""
    bright, values = target.memory.partition.bright, target.memory.values
    bright[i], bright[j] = bright[j], bright[i]
    values[i], values[j] = values[j], values[i]


@inline_jit
def _check(values, n):
    total = add_up(values, n)
    if total != total:  # it would never be lit, and never be missed
        raise DensityError("a likelihood is not a number: look for huge values in the data")


@inline_jit
def _copy_row(there, i, here, j):
    """there[i] = here[j], of arrays (n, K) or, where no slopes are kept, None."""
    if there is not None:
        for k in range(there.shape[1]):
            there[i, k] = here[j, k]


@implements(evaluate_dark, Firefly)
def _evaluate_dark(target, index, theta):
    # what was kept of the last proposal is no longer needed once it is kept or refused
    gaps, slopes = target.memory.proposed_values, target.memory.proposed_slopes
    enter(target.bound, theta)
    target.memory.queries[0] += index.shape[0]
    for first in range(0, index.shape[0], BLOCK):
        _query_block(target, index, first, theta, gaps[first : first + BLOCK], slopes)


@implements(select, Firefly)
def _select(target, chosen, n):
    values, slopes = target.memory.proposed_values, target.memory.proposed_slopes
    gaps, shares = target.likelihood_work.values, target.bound_work.values
    for first in range(0, n, BLOCK):
        count = min(n - first, BLOCK)
        for i in range(count):
            gaps[i] = values[chosen[first + i]]
        for i in range(count):
            _copy_row(slopes, first + i, slopes, chosen[first + i])
        _pseudo(first, -(-count // VECTOR) * VECTOR, gaps, shares, values, slopes)
    _check(values, n)


@implements(query, Firefly)
def _query(target, index, theta):
    values = target.memory.proposed_values
    _evaluate(target, index, theta, values, target.memory.proposed_slopes)
    _check(values, index.shape[0])


@implements(brighten, Firefly)
def _brighten(target, n, j):
    memory = target.memory
    i = np.uint64(memory.partition.n_bright[0])
    partition.brighten(memory.partition, n)
    memory.values[i] = memory.proposed_values[j]
    _copy_row(memory.slopes, i, memory.proposed_slopes, j)


@implements(darken, Firefly)
def _darken(target, i):
    memory = target.memory
    last = np.uint64(memory.partition.n_bright[0] - 1)
    partition.darken(memory.partition, i)
    memory.values[i] = memory.values[last]
    _copy_row(memory.slopes, i, memory.slopes, last)


@implements(targets.log_data, Firefly)
def _log_data(target, theta, gradient):
    memory = target.memory
    n_bright = memory.partition.n_bright[0]
    index = memory.partition.bright[:n_bright]
    values, slopes = memory.proposed_values, memory.proposed_slopes
    if gradient is None:
        _evaluate(target, index, theta, values, None)
    else:
        _evaluate(target, index, theta, values, slopes)
        pull_back(target.features, index, slopes, gradient)
    return add_up(values, n_bright)


@implements(targets.data_gradient, Firefly)
def _data_gradient(target, theta, gradient):
    memory = target.memory
    index = memory.partition.bright[: memory.partition.n_bright[0]]
    _evaluate(target, index, theta, None, memory.proposed_slopes)
    pull_back(target.features, index, memory.proposed_slopes, gradient)


@implements(targets.keep, Firefly)
def _keep(target):
    memory = target.memory
    for i in range(memory.partition.n_bright[0]):
        memory.values[i] = memory.proposed_values[i]
        _copy_row(memory.slopes, i, memory.proposed_slopes, i)


@implements(targets.kept_log_data, Firefly)
def _kept_log_data(target, gradient):
    memory = target.memory
    n_bright = memory.partition.n_bright[0]
    if gradient is not None:
        pull_back(target.features, memory.partition.bright[:n_bright], memory.slopes, gradient)
    return add_up(memory.values, n_bright)


@implements(targets.start, Firefly)
def _start(target, rng, theta):
    # Every z_n from its conditional: bright with probability (L − B)/L = L̃/(1 + L̃). N queries.
    memory = target.memory
    n_data = memory.values.shape[0]
    for first in range(0, n_data, START_BLOCK):
        last = min(first + START_BLOCK, n_data)
        block = memory.partition.bright[first:last]  # room: of those before `first` no more can be bright
        for i in range(last - first):
            block[i] = first + i
        query(target, block, theta)
        for n in range(first, last):
            if rng.random() * (1.0 + np.exp(-memory.proposed_values[n - first])) < 1.0:
                brighten(target, n, n - first)


implements(targets.bright_count, Firefly)(lambda target: target.memory.partition.n_bright[0])
