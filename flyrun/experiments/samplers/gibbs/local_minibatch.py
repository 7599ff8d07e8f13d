"""Local Minibatch Gibbs: Algorithm 3 of De Sa, Chen & Wong 2018. Biased: its stationary law is not π.

Kept for comparison. The same uniform subset of a variable's factors stands for all of them at every value.
With Poisson batches the factors are those of MGPMH's proposal, which nothing accepts or rejects here.
"""

from typing import Any, NamedTuple

import numpy as np

from flyrun.experiments.config.sampler import gibbs as options
from flyrun.experiments.models.graphs.graph import Graph, add_share, rows, visits
from flyrun.experiments.samplers.gibbs import single_site
from flyrun.experiments.samplers.gibbs.mgpmh import minibatch, propose_energies
from flyrun.ground.errors import ConfigError
from flyrun.ground.numerics.compiled import implements

LABEL = "Local Minibatch Gibbs"
EXACT = False


class LocalMinibatch(NamedTuple):
    """x_i by (Δ_i/B)·Σ φ over B of its factors, drawn without replacement."""

    batch: int
    row_first: np.ndarray
    row_masses: np.ndarray
    deck: np.ndarray  # (Δ,) int64: 0 … Δ − 1 in order between updates
    swaps: np.ndarray  # (B,) int64: workspace
    memory: single_site.SiteMemory
    energies: np.ndarray  # (D,): workspace
    weights: np.ndarray  # (D,): workspace


class LocalPoisson(NamedTuple):
    """x_i by ε_u = Σ s_f (L/λ) φ_f/M_f, s_f ~ Poisson(λ M_f/L): λ factors on average where L is reached."""

    proposal: Any
    memory: single_site.SiteMemory
    energies: np.ndarray  # (D,): workspace
    weights: np.ndarray  # (D,): workspace


def build(config: options.LocalMinibatch, graph: Graph) -> LocalMinibatch | LocalPoisson:
    """Kernel with B = config.batch factors an update, or so many on average at most."""
    return (local_poisson if config.batches == "poisson" else local_minibatch)(graph, config.batch)


def local_poisson(graph: Graph, batch: float) -> LocalPoisson:
    """Kernel with λ = batch. ConfigError for λ ≤ 0."""
    return LocalPoisson(minibatch(graph, batch, "faithful"), *single_site.room(graph))


def local_minibatch(graph: Graph, batch: int) -> LocalMinibatch:
    """Kernel with B = batch, or all of a variable's factors where it has fewer. ConfigError for B < 1."""
    if batch < 1:
        raise ConfigError(f"sampler.batch={batch}: must be a whole number at least 1, such as 40")
    first, masses = rows(graph)
    degree = graph.bounds.largest_degree
    swaps = np.zeros(min(batch, degree), np.int64)
    return LocalMinibatch(batch, first, masses, np.arange(degree), swaps, *single_site.room(graph))


for kernel in (LocalMinibatch, LocalPoisson):
    implements(single_site.begin, kernel)(lambda kernel, rng, graph, x: None)


@implements(single_site.resample_site, LocalMinibatch)
def _resample(kernel, rng, graph, x, i):
    size, degree = graph.bounds.sizes[i], graph.bounds.degree[i]
    energies, deck = kernel.energies, kernel.deck
    for u in range(size):
        energies[u] = 0.0
    n_draws = min(kernel.batch, degree)
    masses, start, swaps = kernel.row_masses, kernel.row_first[i], kernel.swaps
    scale = degree / max(1, n_draws)
    for k in range(n_draws):  # Fisher-Yates, undone below so that the deck serves every degree
        j = k + min(int(rng.random() * (degree - k)), degree - k - 1)
        swaps[k] = j
        r = deck[j]
        deck[j] = deck[k]
        deck[k] = r
        add_share(graph, i, r, x, masses[start + r] * scale, energies)
    for k in range(n_draws - 1, -1, -1):
        j = swaps[k]
        r = deck[j]
        deck[j] = deck[k]
        deck[k] = r
    x[i] = single_site.draw_value(rng, energies, size, kernel.weights)
    kernel.memory.nominal[0] += size * n_draws
    kernel.memory.actual[0] += visits(graph, i) * n_draws
    return 1.0


@implements(single_site.resample_site, LocalPoisson)
def _resample_poisson(kernel, rng, graph, x, i):
    size, energies = graph.bounds.sizes[i], kernel.energies
    propose_energies(kernel.proposal, rng, graph, x, i, energies, kernel.memory.actual)
    x[i] = single_site.draw_value(rng, energies, size, kernel.weights)
    kernel.memory.nominal[0] += size * kernel.proposal.rate * graph.bounds.local[i]
    return 1.0
