"""MIN-Gibbs: Algorithm 2 of De Sa, Chen & Wong 2018, Minibatch Gibbs Sampling on Large Graphical Models.

The state is (x, ε): a variable is drawn by estimates of the whole energy, one per value, the current value's
being the one kept from before. Stationary: P(x, ε) ∝ P(estimate = ε at x)·e^ε; since E e^ε = e^ζ(x), x ~ π.
"""

from typing import Any, NamedTuple

import numpy as np

from flyrun.experiments.config.sampler import gibbs as options
from flyrun.experiments.models.graphs.graph import Graph, local_energies, total_energy, visits
from flyrun.experiments.samplers.gibbs import single_site
from flyrun.experiments.samplers.gibbs.poisson_estimator import estimate, estimator, needs_energy
from flyrun.ground.numerics.compiled import implements

LABEL = "MIN-Gibbs"
EXACT = True


class MinGibbs(NamedTuple):
    """x_i by the estimates of ζ at its values: (D − 1)·λ evaluations, whatever the degree."""

    estimator: Any
    memory: single_site.SiteMemory
    energies: np.ndarray  # (D,): workspace
    estimates: np.ndarray  # (D,): workspace
    weights: np.ndarray  # (D,): workspace


def build(config: options.MinGibbs, graph: Graph) -> MinGibbs:
    """Kernel with mean batch λ = config.batch·Ψ²; config.estimator chooses how it is drawn."""
    return min_gibbs(graph, config.batch * graph.bounds.total**2 or config.batch, config.estimator)


def min_gibbs(graph: Graph, batch: float, method: str = "auto") -> MinGibbs:
    """Kernel with mean batch λ = batch. Raises ConfigError, see `estimator`."""
    return MinGibbs(estimator(graph, batch, method), *single_site.room(graph, 3))


@implements(single_site.begin, MinGibbs)
def begin_with_estimate(kernel, rng, graph, x):
    """`begin` of kernels that keep an estimate of ζ(x), too."""
    memory = kernel.memory
    memory.energy[0] = total_energy(graph, x)
    memory.estimate[0] = estimate(kernel.estimator, rng, graph, x, -1, 0, memory.energy[0], memory.actual)
    memory.actual[0] = 0.0


@implements(single_site.resample_site, MinGibbs)
def _resample(kernel, rng, graph, x, i):
    memory, energies, estimates = kernel.memory, kernel.energies, kernel.estimates
    size, before = graph.bounds.sizes[i], x[i]
    if needs_energy(kernel.estimator):
        local_energies(graph, i, x, energies)
        memory.actual[0] += visits(graph, i) * graph.bounds.degree[i]
    for u in range(size):
        if u == before:
            estimates[u] = memory.estimate[0]
        else:
            energy = memory.energy[0] + energies[u] - energies[before]
            estimates[u] = estimate(kernel.estimator, rng, graph, x, i, u, energy, memory.actual)
    value = single_site.draw_value(rng, estimates, size, kernel.weights)
    x[i] = value
    memory.estimate[0] = estimates[value]
    memory.energy[0] += energies[value] - energies[before]
    memory.nominal[0] += (size - 1) * kernel.estimator.batch
    return 1.0
