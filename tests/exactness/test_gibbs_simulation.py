"""Compiled samplers of graphs, long chains on 27 states: their histograms against π. Seeds are fixed."""

import numpy as np
import pytest
from scipy import stats

from flyrun.experiments.samplers.gibbs.double_min import double_min
from flyrun.experiments.samplers.gibbs.gibbs import build as gibbs
from flyrun.experiments.samplers.gibbs.loop import (
    begin_chain,
    empty_sweeps,
    no_marginals,
    run_sweeps,
    scan_of,
)
from flyrun.experiments.samplers.gibbs.mgpmh import mgpmh
from flyrun.experiments.samplers.gibbs.min_gibbs import min_gibbs
from flyrun.experiments.samplers.gibbs.poisson_gibbs import poisson_gibbs
from flyrun.experiments.samplers.gibbs.single_site import begin, begin_with_energy
from flyrun.ground.numerics.compiled import implements
from tests.exactness.small_graphs import STATES, graphs, stationary
from tests.exactness.test_gibbs_enumeration import ExponentiatedTwice
from tests.samplers.gibbs.running_marginals import marginal_probabilities

GRAPHS = graphs(2.5)  # strong enough for a wrong acceptance to show
SAMPLERS = {
    "gibbs": lambda graph: gibbs(None, graph),
    # λ at Ψ² and L²: far below, chains stick and a test sees nothing
    "min faithful": lambda graph: min_gibbs(graph, graph.bounds.total**2, "faithful"),
    "min": lambda graph: min_gibbs(graph, graph.bounds.total**2, "auto"),
    "mgpmh": lambda graph: mgpmh(graph, graph.bounds.largest_local**2),
    "double faithful": lambda graph: double_min(
        graph, graph.bounds.largest_local**2, graph.bounds.total**2, "faithful"
    ),
    "double": lambda graph: double_min(graph, graph.bounds.largest_local**2, graph.bounds.total**2, "auto"),
    "poisson": lambda graph: poisson_gibbs(graph, graph.bounds.largest_local**2),
}
THIN = 20  # sweeps; autocorrelation is below 0.05 there for every sampler here
DRAWS = 8_000


implements(begin, ExponentiatedTwice)(begin_with_energy)


def _chain(kernel, graph, seed):
    rng, x, clock = np.random.default_rng(seed), np.zeros(3, np.int32), np.zeros(1, np.int64)
    marginals = no_marginals(3, 3)
    begin_chain(rng, graph, kernel, x)
    draws = empty_sweeps(THIN * DRAWS, 3)
    run_sweeps(rng, graph, kernel, x, marginals, clock, draws, scan_of(3))
    return draws, marginals, x, int(clock[0])


def _p_value(kernel, graph):
    draws, _, _, _ = _chain(kernel, graph, 1)
    places = draws.states[THIN - 1 :: THIN] @ np.array([9, 3, 1])
    return stats.chisquare(np.bincount(places, minlength=27), stationary(graph) * len(places)).pvalue


@pytest.mark.thorough
@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
@pytest.mark.parametrize("make", SAMPLERS.values(), ids=SAMPLERS)
def test_histograms_are_pi(make, graph):
    assert _p_value(make(graph), graph) > 1e-4


@pytest.mark.thorough(but="two-valued")
@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_negative_control_energies_exponentiated_twice(graph):
    assert _p_value(ExponentiatedTwice(*SAMPLERS["mgpmh"](graph)), graph) < 1e-6


def test_marginals_and_meters_of_a_chain():
    graph = GRAPHS["general"]
    draws, marginals, x, n_updates = _chain(SAMPLERS["gibbs"](graph), graph, 2)
    assert n_updates == 3 * THIN * DRAWS
    pi = stationary(graph)
    expected = [[pi[[state[i] == v for state in STATES]].sum() for v in range(3)] for i in range(3)]
    np.testing.assert_allclose(marginal_probabilities(marginals, x, n_updates), expected, atol=0.005)
    distance = np.linalg.norm(np.array(expected) - 1.0 / 3.0, axis=1).mean()
    assert draws.error[-1] == pytest.approx(distance, abs=0.005)
    # degrees 2, 3, 2, three values each
    assert draws.nominal.mean() == pytest.approx(7.0, rel=0.01)
    assert np.all(draws.accepted == 1.0)


@pytest.mark.thorough
def test_same_seed_same_chain_wherever_it_is_cut():
    graph = GRAPHS["two-valued"]
    kernel, whole = SAMPLERS["double"](graph), empty_sweeps(60, 3)
    parts = [empty_sweeps(m, 3) for m in (7, 53)]
    for pieces in ([whole], parts):
        kernel = SAMPLERS["double"](graph)
        rng, x, clock = np.random.default_rng(9), np.zeros(3, np.int32), np.zeros(1, np.int64)
        marginals = no_marginals(3, 3)
        begin_chain(rng, graph, kernel, x)
        for piece in pieces:
            run_sweeps(rng, graph, kernel, x, marginals, clock, piece, scan_of(3))
    for field in whole._fields:
        joined = np.concatenate([getattr(part, field) for part in parts])
        np.testing.assert_array_equal(joined, getattr(whole, field))
