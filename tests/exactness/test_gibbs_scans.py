"""Scans: a whole sweep, followed through every random choice, leaves π invariant, or is seen not to."""

import numpy as np
import pytest

from flyrun.experiments.samplers.gibbs.gibbs import Gibbs
from flyrun.experiments.samplers.gibbs.gibbs import build as gibbs
from flyrun.experiments.samplers.gibbs.local_minibatch import local_minibatch
from flyrun.experiments.samplers.gibbs.loop import (
    SCANS,
    empty_sweeps,
    no_marginals,
    permute,
    run_sweeps,
    scan_of,
)
from flyrun.experiments.samplers.gibbs.single_site import resample_site
from flyrun.ground.numerics.compiled import implements
from tests.exactness.enumeration import outcomes
from tests.exactness.planted import Planted
from tests.exactness.small_graphs import GRAPHS, STATES, interpret, number, stationary, transition_matrix


def _sweep_matrix(kernel, graph, kind):
    """(27, 27): the transition matrix of a sweep, by the program's own loop."""
    matrix = np.zeros((27, 27))

    def run(rng, start):
        x, clock = start.copy(), np.zeros(1, np.int64)
        chain = Planted(rng), graph, kernel, x, no_marginals(3, 3), clock
        run_sweeps(*chain, empty_sweeps(1, 3), scan_of(3, kind))
        return number(x)

    for row, start in enumerate(STATES):
        for probability, place in outcomes(lambda rng, start=start: run(rng, start), most=0):
            matrix[row, place] += probability
    return matrix


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("kind", SCANS)
def test_every_scan_leaves_pi_invariant(kind, monkeypatch):
    interpret(monkeypatch)
    graph = GRAPHS["general"]
    pi, kernel = stationary(graph), gibbs(None, graph)
    matrix = _sweep_matrix(kernel, graph, kind)
    np.testing.assert_allclose(matrix.sum(axis=1), 1.0, atol=1e-14)
    np.testing.assert_allclose(pi @ matrix, pi, atol=1e-15)
    flow = pi[:, None] * matrix
    # balance in detail holds for evenly drawn variables and for orders as likely as their reverses
    assert (np.abs(flow - flow.T).max() < 1e-15) == (kind != "systematic")
    if kind == "random":
        once, _ = transition_matrix(kernel, graph, most=0)
        np.testing.assert_allclose(matrix, np.linalg.matrix_power(once, 3), atol=1e-15)


class Unchanged(Gibbs):
    """Broken: variable i is only drawn anew where the one before it has the value 0."""


@implements(resample_site, Unchanged)
def _unchanged(kernel, rng, graph, x, i):
    return resample_site.methods[Gibbs](kernel, rng, graph, x, i) if x[i - 1] == 0 or x[i] == 0 else 0.0


def test_negative_control_an_order_that_depends_on_the_state(monkeypatch):
    interpret(monkeypatch)
    graph = GRAPHS["general"]
    pi = stationary(graph)
    for kind in SCANS[1:]:
        matrix = _sweep_matrix(Unchanged(*gibbs(None, graph)), graph, kind)
        assert np.abs(pi @ matrix - pi).sum() > 0.05


@pytest.mark.thorough
def test_a_systematic_scan_does_not_mend_a_biased_update(monkeypatch):
    interpret(monkeypatch)
    graph = GRAPHS["two-valued"]
    matrix = _sweep_matrix(local_minibatch(graph, 1), graph, "systematic")
    pi = stationary(graph)
    assert np.abs(pi @ matrix - pi).sum() > 0.005


def test_permutations_are_uniform_whatever_the_array_holds(monkeypatch):
    interpret(monkeypatch)
    seen: dict[tuple[int, ...], float] = {}

    def run(rng):
        order = np.array([2, 2, 0, 1])
        permute(Planted(rng), order)
        return tuple(order)

    for probability, order in outcomes(run, most=0):
        seen[order] = seen.get(order, 0.0) + probability
    assert len(seen) == 24
    np.testing.assert_allclose(list(seen.values()), 1 / 24)
