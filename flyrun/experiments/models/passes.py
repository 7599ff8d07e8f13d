"""Passes over all rows: a block at a time, on every core, with memory for a few blocks.

The blocks are fixed and their sums are added in order, so that the result is the same, bit for bit, however
many threads there are (BLAS itself pinned to one by the caller). A block is looked at in float64; rows of
float32 stay float32 where they lie.
"""

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

import numpy as np

from flyrun.experiments.models.features import Features, Model, gram, n_params, predict, predicted, pulled
from flyrun.experiments.models.likelihood import log_likelihood
from flyrun.ground.children import cores
from flyrun.ground.numerics.compiled import jit
from flyrun.ground.threads import in_order

T = TypeVar("T")
ROWS = 4096  # rows in a block: their float64 copy stays in a core's own cache
_UNIT_ROUNDOFF = 2.0**-53
TALL = 1 << 18  # rows from where on blocks are twice as long: a quarter quicker, with fewer hand-overs


def over_blocks(n_data: int, work: Callable[[slice], T]) -> Iterator[T]:
    """work(block) for every block of rows, in order, some of them at once on other threads."""
    rows = ROWS if n_data < TALL else 2 * ROWS
    blocks = [slice(first, min(first + rows, n_data)) for first in range(0, n_data, rows)]
    return in_order(work, blocks, min(cores(), len(blocks)))


def added(parts: Iterator[tuple[Any, ...]]) -> tuple[Any, ...]:
    """Sums of the parts' members, first part first."""
    total = list(next(parts))
    for part in parts:
        for i, value in enumerate(part):
            total[i] = total[i] + value
    return tuple(total)


@jit
def _predict_all(features, index, theta, eta):
    predict(features, index, theta, eta)


@jit
def _log_likelihoods(model, index, eta, values, slopes):
    log_likelihood(model, index, eta, values, slopes)


def block_predictors(model: Model, features: Features, theta: np.ndarray, block: slice) -> np.ndarray:
    """η_n(θ) of a block of data, (n, K)."""
    index = np.arange(block.start, block.stop)
    eta = np.zeros((len(index), model.n_predictors))
    _predict_all(features, index, theta, eta)
    return eta


def gathered(n_data: int, work: Callable[[slice], np.ndarray]) -> np.ndarray:
    """work(block), (n, …), of all blocks one after the other."""
    whole, first = np.zeros(0), 0
    for part in over_blocks(n_data, work):
        if first == 0:
            whole = np.empty((n_data, *part.shape[1:]), part.dtype)
        whole[first : first + len(part)] = part
        first += len(part)
    return whole


def compile_for(model: Model, features: Features) -> None:
    """Compile what the passes need, so that it does not count as their time."""
    theta = np.zeros(n_params(features, model.n_predictors))
    eta = block_predictors(model, features, theta, slice(0, 0))
    values_and_slopes(model, eta)
    sums_over(model, features, np.arange(0), theta[None])


def touching_bound(module: ModuleType, model: Model, features: Features, theta: np.ndarray) -> Any:
    """The module's bounds tight at θ, (P,), made block by block: their one field is a row for every datum."""

    def work(block: slice) -> np.ndarray:
        eta = block_predictors(model, features, theta, block)
        (rows,) = module.map_bound(module.part(model, block), eta)
        return rows

    kind = type(module.map_bound(module.part(model, slice(0, 0)), np.zeros((0, model.n_predictors))))
    return kind(gathered(len(features.rows), work))


def slopes(model: Model, eta: np.ndarray) -> np.ndarray:
    """∂ log L_n/∂η, (n, K), of a part of the likelihood at predictors (n, K)."""
    return values_and_slopes(model, np.ascontiguousarray(eta))[1]


