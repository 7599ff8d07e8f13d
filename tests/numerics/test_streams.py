"""Bulk random numbers: the generator against its authors' recurrence, draws against their distributions."""

import numba
import numpy as np
import pytest
from scipy import stats

from flyrun.ground.numerics import streams
from flyrun.ground.numerics.state import arrays_of, with_arrays

WORD = (1 << 64) - 1


@numba.njit
def _exponentials(stream, rng, n):
    streams.exponentials(stream, rng, n)


@numba.njit
def _normals(stream, rng, out):
    streams.normals(stream, rng, out)


def _turned(word, by):
    return ((word << by) | (word >> (64 - by))) & WORD


def _next(state):
    """xoshiro256++ as Blackman & Vigna print it."""
    result = (_turned((state[0] + state[3]) & WORD, 23) + state[0]) & WORD
    shifted = (state[1] << 17) & WORD
    state[2] ^= state[0]
    state[3] ^= state[1]
    state[1] ^= state[2]
    state[0] ^= state[3]
    state[2] ^= shifted
    state[3] = _turned(state[3], 45)
    return result


def test_the_recurrence_here_is_the_published_one():
    state = [1, 2, 3, 4]  # the generator's known first words from this state
    assert [_next(state) for _ in range(4)] == [41943041, 58720359, 3588806011781223, 3591011842654386]


def test_every_lane_is_xoshiro_and_none_is_another():
    stream, rng = streams.stream(64), np.random.default_rng(5)
    _exponentials(stream, rng, 1)  # starts it
    assert np.unique(stream.state).size == stream.state.size
    lanes = [[int(word) for word in column] for column in stream.state.T]
    _exponentials(stream, rng, 64)
    words = np.array([[_next(lane) for lane in lanes] for _ in range(4)], np.uint64).ravel()
    uniforms = (2**52 - (words >> np.uint64(12)).astype(float)) * 2.0**-52
    np.testing.assert_allclose(stream.room[:64], -np.log(uniforms), rtol=1e-14)
    assert [[int(word) for word in column] for column in stream.state.T] == lanes


# level: 1e-3 each, at fixed seeds
@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("seed", [1, 2])
def test_exponentials_and_normals_have_their_distributions(seed):
    stream, rng = streams.stream(200_000), np.random.default_rng(seed)
    _exponentials(stream, rng, 200_000)
    assert stats.kstest(stream.room[:200_000], "expon").pvalue > 1e-3
    out = np.zeros(200_000)
    _normals(stream, rng, out)
    assert stats.kstest(out, "norm").pvalue > 1e-3
    assert stats.kstest(out**2, "chi2", args=(1,)).pvalue > 1e-3
    # neighbours, and the two that come of one radius and angle
    for lag in (1, streams.LANES, 2 * streams.LANES):
        for power in (1, 2):
            assert stats.pearsonr(out[lag:] ** power, out[:-lag] ** power).pvalue > 1e-3


def test_negative_control_normals_of_one_lane_repeated_are_found_out():
    stream, rng = streams.stream(4000), np.random.default_rng(1)
    out = np.zeros(4000)
    _normals(stream, rng, out[:1])
    stream.state[:] = stream.state[:, :1]
    _normals(stream, rng, out)
    assert stats.pearsonr(out[1:], out[:-1]).pvalue < 1e-6


@pytest.mark.parametrize("n", [1, 16, 31, 32, 33, 51])
def test_any_number_of_normals(n):
    out = np.zeros(n + 1)
    _normals(streams.stream(n), np.random.default_rng(n), out[:n])
    assert np.all(out[:n] != 0.0)
    assert out[n] == 0.0


def test_a_stream_goes_on_where_its_state_was_kept():
    stream, rng, out = streams.stream(51), np.random.default_rng(3), np.zeros((2, 51))
    _normals(stream, rng, out[0])
    again = with_arrays(streams.stream(51), arrays_of(stream, "stream"), "stream")
    _normals(stream, rng, out[0])
    _normals(again, rng, out[1])  # a stream that has started asks rng for nothing
    np.testing.assert_array_equal(out[0], out[1])
