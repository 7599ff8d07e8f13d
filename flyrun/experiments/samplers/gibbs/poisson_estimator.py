"""Unbiased estimate of e^ζ from a Poisson minibatch: equation (2) of De Sa et al. 2018.

s_f ~ Poisson(λ M_f/Ψ), independent; ε = Σ s_f log(1 + Ψ φ_f/(λ M_f)); then E e^ε = e^ζ, by the Poisson's
moment generating function. λ is the mean batch.

Where every factor is 0 or M_f, the s_f of the factors at M_f add up to one Poisson(λ ζ/Ψ), and
ε = log(1 + Ψ/λ) · Poisson(λ ζ/Ψ): the same random variable in O(1), given ζ. It is *superposed*; drawing the
batch itself is *faithful*.

A *biased* estimate, for Theorem 1: B picks of factors with probability M_f/Ψ, ε = (Ψ/B) Σ φ_f/M_f. Its mean
is ζ, but E e^ε = (Σ_f (M_f/Ψ) e^(Ψφ_f/(B M_f)))^B is above e^ζ: MIN-Gibbs samples x ∝ E e^ε. The paper's own
example is a *subset*: B different factors, each as likely as any, ε = (F/B) Σ φ_f over them.
"""

from math import log1p
from typing import NamedTuple

import numpy as np

from flyrun.experiments.models.graphs.graph import Graph, expect_factor, factor_masses, factor_share
from flyrun.ground.errors import ConfigError
from flyrun.ground.numerics.alias import Alias, Even, alias_table, pick
from flyrun.ground.numerics.compiled import implements, inlined

_MOST = 1e12  # a step looks at so many factors for hours
AHEAD = 32
"""Picks made before their factors are looked at: the processor then fetches several from memory at once."""


class Faithful(NamedTuple):
    """λ factors on average, each looked at."""

    batch: float
    boost: float  # Ψ/λ
    top: float  # log(1 + Ψ/λ)
    table: Alias | Even  # alias table of the M_f
    picks: np.ndarray  # (AHEAD,) int64: workspace
    shares: np.ndarray  # (AHEAD,): workspace


class Superposed(NamedTuple):
    """One Poisson number, from the energy itself."""

    batch: float
    rate: float  # λ/Ψ
    top: float  # log(1 + Ψ/λ)


class Biased(NamedTuple):
    """B factors, whose mean share of their M_f stands for that of all; E e^ε is not e^ζ."""

    batch: float  # B, a whole number
    step: float  # Ψ/B
    table: Alias | Even  # alias table of the M_f
    exact: bool = False


class Subset(NamedTuple):
    """B different factors, uniformly, whose mean stands for that of all; E e^ε is not e^ζ."""

    batch: float  # B, a whole number
    step: float  # F/B
    masses: np.ndarray  # (F,): the M_f
    order: np.ndarray  # (F,) int64: workspace, 0 … F − 1 between draws
    places: np.ndarray  # (B,) int64: workspace
    rest: Even  # one row, of the factors not yet drawn
    exact: bool = False


def check_batch(batch: float, what: str = "batch") -> float:
    """The mean batch size, if it is one that a step gets through; else ConfigError, naming sampler.what."""
    if not 0.0 < batch <= _MOST:
        other = "larger" if batch <= 0.0 else "smaller"
        raise ConfigError(
            f"sampler.{what}: its mean batch is {batch:.3g} factors, which must be above 0 and at most "
            f"{_MOST:.0e}; choose a {other} one, such as sampler.{what}=1"
        )
    return float(batch)


