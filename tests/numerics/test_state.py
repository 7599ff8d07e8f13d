"""A state holds what changes and is remembered, and nothing else; taking it apart and back is exact."""

import numpy as np
import pytest

from flyrun.experiments.config.compose import compose_job
from flyrun.experiments.samplers.chain import mala
from flyrun.experiments.samplers.chain.metric import IDENTITY
from flyrun.experiments.samplers.chain.update import StepSize
from flyrun.experiments.samplers.method import prepare
from flyrun.ground.numerics.state import arrays_of, with_arrays
from flyrun.ground.numerics.streams import stream


def test_workspace_stays_out_and_comes_back_empty():
    step = StepSize(np.ones(1), np.zeros(1), 0.57, False)
    kernel = mala.Mala(step, IDENTITY, stream(4), np.ones((6, 4)))
    kernel.stream.room[:] = 1.0
    arrays = arrays_of(kernel, "kernel")
    assert set(arrays) == {"kernel.step.current", "kernel.step.average", "kernel.stream.state"}
    again = with_arrays(kernel, {**arrays, "kernel.step.current": np.array([2.0])}, "kernel")
    assert again.step.current[0] == 2.0
    assert np.all(again.work == 0.0)
    assert np.all(again.stream.room == 0.0)
    assert np.all(kernel.work == 1.0)
    assert again.step.current is not arrays["kernel.step.current"]


SWEEPS = {"implicit": [], "explicit": ["brightness.order=without_replacement"], "per_datum": []}


@pytest.mark.thorough(but="random_walk")
@pytest.mark.parametrize(  # a random walk keeps values of bright data, mala their slopes too
    ("sampler", "name"), [("random_walk", "implicit"), *(("mala", name) for name in SWEEPS)]
)
def test_chunks_with_any_brightness_update_are_one_chain(sampler, name, tmp_path):
    words = ["dataset=mnist_7v9", "dataset.limit=800", "model=logistic", f"sampler={sampler}", "bound=map"]
    words += ["protocol.init=map", "protocol.iterations=200", "protocol.burn_in=100"]
    words += [f"brightness={name}", *SWEEPS[name]]
    _cut(words, tmp_path)


def test_chunks_under_a_rule_that_reads_few_data_are_one_chain(tmp_path):
    words = ["dataset=toy_2d", "dataset.n_data=60", "dataset.separation=1.5", "model=logistic", "bound=none"]
    words += ["sampler=surrogate_transition", "acceptance=mh_ss", "acceptance.order=3", "prior=gaussian"]
    program, state = _cut(
        [*words, "protocol.init=map", "protocol.iterations=200", "protocol.burn_in=20"], tmp_path
    )
    read = program.facts(state).more["candidates"]
    assert 0 < 2 * read <= state["memory.queries"][0]


def _cut(words, folder):
    """The method of these words and the last state of a chain that is the same in one piece and in four."""
    program = prepare(compose_job(words).arms[0], folder)
    whole, draws = program.advance(program.init(4), 200)
    state, pieces = program.init(4), []
    for n in (1, 99, 30, 70):
        state, piece = program.advance(state, n)
        pieces.append(piece)
    for key, values in draws.items():
        np.testing.assert_array_equal(np.concatenate([piece[key] for piece in pieces]), values)
    assert state.keys() == whole.keys()
    for key, values in whole.items():
        np.testing.assert_array_equal(state[key], values)
    return program, state
