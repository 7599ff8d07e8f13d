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

from flyrun.compiled import implements, inline_jit, inlined
from flyrun.errors import DensityError
from flyrun.models.features import BLOCK, predict, pull_back
from flyrun.models.likelihood import log_bound, log_likelihood
from flyrun.models.vector_math import log_positive, one_minus_exp_negative
from flyrun.samplers import partition
from flyrun.samplers.full_data import Workspace, add_up, workspace
from flyrun.samplers.known_base import KnownBase, known_base
from flyrun.samplers.partition import Partition, all_dark, brighten
from flyrun.samplers.state import packed
from flyrun.samplers.target import bright_count, data_gradient, keep, kept_log_data, log_data, start

VECTOR = 16
"""Blocks of data are filled up to a multiple of this: loops over them have no rest to do one by one."""

TIGHT = 1e-100
"""Least gap g: at the tight point it is 0, or below by rounding, and such a datum is never bright."""


START_BLOCK = 65_536
"""Data looked at together for the first state: workspace that later stays small is not filled for all."""


def _pack(memory: Any) -> dict[str, np.ndarray]:
    # of the dark data nothing is known
    bright = memory.partition.order[: memory.partition.n_bright[0]].copy()
    return {
        "queries": memory.queries.copy(),
        "bright": bright,
        "values": memory.values[bright],
        "slopes": memory.slopes[bright] if len(memory.slopes) else memory.slopes.copy(),
        **{f"partition.{name}": values for name, values in partition.pack(memory.partition).items()},
        **{f"known.{name}": values.copy() for name, values in memory.known._asdict().items()},
    }


def _unpack(memory: Any, arrays: dict[str, np.ndarray]) -> Any:
    size, start = len(memory.values), "partition."
    placed = {name.removeprefix(start): values for name, values in arrays.items() if start in name}
    # zeros, not copies: pages that are never written to take no memory
    room = {
        name: np.zeros(part.shape, part.dtype)
        for name, part in memory._asdict().items()
        if isinstance(part, np.ndarray)
    }
    room["queries"][:] = arrays["queries"]
    room["values"][arrays["bright"]] = arrays["values"]
    if len(room["slopes"]):
        room["slopes"][arrays["bright"]] = arrays["slopes"]
    known = KnownBase(*(arrays[f"known.{name}"].copy() for name in KnownBase._fields))
    return type(memory)(**room, partition=partition.unpack(size, **placed), known=known)


@packed(_pack, _unpack)
class FireflyMemory(NamedTuple):
    """What changes while sampling."""

    queries: np.ndarray
    """(1,) int64: the meter of likelihood queries."""
    partition: Partition
    values: np.ndarray
    """(N,): log L̃_n at the current position, valid for bright n."""
    slopes: np.ndarray
    """(N, K): ∂ log L̃_n/∂η there; (0, K) when no update asks for gradients."""
    proposed_values: np.ndarray
    """(≥ N,): the same at the last proposal, in the order of the bright data; or of the data last queried."""
    proposed_slopes: np.ndarray
    """(≥ N or 0, K)."""
    known: KnownBase


class Firefly(NamedTuple):
    """log p̃(θ) + Σ_{n bright} log L̃_n(θ)."""

    base: Any
    model: Any
    bound: Any
    features: Any
    likelihood_work: Workspace
    bound_work: Workspace
    padded: np.ndarray
    """(BLOCK,) int32: workspace, the data of a block."""
    memory: FireflyMemory