def of_rows(
    model: Model, features: Features, index: np.ndarray, theta: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """log L_n, (n,), and ∂ log L_n/∂η, (n, K), of the data index, (n,), at θ, (P,). n queries."""
    eta = np.zeros((len(index), model.n_predictors))
    values, gradients = np.zeros(len(index)), np.zeros(eta.shape)
    _predict_all(features, index, np.ascontiguousarray(theta), eta)
    _log_likelihoods(model, index, eta, values, gradients)
    return values, gradients


def values_and_slopes(model: Model, eta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """log L_n, (n,), and ∂ log L_n/∂η, (n, K), of a part of the likelihood at contiguous (n, K)."""
    values, gradients = np.zeros(len(eta)), np.zeros(eta.shape)
    _log_likelihoods(model, np.arange(len(eta)), eta, values, gradients)
    return values, gradients


def log_likelihoods(module: ModuleType, model: Model, features: Features, thetas: np.ndarray) -> np.ndarray:
    """Σ log L_n, (G,), at positions (G, P). N queries each, also by a model's own `sums`."""
    sums_of = getattr(module, "sums", None)

    def work(block: slice) -> tuple[np.ndarray]:
        if sums_of is not None:
            return (sums_of(module.part(model, block), features.rows[block], thetas),)
        return (sums_over(model, features, np.arange(block.start, block.stop), thetas),)

    (total,) = added(over_blocks(len(features.rows), work))
    return total


@jit
def _sums_over(model, features, index, thetas, eta, values, sums):
    for g in range(thetas.shape[0]):
        predict(features, index, thetas[g], eta)
        log_likelihood(model, index, eta, values, None)
        total = 0.0
        for i in range(index.shape[0]):
            total += values[i]
        sums[g] = total


def sums_over(model: Model, features: Features, index: np.ndarray, thetas: np.ndarray) -> np.ndarray:
    """Σ log L_n, (G,), over the data index, (n,), at positions (G, P). n·G queries, in one compiled loop."""
    eta, sums = np.zeros((len(index), model.n_predictors)), np.empty(len(thetas))
    values = np.zeros(len(index))
    _sums_over(model, features, index, np.ascontiguousarray(thetas), eta, values, sums)
    return sums


@jit
def _predicted_over(model, features, index, thetas, eta, values, slopes):
    for g in range(thetas.shape[0]):
        predict(features, index, thetas[g], eta[g])
        log_likelihood(model, index, eta[g], values, slopes[g])


def second_order_over(
    module: ModuleType, model: Model, features: Features, index: np.ndarray, thetas: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """∇ Σ log L_n, (G, P), over the data index, (n,), at positions (G, P), and minus its Laplacian, (G,).

    n·G queries.
    """
    eta = np.zeros((len(thetas), len(index), model.n_predictors))
    slopes, values = np.zeros(eta.shape), np.zeros(len(index))
    _predicted_over(model, features, index, np.ascontiguousarray(thetas), eta, values, slopes)
    rows = features.rows[index].astype(np.float64)
    gradient = np.einsum("gnk,nd->gkd", slopes, rows).reshape(len(thetas), -1)
    every = module.part(model, np.tile(index, len(thetas)))
    bend = np.trace(module.curvature(every, eta.reshape(-1, eta.shape[2])), axis1=1, axis2=2)
    return gradient, bend.reshape(len(thetas), -1) @ (rows**2).sum(axis=1)


def likelihoods(
    module: ModuleType, model: Model, features: Features, theta: np.ndarray
) -> tuple[np.ndarray, ...]:
    """Every datum's log likelihood, (N,), its slopes in η_n, (N, K), and minus its second ones, (N, K, K).

    One pass, N queries; for few rows.
    """
    eta = block_predictors(model, features, theta, slice(0, len(features.rows)))
    return *values_and_slopes(model, eta), module.curvature(model, eta)


class Look(NamedTuple):
    """Σ log L_n about a position θ, to second order."""

    value: float
    gradient: np.ndarray  # (P,)
    curvature: np.ndarray  # minus the second derivatives, (P, P)
    # by how much the predictors' rounding moves the value near the mode, root mean square, where it was asked
    rounding: float = np.nan


def predictor_variance(rows: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """How η_n varies, (n, K, K), where θ does by covariance, (K, D, K, D). rows: (n, D)."""
    n_predictors = len(covariance)
    variance = np.zeros((len(rows), n_predictors, n_predictors))
    for k in range(n_predictors):
        for m in range(k + 1):
            variance[:, k, m] = variance[:, m, k] = ((rows @ covariance[k, :, m]) * rows).sum(axis=1)
    return variance


def slope(
    module: ModuleType, model: Model, features: Features, theta: np.ndarray
) -> tuple[float, np.ndarray]:
    """Σ log L_n and its gradient, (P,), at θ. One pass, N queries."""

    def work(block: slice) -> tuple[float, np.ndarray]:
        values, slopes = values_and_slopes(
            module.part(model, block), block_predictors(model, features, theta, block)
        )
        return values.sum(), pulled(features, features.rows[block].astype(np.float64), slopes)

    value, gradient = added(over_blocks(len(features.rows), work))
    return float(value), gradient


def look(module: ModuleType, model: Model, features: Features, theta: np.ndarray) -> Look:
    """One pass at θ, (P,): N queries."""
    sizes = np.abs(theta)

    def work(block: slice) -> tuple[float, np.ndarray, np.ndarray, float]:
        part, eta = module.part(model, block), block_predictors(model, features, theta, block)
        rows, (values, slopes) = features.rows[block].astype(np.float64), values_and_slopes(part, eta)
        bend = module.curvature(part, eta)
        moved = slopes**2 + np.abs(np.einsum("nkk->nk", bend))  # by a predictor, squared
        rounded = _UNIT_ROUNDOFF * predicted(features, np.abs(rows), sizes)
        return (
            values.sum(),
            pulled(features, rows, slopes),
            gram(features, rows, bend),
            (moved * rounded**2).sum(),
        )

    value, gradient, curvature, rounding = added(over_blocks(len(features.rows), work))
    return Look(float(value), gradient, (curvature + curvature.T) / 2.0, float(np.sqrt(rounding)))
