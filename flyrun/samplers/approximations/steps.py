"""Sizes of stochastic steps, and averages over about the last of them."""

import numpy as np

from flyrun.config.sampler.streamed import ByBatches
from flyrun.numerics.batches import Batches


def size_of(options: ByBatches, batches: Batches, step: int) -> float:
    """rate·(delay + t)^−decay of step t, counted from 0; a rate of None is a batch's share of the rows."""
    rate = batches.size / batches.n_data if options.rate is None else options.rate
    return rate * (options.delay + step) ** -options.decay


def averaged(before: np.ndarray, value: np.ndarray, step: int, share: float) -> np.ndarray:
    """The average of t values, t counted from 1, given that of those before: weights are ∝ t^(1/share − 1).

    So it needs neither their number nor the values themselves; most of the weight is on the last share.
    Shamir & Zhang (2013).
    """
    return before + min(1.0, 1.0 / (share * step)) * (value - before)
