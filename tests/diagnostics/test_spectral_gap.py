"""Gaps of MGPMH and Poisson-Gibbs beside their bounds: the recalled bound fails, the derived one holds."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flyrun.experiments.report.illustrations.mgpmh_gap import gap_ratio, mgpmh_bound, recalled_mgpmh_bound
from tools.theorems import spectral_gap
from tools.theorems.spectral_gap import SmallGraph, gap

PAIR = SmallGraph(2, 2, [((0, 1), np.eye(2))])


@pytest.mark.parametrize(("batch", "expected", "recalled"), [(16, 0.9049, 0.9394), (64, 0.9511, 0.9845)])
def test_the_recalled_bound_fails_on_two_binary_variables(batch, expected, recalled):
    matrix = spectral_gap.mgpmh(PAIR, batch)
    ratio = gap(matrix, PAIR.stationary) / gap(spectral_gap.gibbs(PAIR), PAIR.stationary)
    assert ratio == pytest.approx(expected, abs=5e-5)
    assert ratio == pytest.approx(gap_ratio(batch), abs=1e-9)
    assert recalled_mgpmh_bound(1.0, batch) == pytest.approx(recalled, abs=5e-5)
    assert ratio < recalled_mgpmh_bound(1.0, batch)
    assert ratio > mgpmh_bound(1.0, batch)


def test_the_loss_by_rejection_is_of_first_order_in_the_noise():
    for batch in (1e3, 1e4):
        loss = 1.0 - gap_ratio(batch)
        assert loss == pytest.approx(math.sqrt(1.0 / (2.0 * math.pi * batch)), rel=0.1)


@pytest.mark.thorough
@settings(max_examples=15)
@given(st.integers(0, 10_000), st.floats(0.05, 1.5), st.floats(2.0, 6.0))
def test_the_derived_bound_holds_for_every_transition(seed, strength, factor):
    rng = np.random.default_rng(seed)
    graph = SmallGraph(2, 3, [((0, 1), strength * rng.random((3, 3))), ((0,), strength * rng.random(3))])
    batch = factor * graph.largest_local
    gibbs, matrix = spectral_gap.gibbs(graph), spectral_gap.mgpmh(graph, batch)
    bound = mgpmh_bound(graph.largest_local, batch)
    moves = ~np.eye(9, dtype=bool) & (gibbs > 0.0)
    assert (matrix[moves] / gibbs[moves]).min() >= bound - 1e-9
    assert gap(matrix, graph.stationary) >= bound * gap(gibbs, graph.stationary) - 1e-9


def test_matrices_are_reversible_for_pi():
    rng = np.random.default_rng(0)
    graph = SmallGraph(2, 3, [((0, 1), rng.random((3, 3))), ((1,), rng.random(3))])
    for matrix in (
        spectral_gap.gibbs(graph),
        spectral_gap.mgpmh(graph, 2.0),
        spectral_gap.poisson_gibbs(graph, 2.0),
    ):
        np.testing.assert_allclose(matrix.sum(axis=1), 1.0, atol=1e-10)
        flow = graph.stationary[:, None] * matrix
        np.testing.assert_allclose(flow, flow.T, atol=1e-10)
        assert 0.0 < gap(matrix, graph.stationary) <= 1.0


def test_larger_batches_bring_every_sampler_to_gibbs():
    graph = SmallGraph(2, 2, [((0, 1), np.array([[0.9, 0.0], [0.2, 0.5]]))])
    plain = gap(spectral_gap.gibbs(graph), graph.stationary)
    for sampler in (spectral_gap.mgpmh, spectral_gap.poisson_gibbs):
        ratios = [gap(sampler(graph, batch), graph.stationary) / plain for batch in (2.0, 8.0, 128.0)]
        assert ratios == sorted(ratios)
        assert 0.95 < ratios[-1] < 1.0


def test_nothing_is_claimed_below_twice_l():
    assert mgpmh_bound(1.0, 1.9) == 0.0
    assert mgpmh_bound(1.0, 1e6) == pytest.approx(1.0, abs=2e-3)
