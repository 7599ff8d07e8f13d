"""`flyrun prove` passes what is right and fails what is broken; a passed proof makes a plug-in exact."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from flyrun.cli.main import main
from flyrun.config import plugins
from flyrun.config.sampler import Sampler
from flyrun.config.schema import SCHEMAS
from flyrun.prove import posteriors, prove
from flyrun.prove.counted import COUNT
from flyrun.report.arms import ArmResult
from flyrun.report.metrics import EXACT as EXACT_COLUMN
from flyrun.runner import proofs
from flyrun.samplers.method import Facts, Method

EXACT, COLD, STILL, SILENT = "exact", "cold", "still", "silent"


@dataclass(frozen=True)
class Made(Sampler):
    """Independent draws of the posterior, with a fault."""

    group: ClassVar[str] = "sampler"
    family: ClassVar[str] = __name__
    name: str = "made"
    fault: str = EXACT

    @property
    def exact(self) -> bool:
        return True


def prepare(arm, folder):
    return Draws(arm, posteriors.Truth(arm, folder))


class Draws(Method):
    """By the grid; every draw is charged a query, and its likelihood counted once."""

    def __init__(self, arm: Any, truth: posteriors.Truth):
        self.arm, self.truth, self.fault = arm, truth, arm.sampler.fault

    def init(self, seed, needed=()):
        return {"seed": np.array([seed]), "theta": self.truth.mean, "iteration": np.zeros(1, int)}

    def at(self, theta, tuned, seed):
        return {**tuned, "theta": theta, "seed": np.array([10_000 + seed])}

    def advance(self, state, n):
        draws = self.truth.draws(n, seed=[int(state["seed"][0]), int(state["iteration"][0])])
        if self.fault == COLD:
            draws = self.truth.mean + (draws - self.truth.mean) * np.sqrt(1 / 2)
        if self.fault == STILL:
            draws = np.tile(state["theta"], (n, 1))
        COUNT[0] += n
        told = np.full(n, 0 if self.fault == SILENT else 1)
        return {**state, "theta": draws[-1], "iteration": state["iteration"] + n}, {
            "queries": told,
            "theta": draws,
        }

    def facts(self, state=None):
        return Facts("Made")


@pytest.fixture
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("FLYRUN_CACHE", str(tmp_path))
    monkeypatch.setattr(prove, "STARTS", 800)
    monkeypatch.setattr(posteriors, "POINTS", 101)


@pytest.fixture
def plug_in(cache, monkeypatch):
    """`Made` as if another package had brought it."""
    monkeypatch.setitem(SCHEMAS["sampler"], "made", Made)
    monkeypatch.setattr(plugins, "is_foreign", lambda choice: isinstance(choice, Made))


def outcome(fault, monkeypatch, iterations=500):
    """Whether a proof of draws with a fault passed, and its lines; on one posterior."""
    (first, *_) = posteriors.arms(SCHEMAS["sampler"]["random_walk"](), iterations).values()
    arms = {
        "logistic": replace(first, sampler=Made(fault=fault), bound=None, brightness=None, acceptance=None)
    }
    monkeypatch.setattr(posteriors, "arms", lambda choice, length: arms)
    lines: list[str] = []
    return prove.prove(Made(fault=fault), iterations, lines.append), lines


@pytest.mark.parametrize(
    ("fault", "failed"),
    [
        pytest.param(EXACT, [], marks=pytest.mark.slow),
        (COLD, ["moments", "invariance"]),
        (
            STILL,
            ["moments", "invariance"],
        ),  # what never moves leaves everything invariant: the control says so
        pytest.param(SILENT, ["counting"], marks=pytest.mark.slow),
    ],
)
def test_a_proof_fails_what_is_broken(plug_in, monkeypatch, fault, failed):
    """A sampler's own word for its exactness: each fault is found by the trials that are meant for it."""
    good, lines = outcome(fault, monkeypatch)
    assert [line.split()[1].rstrip(",") for line in lines if line.startswith("FAILED")] == failed, lines
    assert good == (not failed)
    assert proofs.passed(proofs.name(Made(fault=fault))) == good
    assert not proofs.passed(proofs.name(Made(fault="of other settings")))


def test_chains_too_short_to_tell_prove_nothing(plug_in, monkeypatch):
    """A test without power that passes: it passes on the wrong posterior too, which fails the proof."""
    monkeypatch.setattr(prove, "STARTS", 20)
    good, lines = outcome(EXACT, monkeypatch, iterations=20)
    assert not good
    assert any("so it cannot tell: more iterations could" in line for line in lines)


def test_a_plug_in_is_exact_once_its_class_says_so_and_its_proof_has_passed(plug_in, monkeypatch):
    """A plug-in's word taken for proof: tables say unknown until one has passed, and no where it says no."""
    arm = SimpleNamespace(sampler=Made(), model=None, prior=None)
    before = proofs.judged(arm, Facts("Made"))
    assert before.exact is None
    assert proofs.judged(arm, Facts("Made", exact=False)).exact is False
    stored = {"facts": before.plain()}
    assert proofs.settled(stored)["facts"]["exact"] is None
    assert shown(stored) == "unknown"
    assert outcome(EXACT, monkeypatch)[0]
    assert proofs.judged(arm, Facts("Made")).exact is True
    assert shown(proofs.settled(stored)) == "yes"  # of a run that had finished before
    monkeypatch.setattr(Made, "exact", False)
    silent = proofs.judged(arm, Facts("Made"))
    assert silent.exact is None
    assert shown(proofs.settled({"facts": silent.plain()})) == "unknown"


def shown(info):
    """What the column says of an arm with one such cell."""
    arm = ArmResult("one", 1, (info,), (SimpleNamespace(),), None, {}, {}, {})
    return EXACT_COLUMN.show({"exact": arm.exact})


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["random"], "did you mean random_walk?"),
        (["laplace"], "say `flyrun prove sampler=laplace` or `flyrun prove prior=laplace`"),
        (["random_walk", "prior.scale=2"], "prior.scale=2 is no key of sampler=random_walk"),
        (["random_walk", "sampler.step=-2"], "sampler.step=-2: must be a finite number above 0"),
        (["random_walk", "iterations=3"], "--iterations 3: must be a whole number at least 100"),
        (["gibbs"], "is not of rows of data"),
        (["softmax"], "has several predictors"),
        (["sampler=laplace"], "answers with a density"),
        ([], "NAME is missing; as in `flyrun prove random_walk`"),
    ],
)
def test_what_cannot_be_proven_is_one_line(cache, capsys, words, text):
    assert main(["prove", *words]) == 2
    said = capsys.readouterr().err
    assert said.startswith("flyrun: error: ")
    assert said.count("\n") == 1
    assert text in said


@pytest.mark.slow
@pytest.mark.parametrize("name", ["random_walk", "weighted", "student_t", "prior=laplace"])
def test_flyruns_own_are_proven(monkeypatch, tmp_path, capsys, name):
    assert main(["prove", name]) == 0, capsys.readouterr().out
