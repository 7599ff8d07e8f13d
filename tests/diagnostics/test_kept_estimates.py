"""MIN-Gibbs and DoubleMIN-Gibbs over (x, estimate): reversible, x ~ π, faster with larger batches."""

import numpy as np
import pytest

from tools.theorems import kept_estimates, spectral_gap
from tools.theorems.kept_estimates import gap_for_positions, joint, of_positions, poisson_sums
from tools.theorems.spectral_gap import SmallGraph, gap

PAIR = SmallGraph(2, 2, [((0, 1), np.eye(2)), ((0,), np.array([0.0, 0.5]))])
THREE = SmallGraph(2, 3, [((0, 1), 0.6 * np.eye(3))])
CHAINS = {
    "min": kept_estimates.min_gibbs,
    "double": lambda graph, laws: kept_estimates.double_min(graph, 4.0, laws),
}


@pytest.mark.parametrize("graph", [PAIR, THREE], ids=["pair", "three"])
@pytest.mark.parametrize("make", CHAINS.values(), ids=CHAINS)
def test_reversible_and_marginally_pi(make, graph):
    laws = poisson_sums(graph, 1.0)
    matrix, law = make(graph, laws), joint(laws)
    seen = law > 1e-9
    np.testing.assert_allclose(matrix.sum(axis=1), 1.0, atol=1e-8)
    flow = law[:, None] * matrix
    np.testing.assert_allclose(flow, flow.T, atol=1e-12)
    assert seen.sum() > 20
    np.testing.assert_allclose(of_positions(law, laws), graph.stationary, atol=1e-9)


def test_gap_for_positions_is_the_gap_where_nothing_is_kept():
    for graph in (PAIR, THREE):
        matrix = spectral_gap.gibbs(graph)
        felt = gap_for_positions(matrix, [(np.ones(1), np.array([one])) for one in graph.energy])
        assert felt == pytest.approx(gap(matrix, graph.stationary))


def test_larger_batches_bring_min_to_gibbs_and_double_to_mgpmh():
    gibbs = gap(spectral_gap.gibbs(PAIR), PAIR.stationary)
    mgpmh = gap(spectral_gap.mgpmh(PAIR, 4.0), PAIR.stationary)
    for make, plain, exponent in ((CHAINS["min"], gibbs, 6.0), (CHAINS["double"], mgpmh, 4.0)):
        laws = [poisson_sums(PAIR, batch) for batch in (1.0, 8.0, 64.0)]
        ratios = [gap_for_positions(make(PAIR, one), one) / plain for one in laws]
        assert ratios == sorted(ratios)
        assert ratios[-1] < 1.0 + 1e-9
        assert ratios[-1] > 0.9, ratios
        for ratio, batch in zip(ratios, (1.0, 8.0, 64.0), strict=True):
            assert ratio > kept_estimates.estimate_bound(PAIR.total, batch, exponent)
