"""The vectorised functions against the C library in extended precision."""

import numba
import numpy as np
import pytest

from flyrun.ground.numerics import vector_math

RNG = np.random.default_rng(0)


def _apply(function, x):
    @numba.njit
    def loop(x, out):
        for i in range(x.shape[0]):
            out[i] = function(x[i])

    out = np.empty_like(x)
    loop(x, out)
    return out


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    ("name", "reference", "x"),
    [
        ("exp_negative", np.exp, -np.concatenate([10.0 ** RNG.uniform(-18, 2.85, 20_000), [0.0, 708.0]])),
        ("one_minus_exp_negative", lambda x: -np.expm1(x), -(10.0 ** RNG.uniform(-300, 5, 20_000))),
        ("log_positive", np.log, 10.0 ** RNG.uniform(-300, 300, 20_000)),
        ("log_positive", np.log, 1.0 + RNG.normal(0.0, 0.05, 20_000)),
        ("log1p_unit", np.log1p, np.concatenate([10.0 ** RNG.uniform(-300, 0, 20_000), [0.0, 1.0]])),
    ],
)
def test_within_two_units_in_the_last_place(name, reference, x):
    expected = reference(x.astype(np.longdouble))
    error = np.abs(_apply(getattr(vector_math, name), x) - expected)
    assert np.all(error <= 2.0 * np.spacing(np.abs(expected).astype(float)))


def test_far_below_the_range_exp_is_negligible_and_not_infinite():
    assert np.all(_apply(vector_math.exp_negative, np.array([-709.0, -1e300, -np.inf])) < 1e-307)


@numba.njit
def _cos_sin(turns, out):
    for i in range(turns.shape[0]):
        out[i, 0], out[i, 1] = vector_math.cos_sin_of_turn(turns[i])


def test_cosine_and_sine_of_turns():
    turns = np.concatenate([RNG.random(50_000), np.arange(17) / 16, [2.0**-52, 1.0 - 2.0**-52]])
    found = np.empty((turns.size, 2))
    _cos_sin(turns, found)
    angles = turns * np.longdouble("6.283185307179586476925286766559")
    expected = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    assert np.abs(found - expected).max() < 2.0**-52


@numba.njit
def _units(words, out):
    for i in range(words.shape[0]):
        out[i] = vector_math.unit_interval(words[i])


def test_units_from_words_are_above_0_and_at_most_1():
    words = np.array([0, 2**12 - 1, 2**63, 2**64 - 1], np.uint64)
    out = np.empty(4)
    _units(words, out)
    assert out.tolist() == [1.0, 1.0, 0.5, 2.0**-52]
