"""Rows whose part of auxiliary numbers alone is alike, as one."""

import numpy as np

from flyrun.fitting.table_rows import Rows
from flyrun.ground.numerics import six_points

MANY = 20_000  # rows from which on targets are moved onto a grid
_STEPS = 1_024  # of it, by e
_PART = 65_536  # rows at a time


def alike(rows: Rows, of_logs: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of one target and trials as one: y, trials and the sum of weights, (U,) each.

    of_logs: as of a family's `alone_of_logs`; many targets are then replaced by those of a grid.
    """
    weights = rows.whole("weights")
    if np.ndim(rows.trials):
        pairs, place = np.unique(np.stack([rows.target, rows.trials]), axis=1, return_inverse=True)
        y, trials = pairs
    elif of_logs and len(rows) >= MANY:
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
