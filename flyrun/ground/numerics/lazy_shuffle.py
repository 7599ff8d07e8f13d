"""A deck of the data, shuffled only as far as it is dealt: batches without replacement, at their own cost.

Fisher & Yates' shuffle, begun anew for each test: a uniform prefix of any arrangement is a uniform prefix, so
what the last test left needs no tidying up. The arrangement is therefore part of a chain's state.
"""

from typing import NamedTuple

import numpy as np

from flyrun.ground.numerics.compiled import inline_jit
from flyrun.ground.numerics.streams import Stream, stream, uniforms

HAND = 256
"""Cards dealt with one call for random numbers."""


class Deck(NamedTuple):
    """The data in an arrangement, and random numbers of its own: those of a chain do not depend on it."""

    order: np.ndarray  # (N,) uint32
    stream: Stream


def deck(n_data: int) -> Deck:
    """All data in their own order, not shuffled."""
    return Deck(np.arange(n_data, dtype=np.uint32), stream(HAND))


@inline_jit
def open_deck(deck, rng):
    """Start the deck's stream from rng, a few of whose numbers it takes; from then on it takes none."""
    uniforms(deck.stream, rng, 1)


@inline_jit
def deal(deck, rng, first, last):
    """Make order[first:last] a uniform draw without replacement from order[first:], last ≤ N.

    Cards before `first` stay: dealing 0 to b, then b to c, is dealing 0 to c. rng starts the stream, unless
    `open_deck` has.
    """
    order, room, n_data = deck.order, deck.stream.room, deck.order.shape[0]
    for begin in range(first, last, HAND):
        end = min(begin + HAND, last)
        uniforms(deck.stream, rng, end - begin)
        for i in range(begin, end):
            left = n_data - i
            j = i + min(int(room[i - begin] * left), left - 1)
            card = order[j]
            order[j] = order[i]
            order[i] = card
