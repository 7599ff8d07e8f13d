"""Lazily kept marginals against counting every state."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from flyrun.experiments.samplers.gibbs.loop import distance_to_uniform, no_marginals, note_change
from tests.samplers.gibbs.running_marginals import marginal_probabilities

SIZES = np.array([3, 2, 1], np.int32)


def _naive(states):
    shares = [np.bincount(column, minlength=3)[:3] / len(states) for column in np.array(states).T]
    distances = [np.linalg.norm(share[:size] - 1.0 / size) for share, size in zip(shares, SIZES, strict=True)]
    return np.array(shares), np.mean(distances)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=60))
def test_equal_to_counting_after_every_update(updates):
    x = np.zeros(3, np.int32)
    marginals, states = no_marginals(3, 3), []
    for t, (i, value) in enumerate(updates, start=1):
        before = x[i]
        x[i] = value % SIZES[i]
        if x[i] != before:
            note_change(marginals, i, before, x[i], t)
        states.append(x.copy())
        shares, distance = _naive(states)
        np.testing.assert_allclose(marginal_probabilities(marginals, x, t), shares, atol=1e-15)
        np.testing.assert_allclose(distance_to_uniform(marginals, SIZES, x, t), distance, atol=1e-7)


def test_the_first_state_is_as_far_from_uniform_as_can_be():
    for n_values, expected in ((2, 0.5**0.5), (10, 0.9**0.5)):
        x = np.zeros(7, np.int32)
        sizes = np.full(7, n_values, np.int32)
        assert abs(distance_to_uniform(no_marginals(7, n_values), sizes, x, 1) - expected) < 1e-12
