"""Gibbs sampling (Geman & Geman 1984), one variable at a time: Algorithm 1 of De Sa et al. 2018."""

from typing import Any, NamedTuple

import numpy as np

from flyrun.models.graphs.graph import local_energies, visits
from flyrun.numerics.compiled import implements
from flyrun.samplers.gibbs.single_site import (
    SiteMemory,
    begin,
    begin_with_energy,
    draw_value,
    resample_site,
    site_memory,
    workspace,
)

LABEL = "Gibbs"
EXACT = True


class Gibbs(NamedTuple):
    """x_i ~ π(x_i | the others): every factor of i at every value, D·Δ evaluations."""

    memory: SiteMemory
    energies: np.ndarray
    """(D,): workspace."""
    weights: np.ndarray
    """(D,): workspace."""


def build(config: Any, graph: Any) -> Gibbs:
    """Kernel for a graph; nothing to configure."""
    return Gibbs(site_memory(), workspace(graph), workspace(graph))


@implements(begin, Gibbs)
def _begin(kernel, rng, graph, x):
    begin_with_energy(kernel, graph, x)


@implements(resample_site, Gibbs)
def _resample(kernel, rng, graph, x, i):
    size, degree = graph.bounds.sizes[i], graph.bounds.degree[i]
    energies = kernel.energies
    local_energies(graph, i, x, energies)
    value = draw_value(rng, energies, size, kernel.weights)
    kernel.memory.energy[0] += energies[value] - energies[x[i]]
    kernel.memory.nominal[0] += size * degree
    kernel.memory.actual[0] += visits(graph, i) * degree
    x[i] = value
    return 1.0
