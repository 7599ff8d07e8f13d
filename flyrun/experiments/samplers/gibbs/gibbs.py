"""Gibbs sampling (Geman & Geman 1984), one variable at a time: Algorithm 1 of De Sa et al. 2018."""

from typing import NamedTuple

import numpy as np

from flyrun.experiments.config.sampler import gibbs as options
from flyrun.experiments.models.graphs.graph import Graph, local_energies, visits
from flyrun.experiments.samplers.gibbs import single_site
from flyrun.ground.numerics.compiled import implements

LABEL = "Gibbs"
EXACT = True


class Gibbs(NamedTuple):
    """x_i ~ π(x_i | the others): every factor of i at every value, D·Δ evaluations."""

    memory: single_site.SiteMemory
    energies: np.ndarray  # (D,): workspace
    weights: np.ndarray  # (D,): workspace


def build(config: options.Gibbs, graph: Graph) -> Gibbs:
    """Kernel for a graph; nothing to configure."""
    return Gibbs(*single_site.room(graph))


implements(single_site.begin, Gibbs)(single_site.begin_with_energy)


@implements(single_site.resample_site, Gibbs)
def _resample(kernel, rng, graph, x, i):
    size, degree = graph.bounds.sizes[i], graph.bounds.degree[i]
    energies = kernel.energies
    local_energies(graph, i, x, energies)
    value = single_site.draw_value(rng, energies, size, kernel.weights)
    kernel.memory.energy[0] += energies[value] - energies[x[i]]
    kernel.memory.nominal[0] += size * degree
    kernel.memory.actual[0] += visits(graph, i) * degree
    x[i] = value
    return 1.0