def firefly(base: Any, model: Any, bound: Any, features: Any, gradients: bool) -> Firefly:
    """Firefly target, all data dark. `gradients`: whether the θ-update will ask for them."""
    n_data, n_features = features.rows.shape
    k = model.n_predictors
    room = -(-n_data // VECTOR) * VECTOR
    memory = FireflyMemory(
        queries=np.zeros(1, np.int64),
        partition=all_dark(n_data),
        values=np.zeros(n_data),
        slopes=np.zeros((n_data if gradients else 0, k)),
        proposed_values=np.zeros(room),
        proposed_slopes=np.zeros((room if gradients else 0, k)),
        known=known_base(n_features * k),
    )
    padded = np.zeros(BLOCK, np.int32)
    return Firefly(base, model, bound, features, workspace(k), workspace(k), padded, memory)


@inline_jit
def _finish(n, log_l, log_b, slopes_l, slopes_b, values, slopes):
    """log L̃ and its slopes, unless None, of a block of n data from log L and log B. log_l is overwritten."""
    for i in range(n):
        gap = max(log_l[i] - log_b[i], TIGHT)
        share = one_minus_exp_negative(-gap)
        if values is not None:
            values[i] = gap + log_positive(share)
        if slopes is not None:
            log_l[i] = share
    if slopes is not None:
        # a loop of its own, and with no inner loop for one predictor: else the compiler would do all of this,
        # exponentials and logarithms included, number by number
        if slopes.shape[1] == 1:
            for i in range(n):
                slopes[i, 0] = (slopes_l[i, 0] - slopes_b[i, 0]) / log_l[i]
        else:
            for i in range(n):
                for k in range(slopes.shape[1]):
                    slopes[i, k] = (slopes_l[i, k] - slopes_b[i, k]) / log_l[i]


@inline_jit
def _fill_up(index, first, padded):
    """A block of index from `first` on, in whole vectors: the last datum stands for what is missing."""
    count = min(index.shape[0] - first, BLOCK)
    whole = -(-count // VECTOR) * VECTOR
    for i in range(count):
        padded[i] = index[first + i]
    for i in range(count, whole):
        padded[i] = padded[count - 1]
    return whole


@inline_jit
def _evaluate(target, index, theta, values, slopes):
    """Query the data in index: log L̃_n(θ) into values, (≥ n,), and slopes, (≥ n, K), each unless None.

    What follows in `values` and `slopes` up to a whole vector is overwritten.
    """
    upper, lower = target.likelihood_work, target.bound_work
    target.memory.queries[0] += index.shape[0]
    for first in range(0, index.shape[0], BLOCK):
        block = target.padded[: _fill_up(index, first, target.padded)]
        n = block.shape[0]
        room = None if values is None else values[first : first + n]
        predict(target.features, index[first : first + BLOCK], theta, upper.eta)
        if slopes is None:
            log_likelihood(target.model, block, upper.eta, upper.values, None)
            log_bound(target.bound, target.model, block, upper.eta, lower.values, None)
            _finish(n, upper.values, lower.values, upper.slopes, lower.slopes, room, None)
        else:
            log_likelihood(target.model, block, upper.eta, upper.values, upper.slopes)
            log_bound(target.bound, target.model, block, upper.eta, lower.values, lower.slopes)
            slope_room = slopes[first : first + n]
            _finish(n, upper.values, lower.values, upper.slopes, lower.slopes, room, slope_room)


@inlined
def look(target, index, theta):
    """Query dark data at the current position θ. index: (n,).

    Until the next evaluation log L̃ of index[j] is in memory.proposed_values[j], slopes in proposed_slopes[j].
    """


@inlined
def light(target, n, j):
    """Make dark datum n bright and remember log L̃ (and slopes) from place j of the last `look`."""


@inlined
def query(target, index, theta):
    """`look`, and remember all of them: for a part that is not yet known to be lit."""


@implements(look, Firefly)
def _look(target, index, theta):
    # what was kept of the last proposal is no longer needed once it is kept or refused
    values, slopes = target.memory.proposed_values, target.memory.proposed_slopes
    if slopes.shape[0] == 0:
        _evaluate(target, index, theta, values, None)
    else:
        _evaluate(target, index, theta, values, slopes)
    total = add_up(values, index.shape[0])
    if total != total:  # it would never be lit, and never be missed
        raise DensityError("a likelihood is not a number: look for huge values in the data")


@inline_jit
def _remember(memory, n, j):
    memory.values[n] = memory.proposed_values[j]
    if memory.slopes.shape[0] > 0:
        for k in range(memory.slopes.shape[1]):
            memory.slopes[n, k] = memory.proposed_slopes[j, k]


@implements(light, Firefly)
def _light(target, n, j):
    _remember(target.memory, n, j)
    brighten(target.memory.partition, n)


@implements(query, Firefly)
def _query(target, index, theta):
    look(target, index, theta)
    for j in range(index.shape[0]):
        _remember(target.memory, index[j], j)


@implements(log_data, Firefly)
def _log_data(target, theta, gradient):
    memory = target.memory
    n_bright = memory.partition.n_bright[0]
    index = memory.partition.order[:n_bright]
    values, slopes = memory.proposed_values, memory.proposed_slopes
    if gradient is None:
        _evaluate(target, index, theta, values, None)
    else:
        _evaluate(target, index, theta, values, slopes)
        pull_back(target.features, index, slopes, gradient)
    return add_up(values, n_bright)


@implements(data_gradient, Firefly)
def _data_gradient(target, theta, gradient):
    memory = target.memory
    index = memory.partition.order[: memory.partition.n_bright[0]]
    _evaluate(target, index, theta, None, memory.proposed_slopes)
    pull_back(target.features, index, memory.proposed_slopes, gradient)


@implements(keep, Firefly)
def _keep(target):
    partition = target.memory.partition
    for i in range(partition.n_bright[0]):
        _remember(target.memory, partition.order[i], i)


@implements(kept_log_data, Firefly)
def _kept_log_data(target, gradient):
    memory = target.memory
    bright = memory.partition.order[: memory.partition.n_bright[0]]
    total = 0.0
    for i in range(bright.shape[0]):
        total += memory.values[bright[i]]
    if gradient is not None:
        gathered = target.likelihood_work.slopes
        for first in range(0, bright.shape[0], BLOCK):
            block = bright[first : first + BLOCK]
            for i in range(block.shape[0]):
                for k in range(gathered.shape[1]):
                    gathered[i, k] = memory.slopes[block[i], k]
            pull_back(target.features, block, gathered, gradient)
    return total


@implements(start, Firefly)
def _start(target, rng, theta):
    # Every z_n from its conditional: bright with probability (L − B)/L = L̃/(1 + L̃). N queries.
    memory = target.memory
    n_data = memory.values.shape[0]
    for first in range(0, n_data, START_BLOCK):
        last = min(first + START_BLOCK, n_data)
        query(target, memory.partition.order[first:last], theta)
        for n in range(first, last):
            if rng.random() * (1.0 + np.exp(-memory.values[n])) < 1.0:
                brighten(memory.partition, n)


@implements(bright_count, Firefly)
def _bright_count(target):
    return target.memory.partition.n_bright[0]
