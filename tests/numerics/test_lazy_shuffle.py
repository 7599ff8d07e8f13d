"""The lazily shuffled deck and the values that are known of some data."""

import numpy as np
import pytest
from scipy import stats

from flyrun.ground.numerics.compiled import outer_jit
from flyrun.ground.numerics.known_values import forget_all, is_known, none_known, put
from flyrun.ground.numerics.lazy_shuffle import deal, deck
from flyrun.ground.numerics.state import arrays_of, with_arrays

LEVEL = 1e-4


@outer_jit
def _deal(cards, rng, first, last):
    deal(cards, rng, first, last)


@pytest.mark.thorough
def test_a_hand_is_a_uniform_draw_without_replacement_whatever_was_dealt_before():
    cards, rng, seen = deck(5), np.random.default_rng(1), {}
    for _ in range(6_000):
        _deal(cards, rng, 0, 2)
        assert sorted(cards.order) == list(range(5))
        pair = tuple(cards.order[:2].tolist())
        seen[pair] = seen.get(pair, 0) + 1
    assert len(seen) == 20
    assert stats.chisquare(list(seen.values())).pvalue > LEVEL


def test_negative_control_a_hand_that_begins_at_a_fixed_card_is_not_uniform():
    cards, rng, seen = deck(5), np.random.default_rng(1), np.zeros(5)
    for _ in range(6_000):
        _deal(cards, rng, 1, 3)  # the first card never moves
        seen[cards.order[0]] += 1
    assert stats.chisquare(seen).pvalue < LEVEL


def test_a_hand_dealt_in_parts_keeps_its_first_cards():
    cards, rng = deck(1_000), np.random.default_rng(2)
    _deal(cards, rng, 0, 300)
    first = cards.order[:300].copy()
    _deal(cards, rng, 300, 1_000)
    np.testing.assert_array_equal(cards.order[:300], first)
    assert sorted(cards.order) == list(range(1_000))


@pytest.mark.thorough
def test_what_is_known_is_forgotten_at_once_and_a_checkpoint_holds_no_more():
    known = none_known(6)
    for n, value in ((4, 0.5), (1, -2.0)):
        put(known, n, value)
    kept = arrays_of(known, "it")
    assert {name: values.tolist() for name, values in kept.items()} == {
        "it.index": [1, 4],
        "it.values": [-2.0, 0.5],
    }
    again = with_arrays(known, kept, "it")
    assert [bool(is_known(again, n)) for n in range(6)] == [False, True, False, False, True, False]
    forget_all(known)
    assert not any(is_known(known, n) for n in range(6))
