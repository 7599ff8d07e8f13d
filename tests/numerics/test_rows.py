"""The innermost loops of linear predictors: for every length, with nothing read or written beyond a row."""

import numpy as np
import pytest

from flyrun.ground.numerics.compiled import jit
from flyrun.ground.numerics.rows import add_four_rows, add_row, four_dots, row_dot

SIZES = (1, 2, 7, 8, 9, 16, 51)


@jit
def _products(rows, vector, single, four):
    for n in range(4):
        single[n] = row_dot(rows, n, vector)
    four[0], four[1], four[2], four[3] = four_dots(rows, 0, 1, 2, 3, vector)


@jit
def _sums(rows, factors, single, four):
    for n in range(4):
        add_row(rows, n, factors[n], single)
    add_four_rows(rows, 0, 1, 2, 3, factors[0], factors[1], factors[2], factors[3], four)


def _rows(size, kind):
    return np.random.default_rng(size).standard_normal((4, size)).astype(kind)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_products(kind):
    for size in SIZES:
        rows, vector = _rows(size, kind), np.random.default_rng(1).standard_normal(size)
        single, four = np.zeros(4), np.zeros(4)
        _products(rows, vector, single, four)
        np.testing.assert_array_equal(single, four)
        np.testing.assert_allclose(single, rows.astype(float) @ vector, rtol=1e-13, atol=1e-14)


def test_a_vector_longer_than_a_row_reads_on_into_the_next():
    """So θ with auxiliary numbers is cut to the row's length: what comes of the whole is finite and wrong."""
    rows, theta = np.random.default_rng(3).standard_normal((5, 7)), np.arange(1.0, 10.0)
    single, four = np.zeros(4), np.zeros(4)
    _products(rows, theta[:7], single, four)
    np.testing.assert_allclose(single, rows[:4] @ theta[:7], rtol=1e-13)
    _products(rows, theta, single, four)
    np.testing.assert_array_equal(single, four)
    on = np.lib.stride_tricks.sliding_window_view(rows.ravel(), 9)[::7][:4]
    np.testing.assert_allclose(single, on @ theta, rtol=1e-13)
    assert np.abs(single - rows[:4] @ theta[:7]).min() > 0.1


@pytest.mark.thorough
@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_multiples_are_added_and_nothing_beyond_is_touched(kind):
    factors = np.array([0.5, -2.0, 3.0, 0.1])
    for size in SIZES:
        rows = _rows(size, kind)
        room = np.ones((2, size + 8))
        _sums(rows, factors, room[0, :size], room[1, :size])
        np.testing.assert_array_equal(room[0], room[1])
        np.testing.assert_allclose(room[0, :size], 1.0 + factors @ rows.astype(float), rtol=1e-13, atol=1e-13)
        assert np.all(room[:, size:] == 1.0)
