"""What samplers of a factor graph share: one variable at a time is drawn anew, evaluations are metered."""

from math import exp
from typing import Any, NamedTuple

import numpy as np

from flyrun.experiments.models.graphs.graph import Graph, total_energy
from flyrun.ground.numerics.compiled import inlined, jit


class SiteMemory(NamedTuple):
    """What changes while sampling, each (1,) float64."""

    energy: np.ndarray  # ζ(x), kept up to date by the samplers that learn of its changes anyway
    estimate: np.ndarray  # the kept estimate of ζ(x): ε of MIN-Gibbs, ξ of DoubleMIN-Gibbs
    # meter: factor evaluations of the algorithm as published; a batch counts with its mean size
    nominal: np.ndarray
    actual: np.ndarray  # meter: factor values that this program looked at


def room(graph: Graph, n_arrays: int = 2) -> tuple[Any, ...]:
    """A memory of nothing known, nothing spent, and (D,) zeros n_arrays times, workspace."""
    memory = SiteMemory(np.zeros(1), np.zeros(1), np.zeros(1), np.zeros(1))
    return memory, *(np.zeros(graph.bounds.n_values) for _ in range(n_arrays))


@inlined
def begin(kernel, rng, graph, x):
    """Work out what the kernel keeps for the first position x, (n,) int32. Not metered."""


@inlined
def resample_site(kernel, rng, graph, x, i):
    """Draw variable i anew, x[i] changed in place; probability with which the proposed value was accepted."""


def begin_with_energy(kernel, rng, graph, x):
    """`begin` of kernels that keep ζ(x) alone."""
    kernel.memory.energy[0] = total_energy(graph, x)


@jit
def draw_value(rng, energies, size, weights):
    """u < size with probability ∝ exp energies[u]. weights: (D,), workspace."""
    return value_at(rng.random(), energies, size, weights)


@jit
def value_at(uniform, energies, size, weights):
    """The same, given a uniform in [0, 1)."""
    if size == 2:  # to the same bits with one exponential, and nothing for the processor to guess
        small = exp(-abs(energies[1] - energies[0]))
        return int(uniform * (1.0 + small) >= max(small, 1.0 * (energies[0] >= energies[1])))
    top = energies[0]
    for u in range(1, size):
        top = max(top, energies[u])
    total = 0.0
    for u in range(size):
        total += exp(energies[u] - top)
        weights[u] = total
    cut = uniform * total
    u = 0
    while u < size - 1 and cut >= weights[u]:
        u += 1
    return u
