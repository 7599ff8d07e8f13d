"""Meters of factor evaluations against closed forms, and kept energies against sums over all factors."""

import numpy as np
import pytest

from flyrun.experiments.data.grid import gaussian_kernel
from flyrun.experiments.models.graphs import graph as contract
from flyrun.experiments.models.graphs.factor_graph import factor_graph
from flyrun.experiments.models.graphs.ising import ising
from flyrun.experiments.models.graphs.pair_factors import dense_pairs
from flyrun.experiments.models.graphs.potts import potts
from flyrun.experiments.samplers.gibbs.double_min import double_min
from flyrun.experiments.samplers.gibbs.gibbs import build as gibbs
from flyrun.experiments.samplers.gibbs.local_minibatch import local_minibatch
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
from flyrun.ground.numerics.compiled import outer_jit

KERNEL = gaussian_kernel(5, 1.0)
N, D, DEGREE = 25, 4, 24
GRID = potts(dense_pairs(0.5 * KERNEL), N, D)
SPINS = ising(dense_pairs(0.5 * KERNEL), N)


def _triples():
    rng = np.random.default_rng(4)
    scopes = [tuple(rng.permutation(N)[:3]) for _ in range(50)]
    return factor_graph([D] * N, scopes, [0.2 * rng.random((D, D, D)) for _ in scopes])


TRIPLES = _triples()
FREE = factor_graph([3, 1, 2], [(1,)], [np.array([2.0])])


@outer_jit
def _total_energy(graph, x):
    return contract.total_energy(graph, x)


def _run(graph, kernel, sweeps=400, seed=3):
    n = len(graph.bounds.sizes)
    rng, x, clock = np.random.default_rng(seed), np.zeros(n, np.int32), np.zeros(1, np.int64)
    begin_chain(rng, graph, kernel, x)
    draws = empty_sweeps(sweeps, n)
    marginals = no_marginals(n, graph.bounds.n_values)
    run_sweeps(rng, graph, kernel, x, marginals, clock, draws, scan_of(n))
    return draws, x


def test_plain_gibbs_looks_at_every_factor_at_every_value():
    draws, _ = _run(GRID, gibbs(None, GRID))
    assert np.all(draws.nominal == D * DEGREE)
    assert np.all(draws.actual == DEGREE)  # agreement of two variables is one look for all values
    draws, _ = _run(TRIPLES, gibbs(None, TRIPLES), 2000)
    assert draws.nominal.mean() == draws.actual.mean()
    assert draws.nominal.mean() == pytest.approx(D * TRIPLES.bounds.degree.mean(), rel=0.02)


@pytest.mark.thorough
def test_min_gibbs_draws_a_batch_for_each_other_value():
    for method, looks in (("faithful", (D - 1) * 30.0), ("superposed", DEGREE)):
        draws, _ = _run(GRID, min_gibbs(GRID, 30.0, method))
        np.testing.assert_allclose(draws.nominal, (D - 1) * 30.0)
        assert draws.actual.mean() == pytest.approx(looks, rel=0.01)


@pytest.mark.thorough
def test_local_minibatch_looks_at_its_batch():
    for graph, cost in ((GRID, 1), (TRIPLES, D)):
        draws, _ = _run(graph, local_minibatch(graph, 5))
        sizes = np.minimum(graph.bounds.degree, 5).mean()
        assert draws.nominal.mean() == pytest.approx(D * sizes, rel=0.02)
        assert draws.actual.mean() == pytest.approx(cost * sizes, rel=0.02)


def test_mgpmh_scans_only_for_a_change():
    batch = 6.0
    draws, _ = _run(GRID, mgpmh(GRID, batch), 3000)
    mean_batch = batch * GRID.bounds.local.mean() / GRID.bounds.largest_local
    proposed = (draws.nominal - D * mean_batch).mean() / (2 * DEGREE)
    assert draws.changed.mean() < proposed < 1.0
    assert draws.actual.mean() == pytest.approx(mean_batch + proposed * DEGREE, rel=0.01)


@pytest.mark.thorough
def test_double_min_costs_nothing_that_grows_with_the_degree():
    draws, _ = _run(TRIPLES, double_min(TRIPLES, 6.0, 20.0), 3000)
    mean_batch = 6.0 * TRIPLES.bounds.local.mean() / TRIPLES.bounds.largest_local
    for cost in (draws.nominal, draws.actual):
        assert cost.mean() == pytest.approx(D * mean_batch + 20.0, rel=0.02)


@pytest.mark.thorough
def test_poisson_gibbs_draws_its_batch_and_the_energy():
    batch = 6.0
    draws, _ = _run(TRIPLES, poisson_gibbs(TRIPLES, batch), 3000)
    most = (D + 1) * (batch + TRIPLES.bounds.largest_local)
    assert draws.nominal.mean() < most
    assert draws.actual.mean() < most


@pytest.mark.thorough(but="potts")
@pytest.mark.parametrize("graph", [GRID, SPINS, TRIPLES], ids=["potts", "ising", "triples"])
@pytest.mark.parametrize(
    "make",
    [
        lambda graph: gibbs(None, graph),
        lambda graph: mgpmh(graph, 5.0),
        lambda graph: mgpmh(graph, 5.0) if not graph.bounds.exclusive else mgpmh(graph, 5.0, "superposed"),
    ],
)
def test_kept_energy_is_the_sum_of_all_factors(graph, make):
    kernel = make(graph)
    _, x = _run(graph, kernel)
    assert kernel.memory.energy[0] == pytest.approx(_total_energy(graph, x), abs=1e-9)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("graph", [GRID, SPINS], ids=["potts", "ising"])
def test_superposed_samplers_keep_the_energy_too(graph):
    for kernel in (min_gibbs(graph, 40.0), double_min(graph, 5.0, 40.0)):
        _, x = _run(graph, kernel)
        assert kernel.memory.energy[0] == pytest.approx(_total_energy(graph, x), abs=1e-9)


@pytest.mark.thorough
@pytest.mark.parametrize("batch", [2.0, 6.0])
def test_free_and_constant_variables(batch):
    kernels = (
        gibbs(None, FREE),
        min_gibbs(FREE, batch, "faithful"),
        mgpmh(FREE, batch),
        double_min(FREE, batch, batch),
        poisson_gibbs(FREE, batch),
        local_minibatch(FREE, 2),
    )
    for kernel in kernels:
        draws, _ = _run(FREE, kernel, 4000)
        assert np.all(draws.states[:, 1] == 0)
        shares = np.bincount(draws.states[::3, 0], minlength=3) / len(draws.states[::3])
        np.testing.assert_allclose(shares, 1.0 / 3.0, atol=0.06)
        assert draws.error[-1] < 0.05
