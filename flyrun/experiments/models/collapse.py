"""The product of all bounds, as a function of θ: O(N D²), once.

It is expanded about a position near the posterior's mode. About 0 its terms are sums of (y_n/σ)², millions of
times what is left of their differences where noise is small beside the data, or the data far from 0.
"""

from types import ModuleType
from typing import Any

import numpy as np

from flyrun.experiments.models.features import Features, Model, gram
from flyrun.experiments.models.kronecker import kronecker
from flyrun.experiments.models.likelihood import bent, enter, log_bound, quadratic
from flyrun.experiments.models.passes import added, block_predictors, over_blocks, values_and_slopes
from flyrun.ground.numerics.compiled import jit


@jit
def _enter(bound, theta):
    enter(bound, theta)


@jit
def _log_bounds(bound, model, index, eta, values, slopes):
    log_bound(bound, model, index, eta, values, slopes)


def collapse(bound: Any, model: Model, features: Features, centre: np.ndarray | None = None) -> Any:
    """Σ_n log B_n, a Quadratic or Kronecker, about a centre, (P,), by default 0.

    Of bounds of two levels, those on the centre's side.
    """
    n_predictors, size = model.n_predictors, features.rows.shape[1]
    centre = np.zeros(n_predictors * size) if centre is None else centre
    _enter(bound, centre)

    def work(block: slice) -> tuple[np.ndarray, np.ndarray, float]:
        eta, rows = block_predictors(model, features, centre, block), features.rows[block].astype(np.float64)
        values, slopes = np.zeros(len(eta)), np.zeros(eta.shape)
        _log_bounds(bound, model, np.arange(block.start, block.stop), eta, values, slopes)
        return _gram(features, rows, bent(bound, model, block)), slopes.T @ rows, values.sum()

    product, linear, constant = added(over_blocks(len(features.rows), work))
    product = (product + product.T) / 2.0
    for_all = len(product) < linear.size  # classes
    form = kronecker(product, linear, constant) if for_all else quadratic(product, linear.ravel(), constant)
    return form._replace(centre=np.array(centre, np.float64))


def expected_bright(
    module: ModuleType, bound: Any, model: Model, features: Features, theta: np.ndarray
) -> float:
    """Σ_n (1 − B_n/L_n), how many data are bright on average at θ, (P,). One pass, N queries."""
    _enter(bound, theta)

    def work(block: slice) -> tuple[float]:
        eta = block_predictors(model, features, theta, block)
        log_b, room = np.zeros(len(eta)), np.zeros(eta.shape)
        _log_bounds(bound, model, np.arange(block.start, block.stop), eta, log_b, room)
        log_l, _ = values_and_slopes(module.part(model, block), eta)
        return (-np.expm1(np.minimum(log_b - log_l, 0.0)).sum(),)

    return float(added(over_blocks(len(features.rows), work))[0])


def _gram(features: Features, rows: np.ndarray, weight: Any) -> np.ndarray:
    """Σ_n w_n ⊗ x_n x_nᵀ. rows: (n, D); weight: 1.0, (n,) or (n, K, K)."""
    if np.ndim(weight) == 3:
        return gram(features, rows, weight)
    return rows.T @ (rows * weight[:, None] if np.ndim(weight) else rows)
