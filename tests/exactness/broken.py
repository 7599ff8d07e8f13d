"""Kernels with known faults, for negative controls: a test that passes them proves nothing."""

from math import exp
from typing import NamedTuple

import numpy as np

from flyrun.compiled import implements
from flyrun.samplers.brightness import log_uniform_below, resample
from flyrun.samplers.firefly import query
from flyrun.samplers.partition import brighten, darken, ith_bright, ith_dark


class InvertedImplicit(NamedTuple):
    """Algorithm 2 as printed: a proposed dark datum is lit if L̃/q < u."""

    log_q: float
    skip_rate: float
    proposed: np.ndarray


def inverted_implicit(q, n_data):
    with np.errstate(divide="ignore"):
        return InvertedImplicit(float(np.log(q)), float(-np.log1p(-q)), np.zeros(n_data, np.int64))


@implements(resample, InvertedImplicit)
def _inverted_sweep(brightness, rng, target, theta):
    memory = target.memory
    partition = memory.partition
    n_bright = partition.n_bright[0]
    n_dark = partition.order.shape[0] - n_bright
    n_lit = 0
    i = rng.standard_exponential() // brightness.skip_rate
    while i < n_dark:
        n = ith_dark(partition, int(i))
        query(target, np.array([n]), theta)
        if rng.random() >= exp(min(0.0, memory.values[n] - brightness.log_q)):
            brightness.proposed[n_lit] = n
            n_lit += 1
        i += 1.0 + rng.standard_exponential() // brightness.skip_rate
    for j in range(n_bright - 1, -1, -1):
        n = ith_bright(partition, j)
        if log_uniform_below(rng, brightness.log_q - memory.values[n]):
            darken(partition, n)
    for j in range(n_lit):
        brighten(partition, brightness.proposed[j])
