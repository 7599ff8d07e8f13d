"""Figures of what errors are made of: moments against direct sums, and a bias that stays where one should."""

import numpy as np
import pytest

from flyrun.experiments.report.illustrations import error_regimes, stopping_rule
from flyrun.experiments.report.illustrations.error_regimes import GRID, TARGET
from flyrun.ground.page.figures import faults


def test_moments_of_averages_are_those_of_direct_sums():
    matrix, n = error_regimes.exact(), 8
    law, laws, powers = np.eye(len(GRID))[GRID.searchsorted(-6.0)], [], [np.eye(len(GRID))]
    for _ in range(n):
        law, powers = law @ matrix, [*powers, powers[-1] @ matrix]
        laws.append(law)
    both = [
        [(laws[min(i, j)] * GRID) @ powers[abs(i - j)] @ GRID for j in range(n)] for i in range(n)
    ]  # E X_i X_j
    steps = error_regimes.doubled(matrix, 4)
    for kept, used in (("all", slice(0, n)), ("last half", slice(n // 2, n)), ("last draw", slice(n - 1, n))):
        mean = np.mean([one @ GRID for one in laws[used]])
        found = error_regimes.errors(steps, kept)
        assert found.bias[-1] == pytest.approx((mean - TARGET @ GRID) ** 2, rel=1e-9)
        assert found.variance[-1] == pytest.approx(np.array(both)[used, used].mean() - mean**2, rel=1e-9)


def test_a_bias_stays_of_the_approximate_chain_alone():
    exact, other = (
        error_regimes.errors(error_regimes.doubled(make(), 18), "last half")
        for make in (error_regimes.exact, error_regimes.approximate)
    )
    assert exact.bias[-1] < 1e-12
    assert other.bias[-1] == pytest.approx(other.bias[-3], rel=1e-3)
    assert other.bias[-1] > 10 * other.variance[-1]
    np.testing.assert_allclose(TARGET @ error_regimes.exact(), TARGET, atol=1e-15)


def test_reading_stops_where_the_threshold_leaves_the_interval():
    m, mean, reach = np.array(stopping_rule.rounds()).T
    outside = np.abs(mean - stopping_rule.THRESHOLD) > reach
    assert outside.argmax() > 2  # some rounds are not sure
    assert m[outside.argmax()] < 0.1 * m[-1] == 0.1 * stopping_rule.N_DATA
    assert (np.abs(mean - mean[-1]) < reach).all()


@pytest.mark.figures
@pytest.mark.parametrize("module", [error_regimes, stopping_rule])
def test_they_show_data_and_few_lines(module):
    for plot in module.FIGURES.values():
        assert faults(plot(None, None)) == []
