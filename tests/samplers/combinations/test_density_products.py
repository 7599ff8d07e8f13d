"""Products of densities that are not Gaussian, of draws made here: what each rule can and cannot do.

Two modes: shards that are all ½N(−2, ½²) + ½N(2, ½²), whose product has its modes where they are, narrower. A
skewed law: shards Gamma(k), whose product is one again.
"""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from flyrun.experiments.samplers.combinations import partition_trees, weierstrass_rejection
from flyrun.experiments.samplers.combinations.kernel_product import (
    nonparametric,
    semiparametric,
    shards_of,
    walked,
)
from flyrun.experiments.samplers.combinations.rules import consensus, gaussian_product

J, T = 2, 4_000
IN_PAIRS = TREES, REJECTION = partition_trees.combine, weierstrass_rejection.combine
OPTIONS = SimpleNamespace(weights="full", trees=8, least=0.01, accepted=0.1, keep="rejection")


def combined(rule, draws, **options):
    return rule(draws, SimpleNamespace(**{**vars(OPTIONS), **options}), np.random.default_rng(1))


def cdf_of(log_density, low, high):
    at = np.linspace(low, high, 20_001)
    density = np.exp(log_density(at) - log_density(at).max())
    total = np.cumsum(density)
    return lambda x: np.interp(x, at, total / total[-1])


def ks(made, cdf):
    return stats.ks_1samp(made[:, 0], cdf).statistic


@pytest.fixture(scope="module")
def two_modes():
    rng = np.random.default_rng(0)
    draws = np.where(rng.random((J, T, 1)) < 0.5, -2.0, 2.0) + 0.5 * rng.standard_normal((J, T, 1))
    cdf = cdf_of(lambda x: J * np.logaddexp(-2 * (x - 2) ** 2, -2 * (x + 2) ** 2), -6, 6)
    return draws, cdf


@pytest.mark.parametrize(("rule", "most"), [(TREES, 0.06), (REJECTION, 0.06)])
def test_two_modes_are_found(two_modes, rule, most):
    draws, cdf = two_modes
    assert ks(combined(rule, draws), cdf) < most


@pytest.mark.parametrize("rule", [consensus, gaussian_product])
def test_averages_fall_between_two_modes(two_modes, rule):
    draws, cdf = two_modes
    assert ks(combined(rule, draws), cdf) > 0.2


def test_pairs_drawn_again_by_weights_are_as_good(two_modes, monkeypatch):
    draws, cdf = two_modes
    assert ks(combined(REJECTION, draws, keep="importance"), cdf) < 0.06
    monkeypatch.setattr(weierstrass_rejection, "bandwidth", lambda apart, accepted: 1e9)  # even weights
    assert ks(combined(REJECTION, draws, keep="importance"), cdf) > 0.1


def test_wide_kernels_smear_two_modes(two_modes):
    draws, cdf = two_modes
    assert ks(combined(REJECTION, draws, accepted=0.9), cdf) > 0.06


