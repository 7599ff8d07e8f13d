"""Alias tables stand for exactly the probabilities they were made from."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flyrun.ground.numerics.alias import Alias, Even, alias_rows, alias_table, pick
from flyrun.ground.numerics.compiled import outer_jit

MASSES = st.one_of(st.just(0.0), st.floats(1e-300, 1e6), st.floats(0.1, 10.0))


@outer_jit
def _picks(table, rng, row, out):
    for k in range(out.shape[0]):
        out[k] = pick(table, rng, row)


def _probabilities(table, row):
    start, end = table.first[row : row + 2]
    chances = table.share[start:end].copy()
    np.add.at(chances, table.other[start:end], 1.0 - table.share[start:end])
    return chances / (end - start)


@pytest.mark.thorough
@given(st.lists(st.lists(MASSES, max_size=12), min_size=1, max_size=4))
def test_probabilities_are_proportional_to_masses(rows):
    first = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    table = alias_rows(first, np.array([mass for row in rows for mass in row]))
    for number, row in enumerate(rows):
        if isinstance(table, Even):
            assert len(set(row)) <= 1
        elif sum(row) > 0.0:
            np.testing.assert_allclose(_probabilities(table, number), np.array(row) / sum(row), atol=1e-14)
            assert np.all((table.share >= 0.0) & (table.share <= 1.0))


@pytest.mark.thorough
@given(st.integers(1, 6), st.integers(0, 2**31))
def test_what_has_no_mass_is_never_picked(n, seed):
    masses = np.arange(2.0 * n) % 2 * (1.0 + np.arange(2.0 * n))
    out = np.empty(200, np.int64)
    _picks(alias_table(masses), np.random.default_rng(seed), 0, out)
    assert np.all(out % 2 == 1 if len(masses) > 2 else out == 1)


@pytest.mark.parametrize("masses", [[3.0, 1.0, 0.5, 0.0, 2.5], [2.0, 2.0, 2.0]])
def test_picks_follow_the_probabilities(masses):
    masses = np.array(masses)
    table = alias_table(masses)
    assert isinstance(table, Even if len(set(masses)) == 1 else Alias)
    out = np.empty(200_000, np.int64)
    _picks(table, np.random.default_rng(5), 0, out)
    expected = masses / masses.sum() * len(out)
    seen = np.bincount(out, minlength=len(masses))
    used = masses > 0.0
    # χ² with at most 4 degrees of freedom: above 24 with probability below 1e-4
    assert ((seen - expected)[used] ** 2 / expected[used]).sum() < 24.0
