"""Graphs of all forms against sums written out, and the constants of the paper's two models."""

import itertools
from typing import NamedTuple

import numpy as np
import pytest
from scipy import stats

from flyrun.experiments.config.dataset.graph_data import RandomFactors
from flyrun.experiments.data import random_factors
from flyrun.experiments.data.grid import gaussian_kernel, grid_edges
from flyrun.experiments.models.graphs import graph as contract
from flyrun.experiments.models.graphs.edge_tables import edge_tables
from flyrun.experiments.models.graphs.factor_graph import bind, factor_graph
from flyrun.experiments.models.graphs.ising import ising
from flyrun.experiments.models.graphs.pair_factors import dense_pairs, sparse_pairs
from flyrun.experiments.models.graphs.potts import potts
from flyrun.ground.errors import DataError
from flyrun.ground.numerics.alias import Even, alias_rows
from flyrun.ground.numerics.compiled import outer_jit


class Case(NamedTuple):
    graph: object
    sizes: tuple
    factors: list
    """(scope, function of the scope's values, M)."""


def _pair_case(make, n, n_values, weights):
    factors = []
    for (i, j), w in weights.items():
        factors.append(
            ((i, j), lambda a, b, w=w: abs(w) if (a == b) == (w >= 0) else 0.0, abs(w)),
        )
    return Case(make, (n_values,) * n, factors)


