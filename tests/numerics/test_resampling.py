"""Draws of even weight in place of weighted ones."""

import numpy as np

from flyrun.ground.numerics.resampling import effective, systematic, unweighted

RNG = np.random.default_rng(0)


def _counts(index, size):
    return np.bincount(index, minlength=size)


def test_each_is_there_as_often_as_its_weight_says_up_to_one():
    weight = RNG.random(50)
    weight /= weight.sum()
    counts = _counts(systematic(RNG, weight, 200), 50)
    assert np.abs(counts - 200 * weight).max() < 1
    even = np.full(50, 1 / 50)
    assert np.abs(counts - 200 * even).max() > 1


def test_as_many_as_are_effective_and_the_average_is_theirs():
    x, log_weight = RNG.standard_normal(20_000), RNG.standard_normal(20_000)
    index = unweighted(log_weight, None)
    weight = np.exp(log_weight) / np.exp(log_weight).sum()
    assert len(index) == int(effective(weight))
    assert abs(x[index].mean() - weight @ x) < 4 * x.std() / np.sqrt(len(index))
    # what they stand for, and not the draws as they are
    shifted = x + 0.5 * log_weight
    assert abs(shifted[index].mean() - weight @ shifted) < 0.05 < abs(shifted.mean() - weight @ shifted)


def test_those_of_negative_weight_are_left_out():
    log_weight, sign = np.zeros(1_000), np.ones(1_000, np.int8)
    sign[:30] = -1
    index = unweighted(log_weight, sign)
    assert index.min() >= 30
    assert len(index) == int(940**2 / 1_000)


def test_no_draws_where_weights_have_no_sum():
    assert len(unweighted(np.zeros(2), np.array([-1, -1], np.int8))) == 0
    assert len(unweighted(np.zeros(1), None)) == 1
