"""The O(1) partition against a plain set."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from flyrun.samplers.partition import all_dark, brighten, darken, is_bright, ith_bright, ith_dark


@given(st.integers(1, 12), st.lists(st.integers(0, 11), max_size=60))
def test_behaves_like_a_set(size, flips):
    partition, bright = all_dark(size), set()
    for datum in flips:
        n = datum % size
        if n in bright:
            darken(partition, n)
            bright.remove(n)
        else:
            brighten(partition, n)
            bright.add(n)
        assert int(partition.n_bright[0]) == len(bright)
        assert {int(ith_bright(partition, i)) for i in range(len(bright))} == bright
        assert {int(ith_dark(partition, i)) for i in range(size - len(bright))} == set(range(size)) - bright
        assert [is_bright(partition, n) for n in range(size)] == [n in bright for n in range(size)]
        np.testing.assert_array_equal(partition.order[partition.place], np.arange(size))
