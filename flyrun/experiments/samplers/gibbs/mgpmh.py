"""MGPMH, Minibatch-Gibbs-Proposal Metropolis-Hastings: Algorithm 4 of De Sa, Chen & Wong 2018.

A value is proposed by a Poisson minibatch of the variable's factors and accepted by their exact energies. The
acceptance ratio uses the proposal probabilities of this batch, not their mean over batches: given the batch
the move is reversible, so it is so without.
"""

from math import exp
from typing import Any, NamedTuple

import numpy as np

from flyrun.experiments.config.sampler import gibbs as options
from flyrun.experiments.models.graphs.graph import (
    Graph,
    add_share,
    energy_change,
    local_energies,
    rows,
    visits,
)
from flyrun.experiments.samplers.gibbs import single_site
from flyrun.experiments.samplers.gibbs.poisson_estimator import check_batch
from flyrun.ground.errors import ConfigError
from flyrun.ground.numerics.alias import Alias, Even, alias_rows, pick
from flyrun.ground.numerics.compiled import implements, inlined
from flyrun.ground.numerics.poisson_count import poisson_count

LABEL = "MGPMH"
EXACT = True


class Minibatch(NamedTuple):
    """s_f ~ Poisson(λ M_f/L) over the factors of i; ε_u = Σ s_f (L/λ) φ_f/M_f at x_i = u. Faithful."""

    batch: float
    rate: float  # λ/L, or 0 where no factor has energy
    step: float  # L/λ
    table: Alias | Even  # alias rows of the M_f


class SuperposedMinibatch(NamedTuple):
    """The same where a factor is active for at most one value: ε_u = (L/λ) Poisson(λ/L·local energy at u)."""

    batch: float
    rate: float  # λ/L


def minibatch(graph: Graph, batch: float, method: str) -> Minibatch | SuperposedMinibatch:
    """Proposal with mean batch λ. method: "faithful", "superposed" or "auto" (faithful: it is the faster)."""
    batch, largest = check_batch(batch), graph.bounds.largest_local
    rate = batch / largest if largest > 0.0 else 0.0
    if method != "superposed":
        return Minibatch(batch, rate, largest / batch, alias_rows(*rows(graph)))
    if not (graph.bounds.two_valued and graph.bounds.exclusive):
        raise ConfigError(
            "sampler.estimator=superposed: needs factors that are 0 or M, and M for one value of each "
            "variable only; take faithful or auto"
        )
    return SuperposedMinibatch(batch, rate)


@inlined
def propose_energies(proposal, rng, graph, x, i, energies, meter):
    """energies[u] = ε_u for every u < size_i; nothing is read or changed elsewhere. meter: (1,) of looks."""


@implements(propose_energies, Minibatch)
def _faithful(proposal, rng, graph, x, i, energies, meter):
    for u in range(graph.bounds.sizes[i]):
        energies[u] = 0.0
    n_draws = poisson_count(rng, proposal.rate * graph.bounds.local[i])
    for _ in range(n_draws):
        add_share(graph, i, pick(proposal.table, rng, i), x, proposal.step, energies)
    meter[0] += visits(graph, i) * n_draws


@implements(propose_energies, SuperposedMinibatch)
def _superposed(proposal, rng, graph, x, i, energies, meter):
    local_energies(graph, i, x, energies)
    if proposal.rate > 0.0:
        for u in range(graph.bounds.sizes[i]):
            energies[u] = poisson_count(rng, proposal.rate * energies[u]) / proposal.rate
        meter[0] += visits(graph, i) * graph.bounds.degree[i]


class Mgpmh(NamedTuple):
    """D·λ L_i/L evaluations for the proposal, 2Δ for the acceptance of a change."""

    proposal: Any
    memory: single_site.SiteMemory
    energies: np.ndarray  # (D,): workspace
    weights: np.ndarray  # (D,): workspace


def build(config: options.Mgpmh, graph: Graph) -> Mgpmh:
    """Kernel with mean batch λ = config.batch·L²; config.estimator chooses how it is drawn."""
    return mgpmh(graph, config.batch * graph.bounds.largest_local**2 or config.batch, config.estimator)


def mgpmh(graph: Graph, batch: float, method: str = "auto") -> Mgpmh:
    """Kernel with mean batch λ = batch. Raises ConfigError, see `minibatch`."""
    return Mgpmh(minibatch(graph, batch, method), *single_site.room(graph))


implements(single_site.begin, Mgpmh)(single_site.begin_with_energy)


@implements(single_site.resample_site, Mgpmh)
def _resample(kernel, rng, graph, x, i):
    memory, energies = kernel.memory, kernel.energies
    size, degree = graph.bounds.sizes[i], graph.bounds.degree[i]
    propose_energies(kernel.proposal, rng, graph, x, i, energies, memory.actual)
    memory.nominal[0] += size * kernel.proposal.rate * graph.bounds.local[i]
    before = x[i]
    value = single_site.draw_value(rng, energies, size, kernel.weights)
    acceptance = 1.0
    if value != before:  # else accepted with certainty: no scan
        change = energy_change(graph, i, x, value)
        memory.nominal[0] += 2 * degree
        memory.actual[0] += min(2, visits(graph, i)) * degree
        acceptance = exp(min(0.0, change + energies[before] - energies[value]))
        if rng.random() < acceptance:
            x[i] = value
            memory.energy[0] += change
    return acceptance
