"""Distances from a posterior: their known values, and what each cannot see."""

import numpy as np
import pytest
from scipy import stats

from flyrun.ground.diagnostics.distances import coverage, ksd, quantiles, stein_terms, w1
from flyrun.ground.diagnostics.psis import pareto_k


def _normal(seed, n=1000, d=10, scale=1.0):
    return scale * np.random.default_rng(seed).standard_normal((n, d))


@pytest.mark.thorough
def test_u_tells_a_narrow_sample_and_v_ranks_it_above_an_exact_one():
    exact = [_normal(seed, 500, 40) for seed in range(12)]
    narrow = [_normal(seed, 500, 40, 0.9) for seed in range(12, 24)]
    u = [[ksd(x, -x, np.eye(40)) for x in xs] for xs in (exact, narrow)]
    v = [[stein_terms(x, -x, np.eye(40)).mean() for x in xs] for xs in (exact, narrow)]
    assert abs(np.mean(u[0])) < 3 * np.std(u[0]) / np.sqrt(12)
    assert stats.ttest_ind(u[1], u[0], alternative="greater").pvalue < 1e-3
    assert stats.ttest_ind(v[1], v[0], alternative="less").pvalue < 1e-3


def test_ksd_whitens():
    root = np.array([[2.0, 0.0], [1.0, 0.5]])
    white = _normal(0, 300, 2)
    theta = np.linalg.solve(root.T, white.T).T  # precision root·rootᵀ
    assert ksd(theta, -(theta @ root) @ root.T, root) == pytest.approx(
        ksd(white, -white, np.eye(2)), rel=1e-9
    )


@pytest.mark.parametrize("k", [0.2, 0.5, 0.9])
def test_pareto_k_of_pareto_weights(k):
    """ArviZ's psislw takes negated log weights: given the others it says nonsense without a word."""
    log_weight = np.log(stats.genpareto(k).rvs(20_000, random_state=1))
    assert pareto_k(log_weight) == pytest.approx(k, abs=0.12)
    assert k > 0.5 or abs(pareto_k(-log_weight) - k) > 0.3
    assert np.isfinite(pareto_k(log_weight[:30]))
    assert np.isnan(pareto_k(log_weight[:29]))


def test_equal_weights_have_no_tail():
    assert np.isnan(pareto_k(np.zeros(100)))


def test_w1_of_a_shift_is_the_shift():
    truth = _normal(0, 4000, 2) * [1.0, 3.0]
    shifted = truth + np.array([0.5, 1.5])
    np.testing.assert_allclose(w1(shifted, truth), 0.5 / truth.std(axis=0) * [1, 3], rtol=1e-9)


def test_quantiles_and_coverage_of_weighted_draws():
    theta = _normal(1, 200_000, 1, scale=1.5)
    weight = np.exp(-0.5 * theta[:, 0] ** 2 * (1 - 1 / 1.5**2))
    found = quantiles(theta, (0.05, 0.5, 0.95), weight)[:, 0]
    np.testing.assert_allclose(found, stats.norm.ppf([0.05, 0.5, 0.95]), atol=0.02)
    assert coverage(found[:1], found[2:], _normal(2, 100_000, 1))[0] == pytest.approx(0.9, abs=0.005)


@pytest.mark.parametrize("n", [30, 200, 226, 5000])
def test_pareto_k_is_arvizs(n):
    from arviz_stats.base import array_stats

    rng = np.random.default_rng(n)
    for log_weight in (
        rng.normal(size=n),
        3 * rng.standard_t(3, n),
        rng.exponential(2.0, n),
        1e-9 * rng.normal(size=n),
    ):
        theirs = float(array_stats.psislw(-log_weight)[1])
        assert pareto_k(log_weight) == pytest.approx(theirs, rel=1e-9, nan_ok=True)
    assert np.isnan(pareto_k(np.zeros(n)))
