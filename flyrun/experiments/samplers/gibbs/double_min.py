"""DoubleMIN-Gibbs: Algorithm 5 of De Sa, Chen & Wong 2018.

MGPMH whose acceptance estimates the energy too: the state is (x, ξ), with ξ an estimate of ζ(x) kept until a
proposal brings its own. Stationary as for MIN-Gibbs.
"""

from math import exp
from typing import Any, NamedTuple

import numpy as np

from flyrun.experiments.config.sampler import gibbs as options
from flyrun.experiments.models.graphs.graph import Graph, energy_change, visits
from flyrun.experiments.samplers.gibbs import single_site
from flyrun.experiments.samplers.gibbs.mgpmh import minibatch, propose_energies
from flyrun.experiments.samplers.gibbs.min_gibbs import begin_with_estimate
from flyrun.experiments.samplers.gibbs.poisson_estimator import estimate, estimator, needs_energy
from flyrun.ground.numerics.compiled import implements

LABEL = "DoubleMIN-Gibbs"
EXACT = True


class DoubleMin(NamedTuple):
    """D·λ₁ L_i/L evaluations for the proposal, λ₂ for its energy, whatever the degree."""

    proposal: Any
    estimator: Any
    memory: single_site.SiteMemory
    energies: np.ndarray  # (D,): workspace
    weights: np.ndarray  # (D,): workspace


def build(config: options.DoubleMin, graph: Graph) -> DoubleMin:
    """Kernel with mean batches λ₁ = config.batch·L² and λ₂ = config.second_batch·Ψ²."""
    first = config.batch * graph.bounds.largest_local**2 or config.batch
    second = config.second_batch * graph.bounds.total**2 or config.second_batch
    return double_min(graph, first, second, config.estimator)


def double_min(graph: Graph, first: float, second: float, method: str = "auto") -> DoubleMin:
    """Kernel with λ₁ = first, drawn faithfully, and λ₂ = second, drawn as method says; see `estimator`."""
    drawn = minibatch(graph, first, "faithful"), estimator(graph, second, method, "second_batch")
    return DoubleMin(*drawn, *single_site.room(graph))


implements(single_site.begin, DoubleMin)(begin_with_estimate)


@implements(single_site.resample_site, DoubleMin)
def _resample(kernel, rng, graph, x, i):
    memory, energies = kernel.memory, kernel.energies
    size, degree = graph.bounds.sizes[i], graph.bounds.degree[i]
    propose_energies(kernel.proposal, rng, graph, x, i, energies, memory.actual)
    before = x[i]
    value = single_site.draw_value(rng, energies, size, kernel.weights)
    change = 0.0
    # A proposal equal to the current value still brings a fresh estimate.
    if needs_energy(kernel.estimator) and value != before:
        change = energy_change(graph, i, x, value)
        memory.actual[0] += min(2, visits(graph, i)) * degree
    energy = memory.energy[0] + change
    proposed = estimate(kernel.estimator, rng, graph, x, i, value, energy, memory.actual)
    memory.nominal[0] += size * kernel.proposal.rate * graph.bounds.local[i] + kernel.estimator.batch
    log_ratio = proposed - memory.estimate[0] + energies[before] - energies[value]
    acceptance = exp(min(0.0, log_ratio))
    if rng.random() < acceptance:
        x[i] = value
        memory.estimate[0] = proposed
        memory.energy[0] = energy
    return acceptance
