"""A surrogate of the posterior that reads no data: the prior times the likelihood's Taylor polynomial.

For rules that make the chain's steps exact by what they read of the likelihoods themselves: `left_out`
evaluates single data, metered. An update sees the surrogate alone, its gradient too.
"""

from typing import Any, NamedTuple

import numpy as np

from flyrun.experiments.models.features import Features, Model, expect, predict
from flyrun.experiments.models.likelihood import log_likelihood
from flyrun.experiments.models.taylor import subtract_expansion
from flyrun.experiments.samplers.chain.surrogate.taylor import Surrogate, add_in_theta, summed, to_phi
from flyrun.experiments.samplers.chain.targets import target as targets
from flyrun.experiments.samplers.chain.targets.full_data import Workspace, workspace
from flyrun.experiments.samplers.chain.targets.known_base import KnownBase, known_base
from flyrun.ground.numerics.compiled import copy_into, implements, inline_jit, jit


class SurrogateMemory(NamedTuple):
    """What changes while sampling; of two, the first is the current position's, the other the proposal's."""

    queries: np.ndarray  # (1,) int64: the meter of likelihood queries
    read: np.ndarray  # (1,) int64: data that the last test looked at
    kept: np.ndarray  # (2,): Σ T_k
    phi: np.ndarray  # (2, P)
    sums: np.ndarray  # (2,): Σ log L_n; NaN where nobody asked
    gradients: np.ndarray | None  # (2, P): of Σ T_k in θ, where an update asked; None where none does
    known: KnownBase


def surrogate_memory(n_params: int, gradients: bool) -> SurrogateMemory:
    """Nothing known yet."""
    room = np.zeros((2, n_params)) if gradients else None
    queries, read = np.zeros((2, 1), np.int64)
    at = np.zeros(2), np.zeros((2, n_params)), np.full(2, np.nan)
    return SurrogateMemory(queries, read, *at, room, known_base(n_params))


class SurrogateData(NamedTuple):
    """log prior(θ) + Σ_n T_k,n(θ)."""

    base: Any
    model: Model
    features: Features
    surrogate: Surrogate
    work: Workspace
    slope: np.ndarray  # (P,): workspace, a gradient in φ
    memory: SurrogateMemory

    @property
    def start_queries(self) -> int:
        """What the first state costs."""
        return 0


def surrogate_data(
    base: Any, model: Model, features: Features, surrogate: Surrogate, gradients: bool = False
) -> SurrogateData:
    """Target with an empty memory. `gradients`: whether the θ-update will ask for them."""
    size = len(surrogate.mean)
    memory = surrogate_memory(size, gradients)
    return SurrogateData(
        base, model, features, surrogate, workspace(model.n_predictors), np.zeros(size), memory
    )


@jit
def _evaluate(model, features, predictors, order, index, theta, eta, values):
    # a function of its own: compiled once for a model, whatever updates and rules ask for it
    predict(features, index, theta, eta)
    log_likelihood(model, index, eta, values, None)
    subtract_expansion(model, index, predictors, eta, order, values)


@inline_jit
def left_out(target, index, theta, values):
    """values[i] = R_k,n(θ) + log L_n(θ̂), n = index[i]: one query each. index: (≤ BLOCK,)."""
    surrogate, eta = target.surrogate, target.work.eta
    _evaluate(target.model, target.features, surrogate.predictors, surrogate.order, index, theta, eta, values)
    target.memory.queries[0] += index.shape[0]


@inline_jit
def sum_of_all(target, index, theta):
    """Σ log L_n(θ): N queries. index: room, (BLOCK,) int64."""
    n_data, total = target.features.rows.shape[0], 0.0
    predictors, eta, values = target.surrogate.predictors, target.work.eta, target.work.values
    for first in range(0, n_data, index.shape[0]):
        part = index[: min(index.shape[0], n_data - first)]
        for i in range(part.shape[0]):
            part[i] = first + i
        _evaluate(target.model, target.features, predictors, 0, part, theta, eta, values)
        for i in range(part.shape[0]):
            total += values[i]
    target.memory.queries[0] += n_data
    return total


@inline_jit
def fetch(target, n):
    """Hint that datum n is read soon."""
    expect(target.features, n)


@implements(targets.log_data, SurrogateData)
def _log_data(target, theta, gradient):
    memory, surrogate = target.memory, target.surrogate
    phi = memory.phi[1]
    to_phi(surrogate, theta, phi)
    memory.sums[1] = np.nan
    if gradient is None:
        value = summed(surrogate, phi, None)
    else:
        slope, there = target.slope, memory.gradients[1]
        slope[:] = 0.0
        value = summed(surrogate, phi, slope)
        there[:] = 0.0
        add_in_theta(surrogate, slope, there)
        for d in range(gradient.shape[0]):
            gradient[d] += there[d]
    memory.kept[1] = value
    return value


implements(targets.data_gradient, SurrogateData)(_log_data)


@implements(targets.keep, SurrogateData)
def _keep(target):
    memory = target.memory
    memory.kept[0] = memory.kept[1]
    memory.sums[0] = memory.sums[1]
    copy_into(memory.phi[0], memory.phi[1])
    targets.keep_gradient(memory.gradients)


implements(targets.start, SurrogateData)(targets.start_kept)
implements(targets.kept_log_data, SurrogateData)(targets.kept_sum)
implements(targets.bright_count, SurrogateData)(lambda target: target.memory.read[0])
