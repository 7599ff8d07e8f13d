"""The full posterior: every evaluation visits all N likelihoods. What FlyMC is compared with."""

from typing import Any, NamedTuple

import numpy as np

from flyrun.experiments.models.features import BLOCK, Features, Model, predict, pull_back
from flyrun.experiments.models.likelihood import log_likelihood
from flyrun.experiments.samplers.chain.targets import target as targets
from flyrun.experiments.samplers.chain.targets.known_base import KnownBase, known_base
from flyrun.ground.numerics.compiled import dot_jit, implements


class FullDataMemory(NamedTuple):
    """What changes while sampling."""

    queries: np.ndarray  # (1,) int64: the meter of likelihood queries
    kept: np.ndarray  # (2,): Σ log L_n at the current position and at the last proposal
    gradients: np.ndarray | None  # (2, P): their gradients, where an update asked; None where none does
    known: KnownBase


class Workspace(NamedTuple):
    """Room for one block of data; holds nothing between calls."""

    eta: np.ndarray
    values: np.ndarray
    slopes: np.ndarray


def workspace(n_predictors: int) -> Workspace:
    """Room for BLOCK data with K predictors each."""
    return Workspace(np.zeros((BLOCK, n_predictors)), np.zeros(BLOCK), np.zeros((BLOCK, n_predictors)))


class FullData(NamedTuple):
    """log prior(θ) + power·Σ_n log L_n(θ)."""

    base: Any
    model: Model
    features: Features
    everyone: np.ndarray  # 0 … N−1
    work: Workspace
    memory: FullDataMemory
    power: float


def full_data(
    base: Any, model: Model, features: Features, n_params: int, gradients: bool = True, power: float = 1.0
) -> FullData:
    """Full-data target with an empty memory. `gradients`: whether the θ-update will ask for them."""
    room = np.zeros((2, n_params)) if gradients else None
    memory = FullDataMemory(np.zeros(1, np.int64), np.zeros(2), room, known_base(n_params))
    everyone = np.arange(features.rows.shape[0])
    return FullData(base, model, features, everyone, workspace(model.n_predictors), memory, power)


@dot_jit
def add_up(values, n):
    """Sum of the first n values."""
    total = 0.0
    for i in range(n):
        total += values[i]
    return total


@implements(targets.log_data, FullData)
def _log_data(target, theta, gradient):
    memory, work = target.memory, target.work
    n_data = target.everyone.shape[0]
    total = 0.0
    if gradient is not None:
        proposed = memory.gradients[1]
        proposed[:] = 0.0
    for first in range(0, n_data, BLOCK):
        index = target.everyone[first : first + BLOCK]
        predict(target.features, index, theta, work.eta)
        if gradient is None:
            log_likelihood(target.model, index, work.eta, work.values, None)
        else:
            log_likelihood(target.model, index, work.eta, work.values, work.slopes)
            pull_back(target.features, index, work.slopes, proposed)
        total += add_up(work.values, index.shape[0])
    total *= target.power
    if gradient is not None:
        for d in range(gradient.shape[0]):
            proposed[d] *= target.power
            gradient[d] += proposed[d]
    memory.queries[0] += n_data
    memory.kept[1] = total
    return total


implements(targets.data_gradient, FullData)(_log_data)


@implements(targets.keep, FullData)
def _keep(target):
    target.memory.kept[0] = target.memory.kept[1]
    targets.keep_gradient(target.memory.gradients)


implements(targets.start, FullData)(targets.start_kept)
implements(targets.kept_log_data, FullData)(targets.kept_sum)
implements(targets.bright_count, FullData)(lambda target: target.everyone.shape[0])
