"""Methods that are one step: exact, resumed to the bit, and with queries that count themselves."""

import sys
from pathlib import Path

import pytest

from flyrun.experiments.config.compose import compose_job
from flyrun.experiments.prove import posteriors, prove
from flyrun.experiments.samplers.method import prepare
from flyrun.ground.schema import SCHEMAS

PLUGINS = Path(__file__).parents[1] / "plugins"


@pytest.fixture(params=["plain_walk", "jax_langevin"])
def choice(request, monkeypatch):
    """A method of another package, as its entry point would bring it."""
    if request.param == "jax_langevin":
        pytest.importorskip("jax")
    monkeypatch.syspath_prepend(str(PLUGINS))
    schemas = dict(SCHEMAS["sampler"])
    module = {"plain_walk": "flyrun_steps", "jax_langevin": "flyrun_langevin"}[request.param]
    __import__(module)
    cls = SCHEMAS["sampler"][request.param]
    yield cls()
    SCHEMAS["sampler"].clear()
    SCHEMAS["sampler"].update(schemas)
    sys.modules.pop(module)


@pytest.fixture
def arm(choice):
    (plain,) = compose_job(
        ["sampler=random_walk", "bound=none", "dataset=toy_2d", "model=logistic", "protocol=smoke"]
    ).arms
    arms = posteriors.arms(choice, 600)
    assert plain.sampler.name != choice.name
    return arms["logistic"]


def test_queries_are_a_pass_a_step_and_the_start_s(arm, tmp_path):
    method = prepare(arm, tmp_path)
    _, records = method.advance(method.init(1), 30)
    assert records["queries"].tolist() == [2 * method.n_data] + [method.n_data] * 29
    assert method.density.queries == 31 * method.n_data


@pytest.mark.thorough(but="plain_walk")
def test_it_is_proven_and_a_batch_of_draws_is_the_posterior_s(choice, monkeypatch, tmp_path):
    monkeypatch.setenv("FLYRUN_CACHE", str(tmp_path))
    monkeypatch.setattr(prove, "STARTS", 1_000)
    monkeypatch.setattr(posteriors, "POINTS", 101)
    arms = posteriors.arms
    monkeypatch.setattr(posteriors, "arms", lambda choice, n: {"logistic": arms(choice, n)["logistic"]})
    lines = []
    prove.prove(choice, 2_000, lines.append)
    passed = {line.split()[1].rstrip(",") for line in lines if line.startswith("passed")}
    assert passed >= {"contract", "resumed", "moments", "counting", "meter"}, lines
    assert not [line for line in lines if line.startswith("FAILED")], lines


@pytest.mark.parametrize("choice", ["plain_walk"], indirect=True)
def test_what_reads_past_the_meter_is_found(arm, choice, tmp_path):
    method = prepare(arm, tmp_path)
    assert prove._past_the_meter(arm, tmp_path, method, "few").passed

    class Peeking(type(method)):
        def step(self, rng, state):
            after = super().step(rng, state)
            return after | {"accepted": float(self.problem.features.rows[0] @ after["theta"])}

    sys.modules[type(method).__module__].prepare = Peeking.prepare
    method = prepare(arm, tmp_path)
    assert method.advance(method.init(1), 3)[1]["queries"][1] == method.n_data  # no count tells it
    assert not prove._past_the_meter(arm, tmp_path, method, "few").passed
