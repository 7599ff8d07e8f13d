"""Rules against what is right of Gaussian shards in closed form; what is wrong fails by as much as it should.

Shards N(μ_j, C_j) unlike each other, under a prior that tells: f_j has 1/J of it. Errors are in sds of the
product, of REPEATS sets of draws; those of their mean by chance are told by their spread.
"""

import functools
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import softmax

from flyrun.experiments.samplers.combinations import moments, variational_consensus
from flyrun.experiments.samplers.combinations.rules import (
    barycentre,
    consensus,
    gaussian_product,
    median_posterior,
    median_weights,
    pie,
    swiss,
    wasp,
)
from flyrun.ground.errors import FlyrunError

D, J, T, REPEATS = 5, 8, 4_000, 12
BEYOND = 6.0  # of t on REPEATS - 1 degrees: the largest of D is, once in 2,000 times


class Shards(NamedTuple):
    draws: np.ndarray
    mean: np.ndarray  # of the product
    covariance: np.ndarray

    def off(self, made):
        """In sds, (D,)."""
        return (made.mean(axis=0) - self.mean) / np.sqrt(np.diag(self.covariance))

    def by_right(self, made):
        return made.std(axis=0) / np.sqrt(np.diag(self.covariance))


def gaussian_shards(prior=20.0, of_each=1.0 / J, n_draws=T, seed=0):
    """Likelihoods of precision A_j about m_j, with the prior N(0, I/prior) to the power of_each in each."""
    rng = np.random.default_rng(7)
    roots = rng.standard_normal((J, D, D)) * rng.uniform(0.2, 2.0, (J, 1, D))
    likelihoods = roots @ roots.transpose(0, 2, 1) + 0.05 * np.eye(D)
    centres = 1.0 + rng.standard_normal((J, D)) * 0.7
    precisions = likelihoods + of_each * prior * np.eye(D)
    covariances = np.linalg.inv(precisions)
    pulls = np.einsum("jpq,jq->jp", likelihoods, centres)
    means = np.einsum("jpq,jq->jp", covariances, pulls)
    noise = np.random.default_rng(seed).standard_normal((J, n_draws, D))
    draws = means[:, None] + np.einsum("jpq,jtq->jtp", np.linalg.cholesky(covariances), noise)
    covariance = np.linalg.inv(likelihoods.sum(axis=0) + prior * np.eye(D))
    return Shards(draws, covariance @ pulls.sum(axis=0), covariance)


def combined(rule, shards, **options):
    return rule(shards.draws, SimpleNamespace(**options), np.random.default_rng(3))


def printed(draws, prior=20.0):
    """Algorithm 12 as it stands: the prior's precision added to the shards', which have it already."""
    inverses = np.linalg.inv(moments.covariances(draws))
    return np.einsum(
        "pq,jqr,jtr->tp", np.linalg.inv(inverses.sum(axis=0) + prior * np.eye(D)), inverses, draws
    )


@functools.cache
def repeats(of_each=1.0 / J):
    return [gaussian_shards(of_each=of_each, seed=seed) for seed in range(REPEATS)]


def z_and_off(made, several):
    """Of the mean error in its own standard errors, and in sds of the posterior, the largest of D each."""
    off = np.array([shards.off(draws) for draws, shards in zip(made, several, strict=True)])
    z = off.mean(axis=0) / (off.std(axis=0, ddof=1) / np.sqrt(REPEATS))
    return np.abs(z).max(), np.abs(off.mean(axis=0)).max()


@pytest.mark.parametrize("rule", [consensus, gaussian_product, swiss])
def test_of_gaussian_shards_the_product_is_found(rule):
    made = [combined(rule, shards, weights="full") for shards in repeats()]
    z, off = z_and_off(made, repeats())
    assert z < BEYOND
    assert off < 0.1
    np.testing.assert_allclose(repeats()[0].by_right(made[0]), 1.0, atol=0.06)


@pytest.mark.parametrize("weights", ["diagonal", "scalar", "uniform"])
def test_weights_that_leave_out_what_shards_differ_in_are_off(weights):
    z, off = z_and_off([combined(consensus, one, weights=weights) for one in repeats()], repeats())
    assert z > 10 * BEYOND
    assert off > 1.0


def test_algorithm_12_as_printed_counts_the_prior_twice():
    z, off = z_and_off([printed(one.draws) for one in repeats()], repeats())
    assert z > 10 * BEYOND
    assert off > 0.5


def test_the_whole_prior_in_every_shard_is_off():
    several = repeats(of_each=1.0)
    made = [combined(consensus, one, weights="full") for one in several]
    z, off = z_and_off(made, several)
    assert z > 10 * BEYOND
    assert off > 0.5
    assert several[0].by_right(made[0]).max() < 0.9


@pytest.mark.parametrize("n_draws", [20, 50, 200])
def test_few_draws_make_the_product_too_narrow_as_foreseen(n_draws):
    few = gaussian_shards(n_draws=n_draws)
    precision = moments.product(few.draws).precision
    ratio = np.exp(0.5 * np.mean(np.log(np.diag(np.linalg.inv(precision)) / np.diag(few.covariance))))
    assert ratio == pytest.approx(np.sqrt((n_draws - D - 2) / (n_draws - 1)), abs=0.08)


