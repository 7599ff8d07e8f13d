"""The O(1) partition against a plain set."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flyrun.experiments.samplers.chain.brightness.partition import (
    all_dark,
    brighten,
    darken,
    is_bright,
    ith_bright,
    pack,
    unpack,
)


@pytest.mark.thorough
@given(st.integers(1, 130), st.lists(st.integers(0, 129), max_size=60))
def test_behaves_like_a_set(size, flips):
    partition, bright = all_dark(size), set()
    for datum in flips:
        n = datum % size
        if n in bright:
            darken(partition, [int(ith_bright(partition, i)) for i in range(len(bright))].index(n))
            bright.remove(n)
        else:
            brighten(partition, n)
            bright.add(n)
        assert int(partition.n_bright[0]) == len(bright)
        assert {int(ith_bright(partition, i)) for i in range(len(bright))} == bright
        assert [bool(is_bright(partition, n)) for n in range(size)] == [n in bright for n in range(size)]
        again = unpack(size, **pack(partition))
        assert again.n_bright[0] == len(bright)
        np.testing.assert_array_equal(again.bits, partition.bits)
        np.testing.assert_array_equal(again.bright[: len(bright)], partition.bright[: len(bright)])