def _edge_table(seed, number, d, agreement):
    """(D, D): the table of an edge by its number, worked out in whole numbers without limits."""
    top, word = 2**16 - 1, 2**32
    noise = round((1 - agreement) * 2**16)
    table = np.empty((d, d))
    for a, b in itertools.product(range(d), repeat=2):
        k = (a - b) % d
        h = (number * 0x9E3779B1 + seed * 0xC2B2AE35 + k * 0x85EBCA77) % word
        h = (h ^ h >> 16) * 0x7FEB352D % word
        h = (h ^ h >> 15) * 0x846CA68B % word
        level = (h >> 16) * noise // 2**16
        table[a, b] = (level + (top - top * noise // 2**16 if k == 0 else 0)) / top
    return table


def _edge_case(n, d, local, agreement, seed):
    mass = local / (n - 1)
    pairs = list(itertools.combinations(range(n), 2))
    tables = [mass * _edge_table(seed, i * n + j, d, agreement) for i, j in pairs]
    factors = [(pair, lambda a, b, t=table: t[a, b], mass) for pair, table in zip(pairs, tables, strict=True)]
    # as they are numbered: by how far apart round a ring
    ring = [tuple(sorted((i, (i + step) % n))) for step in range(1, n) for i in range(n)][: len(factors)]
    factors = [next(factor for factor in factors if factor[0] == pair) for pair in ring]
    return Case(edge_tables(n, d, local, agreement, seed), (d,) * n, factors)


def cases():
    rng = np.random.default_rng(1)
    n = 5
    matrix = np.triu(rng.normal(size=(n, n)), 1)
    full = {(i, j): matrix[i, j] for i, j in itertools.combinations(range(n), 2)}
    some = {(0, 1): 0.7, (1, 4): -0.3, (3, 1): 1.2, (0, 4): 0.0}
    ends, strength = np.array(list(some)), np.array(list(some.values()))
    dense, sparse = dense_pairs(matrix + matrix.T), sparse_pairs(n, ends, strength)
    yield "potts dense", _pair_case(potts(dense, n, 3), n, 3, full)
    yield "potts sparse", _pair_case(potts(sparse, n, 3), n, 3, some)
    yield "ising dense", _pair_case(ising(dense, n), n, 2, full)
    yield "ising sparse", _pair_case(ising(sparse, n), n, 2, some)
    sizes = (2, 3, 1, 4)
    scopes = [(0,), (1, 0), (3, 1, 0), (2, 3), (0, 1, 2, 3), (3,)]
    tables = [rng.random([sizes[i] for i in scope]) for scope in scopes[:-1]] + [np.zeros(4)]
    graph = factor_graph(sizes, scopes, tables)
    factors = [
        (scope, lambda *values, t=table: t[values], table.max())
        for scope, table in zip(scopes, tables, strict=True)
    ]
    yield "tables", Case(graph, sizes, factors)
    yield "edge tables, even n", _edge_case(6, 4, 1.5, 0.4, 7)
    yield "edge tables, odd n", _edge_case(5, 3, 0.8, 0.0, 123_456)
    yield "edge tables, agreement alone", _edge_case(5, 3, 0.8, 1.0, 0)


CASES = dict(cases())


@outer_jit
def local_energies(graph, i, x, energies):
    contract.local_energies(graph, i, x, energies)


@outer_jit
def energy_change(graph, i, x, u):
    return contract.energy_change(graph, i, x, u)


@outer_jit
def total_energy(graph, x):
    return contract.total_energy(graph, x)


@outer_jit
def factor_share(graph, f, x, i, u):
    return contract.factor_share(graph, f, x, i, u)


@outer_jit
def current_share(graph, i, r, x):
    return contract.current_share(graph, i, r, x)


@outer_jit
def add_share(graph, i, r, x, amount, energies):
    contract.add_share(graph, i, r, x, amount, energies)


@outer_jit
def add_log_share(graph, i, r, x, boost, top, energies):
    contract.add_log_share(graph, i, r, x, boost, top, energies)


def _value(factor, x):
    scope, function, _ = factor
    return function(*(x[i] for i in scope))


def _energy(case, x):
    return sum(_value(factor, x) for factor in case.factors)


def _positions(case, count=20):
    rng = np.random.default_rng(2)
    for _ in range(count):
        yield np.array([rng.integers(size) for size in case.sizes], np.int32)


def _with(x, i, u):
    y = x.copy()
    y[i] = u
    return y


@pytest.mark.thorough
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_energies_are_sums_of_factors(case):
    energies = np.full(max(case.sizes), np.nan)
    for x in _positions(case):
        assert total_energy(case.graph, x) == pytest.approx(_energy(case, x), abs=1e-13)
        for i, size in enumerate(case.sizes):
            local_energies(case.graph, i, x, energies)
            for u in range(size):
                y = _with(x, i, u)
                own = sum(_value(factor, y) for factor in case.factors if i in factor[0])
                assert energies[u] == pytest.approx(own, abs=1e-13)
                change = _energy(case, y) - _energy(case, x)
                assert energy_change(case.graph, i, x, u) == pytest.approx(change, abs=1e-13)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_shares_of_numbered_factors(case):
    for x in _positions(case, 5):
        for f, factor in enumerate(case.factors):
            mass = factor[2]
            assert factor_share(case.graph, f, x, -1, 0) * mass == pytest.approx(_value(factor, x))
            for i, size in enumerate(case.sizes):
                for u in range(size):
                    value = _value(factor, _with(x, i, u))
                    assert factor_share(case.graph, f, x, i, u) * mass == pytest.approx(value)


@pytest.mark.thorough
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_rows_add_up_to_local_energies(case):
    bounds = case.graph.bounds
    for x in _positions(case, 5):
        for i, size in enumerate(case.sizes):
            masses = _row_masses(case, i)
            assert len(masses) == bounds.degree[i]
            wanted, summed = np.zeros(size), np.zeros(size)
            local_energies(case.graph, i, x, wanted)
            current = 0.0
            for r, mass in enumerate(masses):
                add_share(case.graph, i, r, x, mass, summed)
                current += mass * current_share(case.graph, i, r, x)
                one, log = np.zeros(size), np.zeros(size)
                add_share(case.graph, i, r, x, 1.0, one)
                add_log_share(case.graph, i, r, x, 0.7, np.log1p(0.7), log)
                one -= one.min() if one.min() < 0.0 else 0.0
                np.testing.assert_allclose(log - log[0], np.log1p(0.7 * one) - np.log1p(0.7 * one[0]))
            np.testing.assert_allclose(summed - summed[0], wanted - wanted[0], atol=1e-13)
            assert current == pytest.approx(wanted[x[i]], abs=1e-13)


def _row_masses(case, i):
    first, masses = contract.rows(case.graph)
    return masses[first[i] : first[i + 1]]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_bounds(case):
    bounds = case.graph.bounds
    for i in range(len(case.sizes)):
        own = [factor[2] for factor in case.factors if i in factor[0]]
        assert bounds.local[i] == pytest.approx(sum(own))
        assert bounds.degree[i] == len(own)
    assert bounds.largest_local == max(bounds.local)
    assert bounds.total == pytest.approx(sum(factor[2] for factor in case.factors))
    assert bounds.n_values == max(case.sizes)
    np.testing.assert_allclose(contract.factor_masses(case.graph), [factor[2] for factor in case.factors])


def test_constants_of_the_papers_models():
    kernel = gaussian_kernel(20, 1.5)
    spins, colours = ising(dense_pairs(2.0 * kernel), 400), potts(dense_pairs(4.6 * kernel), 400, 10)
    assert round(spins.bounds.largest_local, 4) == 2.2121
    assert round(spins.bounds.total, 2) == 416.14
    assert round(colours.bounds.largest_local, 4) == 5.0878
    assert round(colours.bounds.total, 2) == 957.13
    assert spins.bounds.largest_degree == colours.bounds.largest_degree == 399
    assert kernel[0, 1] == kernel[0, 20] == np.exp(-1.5)
    edges = grid_edges(20)
    assert edges.shape == (760, 2)
    assert np.all(kernel[edges[:, 0], edges[:, 1]] == np.exp(-1.5))


@pytest.mark.thorough
def test_edge_tables_of_many_variables_need_no_memory_and_their_values_are_as_by_chance():
    graph = edge_tables(50_000, 10, 1.0, 0.0, 3)
    first, masses = contract.rows(graph)
    assert masses.nbytes > 1e10
    assert masses.strides == (0,)
    assert isinstance(alias_rows(first, masses), Even)
    x, rng = np.zeros(50_000, np.int32), np.random.default_rng(5)
    edges = rng.integers(graph.n * (graph.n - 1) // 2, size=4000)
    ends = [(f % graph.n, (f % graph.n + f // graph.n + 1) % graph.n) for f in edges.tolist()]
    shares = [
        [factor_share(graph, f, x, a, u) for u in range(10)]
        for f, (a, _) in zip(edges.tolist(), ends, strict=True)
    ]
    # 16 bits: steps of 2e-5; Kolmogorov's distance of 40,000 uniforms is below 0.0098 but once in 1,000
    assert stats.kstest(np.ravel(shares), "uniform").pvalue > 1e-3
    correlations = np.corrcoef(np.array(shares).T)[np.triu_indices(10, 1)]
    assert np.abs(correlations).max() < 4.5 / np.sqrt(len(edges))


def test_random_factors_have_the_constants_they_are_asked_for():
    config = RandomFactors(n_variables=12, width=3, degree=40, n_values=4, local=1.7, agreement=0.3)
    graph = bind(None, random_factors.load(config))
    bounds = graph.bounds
    np.testing.assert_allclose(bounds.local, 1.7)
    assert bounds.total == pytest.approx(12 * 1.7 / 3)
    assert np.all(bounds.degree == 40)
    x, rng = np.zeros(12, np.int32), np.random.default_rng(0)
    for _ in range(5):
        x[:] = rng.integers(4, size=12)
        shifted = ((x + 1) % 4).astype(np.int32)
        assert total_energy(graph, shifted) == pytest.approx(total_energy(graph, x))
    assert total_energy(graph, x * 0) > total_energy(graph, x)
    again = random_factors.load(config)
    np.testing.assert_array_equal(again.scopes, random_factors.load(config).scopes)
    assert all(len(set(scope)) == 3 for scope in again.scopes.tolist())


def test_bad_factors_are_named():
    good = np.ones((2, 2))
    with pytest.raises(DataError, match="factor 1: its energies run from -1 to 1;"):
        factor_graph([2, 2], [(0, 1), (0, 1)], [good, good - 2 * np.eye(2)])
    with pytest.raises(DataError, match="factor 0"):
        factor_graph([2, 2], [(0, 1)], [good * np.nan])
    with pytest.raises(DataError, match="factor 0: there is no variable 2"):
        factor_graph([2, 2], [(0, 2)], [good])
    with pytest.raises(DataError, match="factor 0: variable twice"):
        factor_graph([2, 2], [(1, 1)], [good])
    with pytest.raises(DataError, match=r"factor 0: its table has shape \(2, 2\); its scope wants \(2, 3\)"):
        factor_graph([2, 3], [(0, 1)], [good])


def test_variables_without_factors_and_without_choice_are_legal():
    graph = factor_graph([3, 1], [(1,)], [np.array([2.0])])
    assert graph.bounds.degree.tolist() == [0, 1]
    energies = np.full(3, np.nan)
    local_energies(graph, 0, np.zeros(2, np.int32), energies)
    assert energies.tolist() == [0.0, 0.0, 0.0]