@pytest.mark.parametrize("shards", [1, 4, 16])
def test_a_gaussian_model_needs_as_many_draws_of_every_shard_as_of_all_data(shards):
    """Section 4.4: such a product "provides no computational advantage". Draws of J shards do not add up."""
    n_draws, rng = 50, np.random.default_rng(shards)
    made = [
        moments.product(np.sqrt(shards) * rng.standard_normal((shards, n_draws, 2))).mean
        for _ in range(2_000)
    ]
    squares = np.mean(np.square(made)) * n_draws  # in those of one chain's mean
    assert squares == pytest.approx(1.0, abs=0.12)
    assert shards == 1 or squares > 2.0 / shards  # twice what it was if draws added up


def test_too_few_draws_are_refused():
    with pytest.raises(FlyrunError, match=r"5 draws of a shard .* raise protocol.iterations"):
        moments.covariances(np.zeros((2, 5, D)))
    with pytest.raises(FlyrunError, match="shard 1 have not moved"):
        moments.covariances(np.stack([np.random.default_rng(0).standard_normal((90, D)), np.zeros((90, D))]))


def test_the_barycentre_is_right_where_it_is_known():
    scales = np.array([[1.0, 0.2], [4.0, 0.3], [9.0, 0.4]])
    turn, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((2, 2)))
    found = barycentre(np.array([turn @ np.diag(one) @ turn.T for one in scales]))
    right = turn @ np.diag(np.sqrt(scales).mean(axis=0) ** 2) @ turn.T
    np.testing.assert_allclose(found, right, atol=1e-10)


def test_barycentres_of_shards_that_are_as_wide_as_the_posterior():
    rng = np.random.default_rng(2)
    means, sds = rng.standard_normal((4, 2)), np.array([0.5, 1.0, 1.5, 2.0])
    draws = means[:, None] + sds[:, None, None] * rng.standard_normal((4, T, 2))
    for rule in (pie, wasp):
        made = rule(draws, None, rng)
        np.testing.assert_allclose(made.mean(axis=0), means.mean(axis=0), atol=4 * 1.25 / np.sqrt(T))
        np.testing.assert_allclose(made.std(axis=0), sds.mean(), rtol=0.03)


def test_variational_weights_are_the_bounds():
    """Of independent Gaussians, whose bound is in closed form; without the entropy's part they are not."""
    variance, mean = (
        np.array([[1.0, 4.0], [2.0, 1.0], [5.0, 3.0]]),
        np.array([[0.5, -1.0], [0.0, 0.0], [1.0, 2.0]]),
    )
    rng = np.random.default_rng(6)
    draws = mean[:, None] + np.sqrt(variance)[:, None] * rng.standard_normal((3, 4000, 2))
    precision = (1 / variance).sum(axis=0)
    centre = (mean / variance).sum(axis=0) / precision

    def bound(at, d, entropy=1.0):
        w = softmax(at)
        spread = w**2 @ variance[:, d] + (w @ mean[:, d] - centre[d]) ** 2
        return 0.5 * precision[d] * spread - entropy * np.log(w).mean()

    options = SimpleNamespace(steps=1500, draws=200, rate=0.1)
    made = variational_consensus.combine(draws, options, rng, lambda theta: -precision * (theta - centre))
    found = np.linalg.lstsq(draws[:, :, 0].T, made[:, 0], rcond=None)[0]
    best, without = (softmax(minimize(bound, np.zeros(3), (0, entropy)).x) for entropy in (1.0, 0.0))
    np.testing.assert_allclose(found, best, atol=0.02)
    assert np.abs(without - best).max() > 0.1


def test_the_median_of_points_is_fermats():
    """All sides of the triangle are seen from it under 120°; not from the mean, the negative control."""
    points = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 3.0]])
    for weights, right in ((median_weights(points @ points.T), True), (np.full(3, 1 / 3), False)):
        ways = points - weights @ points
        ways /= np.linalg.norm(ways, axis=1, keepdims=True)
        assert np.allclose((ways @ ways.T)[np.triu_indices(3, 1)], -0.5, atol=1e-6) == right


def test_one_shard_of_wrong_data_does_not_move_the_median():
    rng = np.random.default_rng(5)
    draws = rng.standard_normal((9, 400, 2)) + 0.1 * rng.standard_normal((9, 1, 2))
    draws[0] += 50.0
    assert (
        np.abs(median_posterior(draws, None, rng).mean(axis=0)).max() < 5.0 < 5.5 < draws.mean()
    )  # of 9: 5.6


def test_swiss_keeps_the_shape_of_shards():
    rng = np.random.default_rng(4)
    draws = rng.standard_exponential((4, T, 1))
    made = swiss(draws, None, rng)[:, 0]
    assert np.mean((made - made.mean()) ** 3) / made.std() ** 3 == pytest.approx(2.0, abs=0.3)
