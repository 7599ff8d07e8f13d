"""Hogwild Gibbs of an Ising model: right on one processor, seen to be wrong on many."""

import numpy as np
import pytest

from flyrun.experiments.models.graphs import planar
from flyrun.ground.errors import ConfigError
from tests.samplers.hogwild.arms import method, same, steps

WORDS = ("dataset=lattice", "model=ising", "sampler=hogwild", "model.beta=0.3", "dataset.rows=10")
RIGHT = planar.pair_correlation(10, 20, 0.3)


def off(*words):
    """How far the pair correlation is from the right one, in standard errors by 20 batches."""
    agreement = steps(method(*WORDS, *words), 4_000)[1]["agreement"][200:]
    means = np.array([2 * part.mean() - 1 for part in np.array_split(agreement, 20)])
    return (means.mean() - RIGHT) / (means.std() / 19**0.5)


@pytest.mark.thorough
@pytest.mark.parametrize("schedule", ["bsp", "asynchronous"])
def test_one_processor_is_right_and_ten_are_not(schedule):
    words = f"sampler.schedule={schedule}"
    assert abs(off("sampler.processors=1", words)) < 3.5  # a level of 1e-3
    assert off("sampler.processors=10", words) < -10


@pytest.mark.parametrize("schedule", ["bsp", "asynchronous"])
def test_the_same_bits_wherever_a_chain_is_cut(schedule):
    made = method(*WORDS, f"sampler.schedule={schedule}", "sampler.sweeps=2")
    whole, parts = steps(made, 80), steps(made, 80, cuts=(3, 40))
    assert same(whole[0], parts[0])
    assert same(whole[1], parts[1])


def test_late_messages_are_told_of_and_the_latest_wins():
    on_time = steps(method(*WORDS), 50)[1]
    assert on_time["staleness"].max() == 0
    late = method(*WORDS, "sampler.schedule=asynchronous", "sampler.late=1", "sampler.most_late=3")
    state, records = steps(late, 200)
    # a post is 1, 2 or 3 rounds late; known is the newest of those that have come: 1 + 2/3·(1 + 1/3)
    assert records["staleness"][5:].mean() == pytest.approx(1 + 2 / 3 + 2 / 9, abs=0.1)
    assert (200 - 1 - state["team.newest"][~np.eye(4, dtype=bool)]).max() <= 3


def test_more_processors_than_variables():
    with pytest.raises(ConfigError, match=r"^sampler\.processors=201: .* choose sampler\.processors=200 or"):
        method(*WORDS, "sampler.processors=201")
