"""Who is lit, told without logarithms, against V < e^g − 1 in extended precision."""

import numba
import numpy as np
import pytest

from flyrun.experiments.samplers.chain.brightness.base import lit_among
from flyrun.experiments.samplers.chain.targets.firefly import TIGHT


@numba.njit
def _lit(rests, gaps, lit):
    return lit_among(rests, gaps, rests.shape[0], lit)


def _exactly(rests, gaps):
    return -np.expm1(-rests.astype(np.longdouble)) < np.expm1(np.minimum(gaps, 100.0).astype(np.longdouble))


def test_the_bounds_hold():
    r = np.concatenate([10.0 ** np.linspace(-4, 3, 20_000), [0.0]]).astype(np.longdouble)
    exact = np.log1p(-np.expm1(-r))
    assert np.all(r - r * r <= exact)
    assert np.all(exact <= r - r * r + r**3)


@pytest.mark.parametrize("q", [1e-6, 0.01, 0.3, 1.0])
def test_verdicts_are_exact(q):
    rng = np.random.default_rng(8)
    v = q * rng.random(100_000)
    rests = -np.log1p(-v)
    # far from, and as near to, the border as rounding lets tell
    gaps = np.log1p(v) * np.exp(rng.choice([1.0, -1.0], v.size) * 10.0 ** rng.uniform(-12, 1, v.size))
    lit = np.zeros(v.size, np.uint32)
    count = _lit(rests, gaps, lit)
    expected = np.flatnonzero(_exactly(rests, gaps))
    assert 0.3 < count / v.size < 0.7
    np.testing.assert_array_equal(lit[:count], expected)


def test_the_frequency_is_the_ratio_of_the_chances():
    rng, q, pseudo = np.random.default_rng(2), 0.2, 0.05
    rests = -np.log1p(-q * rng.random(400_000))
    count = _lit(rests, np.full(rests.size, np.log1p(pseudo)), np.zeros(rests.size, np.uint32))
    assert abs(count / rests.size - pseudo / q) < 4.0 * np.sqrt(0.25 * 0.75 / rests.size)


def test_what_is_not_a_number_is_not_passed_over():
    lit = np.zeros(2, np.uint32)
    assert _lit(np.array([0.1, 0.1]), np.array([0.0, np.nan]), lit) == 1
    assert lit[0] == 1


def test_rounding_lights_nobody_whose_bound_is_tight():
    rests = np.array([0.0, -1e-17, 1e-20])
    assert _lit(rests, np.full(3, TIGHT), np.zeros(3, np.uint32)) == 0
    assert _lit(rests, np.full(3, 1e-12), np.zeros(3, np.uint32)) == 3


def test_plain_python_says_the_same():
    rng = np.random.default_rng(4)
    rests, gaps = rng.exponential(0.3, 300), rng.exponential(0.3, 300)
    here, there = np.zeros(300, np.uint32), np.zeros(300, np.uint32)
    count = lit_among(rests, gaps, 300, here)
    assert count == _lit(rests, gaps, there)
    np.testing.assert_array_equal(here, there)
