"""Poisson numbers by inversion: the very code followed through every outcome, and compiled draws counted."""

import math

import numpy as np
import pytest
from scipy import stats

from flyrun.ground.numerics import poisson_count
from flyrun.ground.numerics.compiled import outer_jit
from tests.exactness.enumeration import interpreted, outcomes
from tests.exactness.planted import Planted


@pytest.mark.parametrize("mean", [0.0, 1e-9, 0.3, 4.9, 29.9])
def test_every_number_has_its_probability(mean):
    found = dict.fromkeys(range(poisson_count.MOST + 1), 0.0)
    for probability, number in outcomes(
        lambda rng: interpreted(poisson_count.poisson_count)(Planted(rng), mean), most=0
    ):
        found[number] += probability
    np.testing.assert_allclose(list(found.values()), stats.poisson.pmf(list(found), mean), atol=1e-15)


@outer_jit
def _counts(rng, mean, out):
    for k in range(out.shape[0]):
        out[k] = poisson_count.poisson_count(rng, mean)


def _p_value(drawn, mean):
    """Chi-squared test of numbers against Poisson(mean), rare ones put together."""
    low, high = int(mean - 3 * math.sqrt(mean)), int(mean + 3 * math.sqrt(mean)) + 1
    seen = np.bincount(np.clip(drawn, max(low, 0), high))[max(low, 0) :]
    edges = np.concatenate([[0.0], stats.poisson.cdf(np.arange(max(low, 0), high), mean), [1.0]])
    return stats.chisquare(seen, np.diff(edges) * len(drawn)).pvalue


@pytest.mark.thorough
@pytest.mark.parametrize("mean", [2.0, 30.5, 100.0])
def test_compiled_numbers_follow_the_law_also_of_means_that_are_cut(mean):
    drawn = np.empty(100_000, np.int64)
    _counts(np.random.default_rng(5), mean, drawn)
    assert _p_value(drawn, mean) > 1e-3  # fixed seed
    # negative control: a mean that is 2 % off, 3 to 20 standard errors of the sample's
    assert _p_value(drawn, 1.02 * mean) < 1e-4