@pytest.mark.thorough
def test_the_chain_on_choices_stays_in_a_mode_of_many_shards():
    rng = np.random.default_rng(0)
    draws = np.where(rng.random((8, T, 1)) < 0.5, -2.0, 2.0) + 0.3 * rng.standard_normal((8, T, 1))
    made = combined(nonparametric, draws)[T // 2 :, 0]
    assert max(np.mean(made > 0), np.mean(made < 0)) > 0.99


@pytest.fixture(scope="module")
def skewed():
    """Shards Gamma(3), four of them: x^{2·4} e^{−4x}, Gamma(9)/4."""
    draws = np.random.default_rng(3).gamma(3.0, size=(4, T, 1))
    return draws, stats.gamma(9.0, scale=0.25)


@pytest.mark.thorough
def test_kernels_mend_the_product_of_gaussians_of_a_skewed_law(skewed):
    draws, right = skewed
    off = {
        rule: (combined(rule, draws).mean() - right.mean()) / right.std()
        for rule in (gaussian_product, semiparametric, nonparametric, *IN_PAIRS)
    }
    assert abs(off[gaussian_product]) > 0.9
    assert abs(off[semiparametric]) < 0.5 * abs(off[gaussian_product])
    assert abs(off[nonparametric]) < 0.3
    assert abs(off[TREES]) < 0.15
    assert abs(off[REJECTION]) < 0.15


def test_blocks_without_their_volume_are_wrong(skewed, monkeypatch):
    draws, right = skewed
    whole = partition_trees._Block.__init__
    monkeypatch.setattr(
        partition_trees._Block, "__init__", lambda self, inside, volume: whole(self, inside, 0.0)
    )
    assert abs(combined(TREES, draws).mean() - right.mean()) / right.std() > 0.3


@pytest.mark.thorough
@pytest.mark.parametrize("rule", [nonparametric, semiparametric, *IN_PAIRS])
def test_gaussian_shards_of_two_coordinates(rule):
    rng = np.random.default_rng(5)
    roots = np.array([[[1.0, 0.0], [0.8, 0.6]], [[0.7, 0.0], [-0.3, 0.9]]])
    means = np.array([[0.5, 0.0], [-0.2, 0.4]])
    draws = means[:, None] + rng.standard_normal((2, 5 * T, 2)) @ roots.transpose(0, 2, 1)
    precisions = np.linalg.inv(roots @ roots.transpose(0, 2, 1))
    covariance = np.linalg.inv(precisions.sum(axis=0))
    mean = covariance @ np.einsum("jpq,jq->p", precisions, means)
    made, sd = combined(rule, draws), np.sqrt(np.diag(covariance))
    by_chain = rule in (nonparametric, semiparametric)  # one that seldom moves: errors of 0.06
    assert np.abs((made.mean(axis=0) - mean) / sd).max() < (0.25 if by_chain else 0.1)
    wide: float | np.ndarray = 1.0
    if by_chain:  # every shard's covariance has h² more, in units of their mean
        every = np.linalg.inv(precisions)
        h = np.arange(1, 5 * T + 1)[:, None, None, None] ** (-1.0 / 6.0)
        smoothed = np.linalg.inv(np.linalg.inv(every + h**2 * every.mean(axis=0)).sum(axis=1)).mean(axis=0)
        wide = np.sqrt(np.diag(smoothed)) / sd
    np.testing.assert_allclose(made.std(axis=0) / sd, wide, atol=0.1)


@pytest.fixture(scope="module")
def unlike_gaussians():
    """Two Gaussians of 51 coordinates that are unlike in shape: draws, and the moments of their product."""
    rng = np.random.default_rng(4)
    roots, means = rng.standard_normal((2, 51, 51)), rng.standard_normal((2, 51))
    draws = means[:, None] + rng.standard_normal((2, T, 51)) @ roots.transpose(0, 2, 1)
    precisions = np.linalg.inv(roots @ roots.transpose(0, 2, 1))
    covariance = np.linalg.inv(precisions.sum(axis=0))
    return draws, covariance @ np.einsum("jpq,jq->p", precisions, means), np.sqrt(np.diag(covariance))


def test_rejection_is_right_of_gaussians_in_many_dimensions(unlike_gaussians):
    draws, mean, sd = unlike_gaussians
    made = combined(REJECTION, draws)
    assert np.abs((made.mean(axis=0) - mean) / sd).max() < 0.15
    np.testing.assert_allclose(made.std(axis=0) / sd, 1.0, atol=0.08)


def test_rejection_with_even_weights_is_wrong_there(unlike_gaussians, monkeypatch):
    draws, mean, sd = unlike_gaussians
    even = np.stack([np.cov(draws.reshape(-1, 51).T)] * 2)
    monkeypatch.setattr(weierstrass_rejection, "covariances", lambda _: even)
    assert np.abs((combined(REJECTION, draws).mean(axis=0) - mean) / sd).max() > 0.5


@pytest.mark.parametrize("accepted", [0.01, 0.1, 0.5])
def test_kernels_are_as_wide_as_the_share_says(accepted):
    apart = np.random.default_rng(0).chisquare(8, size=5_000)
    kept = np.exp(-0.5 * apart / weierstrass_rejection.bandwidth(apart, accepted)).mean()
    assert kept == pytest.approx(accepted, rel=1e-6)


@pytest.mark.thorough
def test_the_share_of_choices_accepted_falls_with_dimension():
    rng = np.random.default_rng(0)
    shares = [walked(shards_of(rng.standard_normal((4, 500, p)), False), rng)[1] for p in (1, 10, 40)]
    assert shares[0] > 3 * shares[1] > 9 * shares[2]
