"""Graphs of 3 variables × 3 states with unequal factors, their π, samplers' transition matrices on them."""

import itertools
import sys

import numpy as np

from flyrun.experiments.models.graphs import graph as contract
from flyrun.experiments.models.graphs.edge_tables import edge_tables
from flyrun.experiments.models.graphs.factor_graph import factor_graph
from flyrun.experiments.models.graphs.pair_factors import dense_pairs, sparse_pairs
from flyrun.experiments.models.graphs.potts import potts
from flyrun.experiments.samplers.gibbs import single_site as site
from flyrun.ground.numerics import alias
from flyrun.ground.numerics.compiled import outer_jit
from tests.exactness.enumeration import interpreted, outcomes
from tests.exactness.planted import Planted

STATES = [np.array(state, np.int32) for state in itertools.product(range(3), repeat=3)]
WEIGHTS = np.array([[0.0, 0.7, 0.3], [0.7, 0.0, 0.4], [0.3, 0.4, 0.0]])
REPELLING = WEIGHTS * np.array([[0.0, 1.0, -1.0], [1.0, 0.0, 1.0], [-1.0, 1.0, 0.0]])


def _tables(strength):
    rng = np.random.default_rng(3)
    scopes, scales = [(0, 1), (2, 1), (1, 0, 2)], (0.5, 0.3, 0.4)
    tables = [scale * rng.random((3,) * len(scope)) for scale, scope in zip(scales, scopes, strict=True)]
    return factor_graph([3, 3, 3], scopes, [strength * table for table in tables])


def graphs(strength):
    """A dense and a sparse pair model, one of tables and one of edge tables, energies times `strength`."""
    ends, repelling = np.argwhere(np.triu(WEIGHTS)), REPELLING[np.triu(WEIGHTS) > 0]
    return {
        "two-valued": potts(dense_pairs(strength * WEIGHTS), 3, 3),
        "repelling": potts(sparse_pairs(3, ends, strength * repelling), 3, 3),
        "general": _tables(strength),
        "edges": edge_tables(3, 3, 0.9 * strength, 0.3, 4),
    }


GRAPHS = graphs(1.0)


@outer_jit
def _total_energy(graph, x):
    return contract.total_energy(graph, x)


def energies(graph):
    """(27,): ζ of every state."""
    return np.array([_total_energy(graph, x) for x in STATES])


def stationary(graph):
    """(27,): π."""
    pi = np.exp(energies(graph))
    return pi / pi.sum()


def number(x) -> int:
    """The place of a state in STATES."""
    return int(9 * x[0] + 3 * x[1] + x[2])


def interpret(monkeypatch) -> None:
    """Let the samplers' and this test's compiled functions run as plain Python, so that draws may be symbols.

    Picks from rows become one branch per place, by the place's probability.
    """
    monkeypatch.setitem(alias.pick.methods, alias.Alias, _planted_pick)
    monkeypatch.setitem(alias.pick.methods, alias.Even, _planted_even_pick)
    for name, module in list(sys.modules.items()):
        if name.startswith(("flyrun.experiments.samplers.", "tests.exactness.")):
            for key, value in list(vars(module).items()):
                if key == "poisson_count" and callable(value):
                    monkeypatch.setattr(module, key, _planted_count)
                elif hasattr(value, "py_func") and key != "_total_energy":
                    monkeypatch.setattr(module, key, interpreted(value))


def pick_probabilities(table, row):
    """The probabilities that an alias table stands for."""
    start, end = table.first[row : row + 2]
    chances = table.share[start:end].copy()
    np.add.at(chances, table.other[start:end], 1.0 - table.share[start:end])
    return (chances / (end - start)).tolist()


def _planted_count(rng, mean):
    return rng.poisson(mean)


def _planted_pick(table, rng, row):
    return rng.pick(pick_probabilities(table, row))


def _planted_even_pick(table, rng, row):
    size = int(table.first[row + 1] - table.first[row])
    return rng.pick([1.0 / size] * size)


def one_site(kernel, graph, rng, x, i):
    """Run the kernel's own code, interpreted; the state after it."""
    y = x.copy()
    site.resample_site.methods[type(kernel)](kernel, Planted(rng), graph, y, i)
    return y


def transition_matrix(kernel, graph, most):
    """(27, 27) of one update at a variable drawn evenly, and the largest probability left out of a row."""
    matrix = np.zeros((27, 27))
    for row, x in enumerate(STATES):
        for i in range(3):
            for probability, y in outcomes(lambda rng, x=x, i=i: one_site(kernel, graph, rng, x, i), most):
                matrix[row, number(y)] += probability / 3.0
    return matrix, float(1.0 - matrix.sum(axis=1).min())
