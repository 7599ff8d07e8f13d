"""Poisson-Gibbs: Algorithm 1 of Zhang & De Sa 2019, Poisson-Minibatching for Gibbs Sampling.

Auxiliary s_f ~ Poisson(λ M_f/L + φ_f(x)) make the conditional of x_i given s a product over the few factors
with s_f > 0; nothing is ever rejected. s is drawn in the time of its sum: with rates λ M_f/L + M_f by alias,
each draw kept with probability (λ/L + φ_f/M_f)/(λ/L + 1).
"""

from math import log1p
from typing import NamedTuple

import numpy as np

from flyrun.experiments.config.sampler import gibbs as options
from flyrun.experiments.models.graphs.graph import Graph, add_log_share, current_share, rows, visits
from flyrun.experiments.samplers.gibbs import single_site
from flyrun.experiments.samplers.gibbs.poisson_estimator import check_batch
from flyrun.ground.numerics.alias import Alias, Even, alias_rows, pick
from flyrun.ground.numerics.compiled import implements
from flyrun.ground.numerics.poisson_count import poisson_count

LABEL = "Poisson-Gibbs"
EXACT = True


class PoissonGibbs(NamedTuple):
    """x_i by Σ s_f log(1 + L φ_f/(λ M_f)): D·(λ + L)·L_i/L evaluations at most, whatever the degree."""

    batch: float  # λ
    rate: float  # λ/L
    boost: float  # L/λ
    top: float  # log(1 + L/λ)
    table: Alias | Even  # alias rows of the M_f
    memory: single_site.SiteMemory
    energies: np.ndarray  # (D,): workspace
    weights: np.ndarray  # (D,): workspace


def build(config: options.PoissonGibbs, graph: Graph) -> PoissonGibbs:
    """Kernel with λ = config.batch·L²."""
    return poisson_gibbs(graph, config.batch * graph.bounds.largest_local**2 or config.batch)


def poisson_gibbs(graph: Graph, batch: float) -> PoissonGibbs:
    """Kernel with λ = batch. Raises ConfigError for λ ≤ 0."""
    batch, largest = check_batch(batch), graph.bounds.largest_local
    boost = largest / batch
    rate = 1.0 / boost if boost > 0.0 else 0.0
    return PoissonGibbs(batch, rate, boost, log1p(boost), alias_rows(*rows(graph)), *single_site.room(graph))


implements(single_site.begin, PoissonGibbs)(lambda kernel, rng, graph, x: None)


@implements(single_site.resample_site, PoissonGibbs)
def _resample(kernel, rng, graph, x, i):
    size, energies = graph.bounds.sizes[i], kernel.energies
    for u in range(size):
        energies[u] = 0.0
    mean = (kernel.rate + 1.0) * graph.bounds.local[i]
    n_draws, n_kept = 0, 0
    if mean > 0.0:
        n_draws = poisson_count(rng, mean)
    for _ in range(n_draws):
        r = pick(kernel.table, rng, i)
        share = current_share(graph, i, r, x)
        if share == 1.0 or rng.random() * (kernel.rate + 1.0) < kernel.rate + share:
            add_log_share(graph, i, r, x, kernel.boost, kernel.top, energies)
            n_kept += 1
    x[i] = single_site.draw_value(rng, energies, size, kernel.weights)
    kernel.memory.nominal[0] += n_draws + n_kept * (size - 1)
    kernel.memory.actual[0] += n_draws + n_kept * visits(graph, i)
    return 1.0
