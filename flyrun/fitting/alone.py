"""The part of a likelihood that auxiliary numbers have alone, of all rows."""

from typing import TYPE_CHECKING

import numpy as np

from flyrun.fitting.table_rows import Rows
from flyrun.ground.numerics import six_points

if TYPE_CHECKING:
    from flyrun.fitting.rows_posterior import Posterior

_MANY = 20_000  # rows from which on it is apart from theirs, and targets are moved onto a grid
_STEPS = 2_048  # of it, by e
_PART = 65_536  # rows at a time
_EVALUATIONS = 20_000_000  # of targets × draws; beyond, a polynomial of the draws is fitted
_DEGREE, _NEAR = 5, 1e-3  # of it in each number, and the nats to which it must be true
_TRIED = 8  # draws at which it is, from the nearest to the farthest


def alike(rows: Rows, of_logs: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of one target and trials as one: y, trials and the sum of weights, (U,) each.

    of_logs: as of a family's `alone_of_logs`; many targets are then replaced by those of a grid.
    """
    weights = rows.whole("weights")
    if np.ndim(rows.trials):
        pairs, place = np.unique(np.stack([rows.target, rows.trials]), axis=1, return_inverse=True)
        y, trials = pairs
    elif of_logs and len(rows) >= _MANY:
        y, sums = _on_grid(rows.target, weights)
        return y, np.broadcast_to(rows.trials, y.shape), sums
    else:
        y, place = np.unique(rows.target, return_inverse=True)
        trials = np.broadcast_to(rows.trials, y.shape)
    return y, trials, np.bincount(place.ravel(), weights, minlength=len(y))


def _on_grid(target: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Targets (U,) and weights of which sums of f(log y) are those of targets (N,) from 0, f smooth."""
    some = target > 0.0
    with np.errstate(divide="ignore"):
        x = np.log(target) * _STEPS
    low, high = np.floor(x[some].min(initial=np.inf)), x[some].max(initial=-np.inf)
    sums = np.zeros(int(high - low) + len(six_points.NODES) if some.any() else 0)
    for part in (slice(first, first + _PART) for first in range(0, len(x), _PART)):
        its, of_its = x[part][some[part]], weights[part][some[part]]
        cell = np.floor(its)
        place = (cell - low).astype(np.intp)
        for k, share in enumerate(six_points.shares(its - cell)):
            sums += np.bincount(place + k, of_its * share, minlength=len(sums))
    (kept,) = np.nonzero(sums)
    y = np.exp((low + six_points.NODES[0] + kept) / _STEPS)
    return np.append(y, 0.0), np.append(sums[kept], weights[~some].sum())


def beyond(posterior: "Posterior", at: np.ndarray, x: np.ndarray) -> np.ndarray | None:
    """By how much this part of all rows, at draws x (S, P), is beyond its second order about `at` (P,), (S,).

    None where there is none, or it would cost too much, or rows are few: far draws need what cancels in them.
    """
    if posterior.alike is None or posterior.bounds or len(posterior.rows) < _MANY:
        return None
    its, a = posterior.alone_at(at), x[:, posterior.n_coefficients :]
    dear = len(posterior.alike[0]) * len(x) > _EVALUATIONS
    if dear and not posterior.family.alone_of_logs:
        return None
    values = _fitted(posterior, x) if dear else posterior.alone(x)
    return None if values is None else values - its.value - its.change(a)


def _fitted(posterior: "Posterior", x: np.ndarray) -> np.ndarray | None:
    """The part at draws x (S, P), (S,), by a polynomial of auxiliary numbers; None where that is not true."""
    a = x[:, posterior.n_coefficients :]
    low, high = a.min(axis=0), a.max(axis=0)
    z = 2.0 * (a - low) / (high - low) - 1.0
    roots = np.cos(np.pi * (np.arange(_DEGREE + 1) + 0.5) / (_DEGREE + 1))
    nodes = np.stack([each.ravel() for each in np.meshgrid(*[roots] * a.shape[1])], axis=1)
    there = np.zeros((len(nodes), x.shape[1]))
    there[:, posterior.n_coefficients :] = low + (nodes + 1.0) * (high - low) / 2.0
    coefficients = np.linalg.solve(_products(nodes), posterior.alone(there))
    tried = np.argsort(np.abs(z).max(axis=1))[np.linspace(0, len(x) - 1, _TRIED).astype(int)]
    values = _products(z) @ coefficients
    return values if np.abs(values[tried] - posterior.alone(x[tried])).max() < _NEAR else None


def _products(z: np.ndarray) -> np.ndarray:
    """Products of Chebyshev polynomials of numbers z (n, A), (n, ·)."""
    out = np.ones((len(z), 1))
    for each in z.T:
        out = (out[:, :, None] * np.polynomial.chebyshev.chebvander(each, _DEGREE)[:, None]).reshape(
            len(z), -1
        )
    return out