def estimator(
    graph: Graph, batch: float, method: str, what: str = "batch"
) -> Faithful | Superposed | Biased | Subset:
    """Estimator with mean batch λ = batch. method: "faithful", "superposed", "auto" (superposed if it can),
    "biased", "subset" (of at most all factors).

    what: the option that says λ. Raises ConfigError for λ that is no batch, or superposed where
    factors have more than two values.
    """
    batch, total = check_batch(batch, what), graph.bounds.total
    if method == "superposed" and not graph.bounds.two_valued:
        raise ConfigError(
            "sampler.estimator=superposed: needs factors that are 0 or M only, which this graph's are not; "
            "take faithful or auto"
        )
    if method == "biased":
        count = max(1.0, round(batch))
        return Biased(count, total / count, alias_table(factor_masses(graph)))
    if method == "subset":
        masses = np.array(factor_masses(graph))
        count = int(min(max(1.0, round(batch)), masses.size))
        rooms = np.arange(masses.size), np.zeros(count, np.int64)
        return Subset(float(count), masses.size / count, masses, *rooms, Even(np.array([0, masses.size])))
    top = log1p(total / batch)
    if method == "faithful" or not graph.bounds.two_valued:
        room = np.zeros(AHEAD, np.int64), np.zeros(AHEAD)
        return Faithful(batch, total / batch, top, alias_table(factor_masses(graph)), *room)
    return Superposed(batch, batch / total if total > 0.0 else 0.0, top)


@inlined
def estimate(estimator, rng, graph, x, i, u, energy, meter):
    """ε at x with x_i = u (i = −1: at x); x is as before afterwards.

    energy: ζ there, read if needs_energy.  meter: (1,) of looks.
    """


@inlined
def needs_energy(estimator):
    """Whether `estimate` reads the energy: known while compiling."""


implements(needs_energy, Faithful)(lambda estimator: False)
implements(needs_energy, Biased)(lambda estimator: False)
implements(needs_energy, Subset)(lambda estimator: False)
implements(needs_energy, Superposed)(lambda estimator: True)


@implements(estimate, Faithful)
def _faithful(estimator, rng, graph, x, i, u, energy, meter):
    if estimator.boost == 0.0:  # no factor has energy
        return 0.0
    total, before = 0.0, x[i]
    if i >= 0:  # set for the while, rather than asked for at every variable of every factor
        x[i] = u
    n_draws = rng.poisson(estimator.batch)
    picks, shares = estimator.picks, estimator.shares
    for start in range(0, n_draws, AHEAD):
        # Three short loops: far memory answers many looks at once, where one long loop would wait for each.
        n_ahead = min(AHEAD, n_draws - start)
        for k in range(n_ahead):
            picks[k] = pick(estimator.table, rng, 0)
            expect_factor(graph, picks[k])
        for k in range(n_ahead):
            shares[k] = factor_share(graph, picks[k], x, -1, 0)
        for k in range(n_ahead):
            share = shares[k]
            if share > 0.0:
                total += estimator.top if share == 1.0 else log1p(estimator.boost * share)
    if i >= 0:
        x[i] = before
    meter[0] += n_draws
    return total


@implements(estimate, Biased)
def _biased(estimator, rng, graph, x, i, u, energy, meter):
    total = 0.0
    if estimator.step > 0.0:
        for _ in range(int(estimator.batch)):
            total += factor_share(graph, pick(estimator.table, rng, 0), x, i, u)
        meter[0] += estimator.batch
    return estimator.step * total


@implements(estimate, Subset)
def _subset(estimator, rng, graph, x, i, u, energy, meter):
    total, order, places = 0.0, estimator.order, estimator.places
    for k in range(places.shape[0]):  # Fisher & Yates, as far as B places
        estimator.rest.first[1] = order.shape[0] - k
        places[k] = k + pick(estimator.rest, rng, 0)
        order[k], order[places[k]] = order[places[k]], order[k]
        total += estimator.masses[order[k]] * factor_share(graph, order[k], x, i, u)
    for k in range(places.shape[0] - 1, -1, -1):  # so that a draw depends on the generator alone
        order[k], order[places[k]] = order[places[k]], order[k]
    meter[0] += estimator.batch
    return estimator.step * total


@implements(estimate, Superposed)
def _superposed(estimator, rng, graph, x, i, u, energy, meter):
    return estimator.top * rng.poisson(estimator.rate * max(energy, 0.0))
