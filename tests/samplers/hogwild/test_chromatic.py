"""Colours, and Chromatic Gibbs by enumeration: exact, where drawing all variables at once is not."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from flyrun.experiments.data.lattice import lattice_edges
from flyrun.experiments.models.graphs import planar
from flyrun.experiments.models.graphs.ising import ising
from flyrun.experiments.models.graphs.pair_factors import sparse_pairs
from flyrun.experiments.models.graphs.potts import potts
from flyrun.experiments.samplers.hogwild import chromatic
from flyrun.experiments.samplers.hogwild.chromatic import classes
from flyrun.ground.errors import ConfigError
from flyrun.ground.numerics.counters import uniform
from tests.exactness.enumeration import outcomes
from tests.exactness.planted import Planted
from tests.exactness.small_graphs import interpret
from tests.samplers.hogwild.arms import method, same, steps

LATTICE = ("dataset=lattice", "model=ising", "sampler=chromatic", "model.beta=0.3")
EDGES = lattice_edges(2, 3)
STATES = [np.array(state, np.int32) for state in itertools.product(range(2), repeat=6)]
BETAS = np.linspace(0.1, 0.5, len(EDGES))


def graph(rows, columns, beta=0.3):
    edges = lattice_edges(rows, columns)
    return ising(sparse_pairs(rows * columns, edges, np.full(len(edges), 2 * beta)), rows * columns)


def small():
    return ising(sparse_pairs(6, EDGES, 2.0 * BETAS), 6)


def pi():
    spins = 2 * np.array(STATES) - 1
    weight = np.exp((spins[:, EDGES[:, 0]] * spins[:, EDGES[:, 1]]) @ BETAS)
    return weight / weight.sum()


def class_matrix(made, sites, at_once, monkeypatch):
    """(64, 64) of drawing these sites, by every outcome of the code that runs."""
    interpret(monkeypatch)
    matrix, room = np.zeros((64, 64)), (np.zeros(2), np.zeros(2))
    for row, start in enumerate(STATES):

        def run(paths, start=start):
            monkeypatch.setattr(chromatic, "uniform", lambda key, number: Planted(paths).random())
            x = start.copy()
            out = x.copy() if at_once else x
            chromatic.draw_sites(made, sites, x, out, 0, 0, *room)
            return out

        for probability, y in outcomes(run, 1):
            matrix[row, int(y @ (1 << np.arange(5, -1, -1)))] += probability
    return matrix


def test_a_sweep_leaves_pi_invariant(monkeypatch):
    made = small()
    found = [class_matrix(made, sites, False, monkeypatch) for sites in classes(made, 6)]
    assert len(found) == 2
    assert np.abs(pi() @ found[0] @ found[1] - pi()).max() < 1e-15
    assert np.abs(found[0].sum(axis=1) - 1).max() < 1e-14


@pytest.mark.thorough
def test_all_at_once_does_not(monkeypatch):
    matrix = class_matrix(small(), np.arange(6), True, monkeypatch)
    assert np.abs(pi() @ matrix - pi()).sum() > 0.04


def test_no_class_holds_neighbours():
    rng = np.random.default_rng(0)
    ends = np.unique(np.sort(rng.integers(0, 60, (200, 2)), axis=1), axis=0)
    ends = ends[ends[:, 0] != ends[:, 1]]
    found = classes(potts(sparse_pairs(60, ends, np.ones(len(ends))), 60, 3), 60)
    colour = np.empty(60, int)
    for number, sites in enumerate(found):
        colour[sites] = number
    assert (colour[ends[:, 0]] != colour[ends[:, 1]]).all()
    assert np.bincount(np.concatenate(found)).tolist() == [1] * 60
    assert len(found) <= np.bincount(ends.ravel()).max() + 1
    assert [len(one) for one in classes(graph(20, 20), 400)] == [200, 200]


@pytest.mark.thorough
def test_any_number_of_threads_draws_the_same_bits():
    words = (*LATTICE, "dataset.rows=7", "dataset.columns=9")
    one = steps(method(*words), 60)
    for threads in (2, 3):
        several = steps(method(*words, f"sampler.threads={threads}"), 60, cuts=(7, 31))
        assert same(one[0], several[0])
        assert np.array_equal(one[1]["theta"], several[1]["theta"])
    assert not np.array_equal(one[1]["theta"], steps(method(*words), 60, seed=1)[1]["theta"])


@pytest.mark.thorough
def test_pair_correlation_is_right_and_synchronously_zero():
    words = (*LATTICE, "dataset.rows=10", "dataset.columns=10")
    right = planar.pair_correlation(10, 10, 0.3)
    for more, expected in (((), right), (("sampler.at_once=all",), 0.0)):
        made = method(*words, *more)
        agreement = steps(made, 8_000)[1]["agreement"][200:]
        means = np.array([2 * part.mean() - 1 for part in np.array_split(agreement, 20)])
        assert abs(means.mean() - expected) < 3.5 * means.std() / 19**0.5  # a level of 1e-3
        assert made.facts().exact == (not more)
        assert made.facts().more["right_correlation"] == right


def test_the_right_correlation_is_that_of_enumeration():
    ends, spins = lattice_edges(3, 3), np.array(list(itertools.product([-1, 1], repeat=9)))
    pairs = (spins[:, ends[:, 0]] * spins[:, ends[:, 1]]).sum(axis=1)
    weight = np.exp(0.4 * pairs)
    assert planar.pair_correlation(3, 3, 0.4) == pytest.approx(weight @ pairs / weight.sum() / 12, abs=1e-13)
    other = SimpleNamespace(name="grid"), SimpleNamespace(name="ising")
    assert planar.of_lattice(*other) is None


def test_uniforms_by_number():
    drawn = np.array([uniform(np.uint64(5), np.uint64(number)) for number in range(20_000)])
    assert drawn.min() >= 0
    assert drawn.max() < 1
    assert abs(drawn.mean() - 0.5) < 3.5 * (1 / 12 / len(drawn)) ** 0.5
    assert abs(np.corrcoef(drawn[1:], drawn[:-1])[0, 1]) < 3.5 / len(drawn) ** 0.5
    assert uniform(np.uint64(5), np.uint64(1)) != uniform(np.uint64(6), np.uint64(1))


def test_a_graph_of_every_pair_is_refused():
    with pytest.raises(ConfigError, match=r"^sampler=chromatic: .* dataset=lattice$"):
        method("dataset=grid", "model=ising", "sampler=chromatic")
