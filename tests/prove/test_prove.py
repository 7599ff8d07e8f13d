"""`flyrun prove` passes what is right and fails what is broken; a passed proof makes a plug-in exact."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from flyrun.cli.main import main
from flyrun.experiments.config import plugins
from flyrun.experiments.config.sampler import Sampler
from flyrun.experiments.models import tangents
from flyrun.experiments.models.problem import bind
from flyrun.experiments.prove import posteriors, prove
from flyrun.experiments.prove.counted import COUNT, counts
from flyrun.experiments.report.arms import ArmResult
from flyrun.experiments.report.metrics import EXACT as EXACT_COLUMN
from flyrun.experiments.runner import proofs
from flyrun.experiments.samplers.method import Facts, Method
from flyrun.ground.errors import ConfigError
from flyrun.ground.schema import SCHEMAS, option
from tests.plugins.rows import registered

LONGEST = 600  # steps of a chain here
EXACT, COLD, STILL, SILENT = "exact", "cold", "still", "silent"
UNSEEDED, REMEMBERS, WRITES, SHORT, WIDE, MISSING, NEGATIVE, SINGLE, OBJECTS, RAISES = (
    "unseeded", "remembers", "writes", "short", "wide", "missing", "negative", "single", "objects", "raises"
)  # fmt: skip


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
        self.calls = 0

    def init(self, seed, needed=()):
        state = {"seed": np.array([seed]), "theta": self.truth.mean.copy(), "iteration": np.zeros(1, int)}
        return {**state, "random": np.array([None])} if self.fault == OBJECTS else state

    def at(self, theta, tuned, seed):
        return {**tuned, "theta": theta, "seed": np.array([10_000 + seed])}

    def advance(self, state, n):
        if self.fault == RAISES:
            raise KeyError("counted")
        seed, first = int(state["seed"][0]), int(state["iteration"][0])
        draws = self.truth.draws(LONGEST, seed=[seed])[first : first + n].copy()
        if self.fault == COLD:
            draws = self.truth.mean + (draws - self.truth.mean) * np.sqrt(1 / 2)
        if self.fault == STILL:
            draws = np.tile(state["theta"], (n, 1))
        if self.fault == UNSEEDED:
            draws = draws + 1e-3 * np.random.default_rng().normal(size=draws.shape)
        if self.fault == REMEMBERS:  # how often it was called, and not in the state
            draws, self.calls = draws + 1e-9 * self.calls, self.calls + 1
        COUNT[0] += n
        records = {"queries": np.full(n, {SILENT: 0, NEGATIVE: -1}.get(self.fault, 1)), "theta": draws}
        if self.fault == SINGLE:
            records["theta"] = draws.astype(np.float32)
        if self.fault == SHORT:
            records["theta"] = draws[: n // 2]
        if self.fault == WIDE:
            records["theta"] = np.c_[draws, draws]
        if self.fault == MISSING:
            del records["queries"]
        after = {**state, "theta": draws[-1], "iteration": state["iteration"] + n}
        if self.fault == WRITES:
            state["theta"][:] = draws[-1]
        if self.fault == OBJECTS:
            after["random"] = np.array([np.random.default_rng()], object)
        return after, records

    def facts(self, state=None):
        return Facts("Made")


@pytest.fixture
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("FLYRUN_CACHE", str(tmp_path))
    monkeypatch.setattr(prove, "STARTS", 1_600)
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


@pytest.mark.thorough
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
    assert proofs.passed(plugins.identity(Made(fault=fault))) == good
    assert not proofs.passed(plugins.identity(Made(fault="of other settings")))


@pytest.mark.thorough
def test_what_says_no_of_itself_is_not_promised_a_yes(plug_in, monkeypatch):
    monkeypatch.setattr(Draws, "facts", lambda self, state=None: Facts("Made", exact=False))
    assert outcome(EXACT, monkeypatch)[1][-1].endswith("so tables say exact: no")


@pytest.mark.thorough(but="contract")
@pytest.mark.parametrize(
    ("fault", "failed", "text"),
    [
        (UNSEEDED, "resumed", "theta differs from step 1 on"),
        (REMEMBERS, "resumed", "theta differs from step 2 on"),
        (WRITES, "contract", "advance changes the state"),
        (SHORT, "contract", "of 50 steps it must be numbers, 50 rows"),
        (WIDE, "contract", "theta is float64 of shape (50, 4)"),
        (MISSING, "contract", "queries are missing"),
        (NEGATIVE, "contract", "queries must be numbers of at least 0"),
        (OBJECTS, "contract", "state 'random' is no array of plain numbers"),
        (RAISES, "runs", "KeyError: 'counted'"),
        (SINGLE, "", "draws in single precision, which are stored in double"),
    ],
)
def test_what_the_contract_forbids_fails_in_a_line(plug_in, monkeypatch, fault, failed, text):
    """Each passed before: moments of draws from a state that is not all that steps depend on are right."""
    good, lines = outcome(fault, monkeypatch)
    bad = [line for line in lines if line.startswith("FAILED")]
    assert [line.split()[1].rstrip(",") for line in bad] == [failed] * bool(failed), lines
    assert good == (not failed)
    assert any(text in line for line in bad or lines), lines
    assert all(line.count("\n") == 0 for line in lines)


@pytest.mark.thorough
def test_a_proof_says_what_it_did_not_try(plug_in, monkeypatch):
    _, lines = outcome(COLD, monkeypatch)
    left_out = [line for line in lines if line.startswith("not tried")]
    assert any("logistic, Firefly" in line for line in left_out)
    assert any("more than 16 rows" in line for line in left_out)


def test_a_sampler_is_tried_on_more_rows_than_its_batches():
    """Batches of 200 rows are all of 16: what is wrong with fewer than all is not seen."""
    sgld = SCHEMAS["sampler"]["sgld_tested"]
    for batch, rows in ((100, 500), (2_000, 5_000), (10**6, 500)):
        arms = posteriors.arms(sgld(batch=batch), 500)
        sizes = {arm.dataset.n_data for arm in arms.values()}
        assert sizes == {16, rows}, batch


def test_counting_is_of_the_model_itself(cache):
    """A likelihood of another package was called proven, and logistic regression was not even counted."""
    (full, firefly) = posteriors.arms(SCHEMAS["model"]["student_t"](scale=0.5), 100).values()
    assert counts(full.model)
    assert full.model.name == "student_t"
    assert not counts(firefly.model)
    assert all(counts(arm.model) for arm in posteriors.arms(SCHEMAS["prior"]["laplace"](), 100).values())


def test_a_name_of_flyruns_own_is_refused(cache, capsys, monkeypatch):
    monkeypatch.setitem(plugins.TAKEN, ("sampler", "hmc"), "flyrun-other")
    assert main(["prove", "hmc"]) == 2
    said = capsys.readouterr().err
    assert "sampler=hmc: is flyrun's own, and the package flyrun-other brings another of this name" in said
    assert said.count("\n") == 1


def test_chains_too_short_to_tell_prove_nothing(plug_in, monkeypatch):
    """A test without power that passes: it passes on the wrong posterior too, which fails the proof."""
    monkeypatch.setattr(prove, "STARTS", 20)
    good, lines = outcome(EXACT, monkeypatch, iterations=20)
    assert not good
    assert any("so it cannot tell: more iterations could" in line for line in lines)


@pytest.mark.thorough
def test_a_plug_in_is_exact_once_its_class_says_so_and_its_proof_has_passed(plug_in, monkeypatch):
    """A plug-in's word taken for proof: tables say unknown until one has passed, and no where it says no."""
    arm = SimpleNamespace(sampler=Made(), choices=lambda: {"sampler": Made()})
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
        (["consensus"], "reads other arms' cells"),
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


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("name", ["label_noise", "softplus_counts", "known_noise"])
def test_a_kappa_that_is_1_percent_too_small_is_seen(cache, tmp_path, name):
    """Of what was searched for, and of what an author says."""
    with registered("flyrun_rows"):
        cls = SCHEMAS["model"][name]
        for share, failed in ((1.0, set()), (0.99, {"kappa", "bounds"})):

            def said(y, trials=None, share=share):
                each = y if trials is None else trials
                of_each = tangents.largest(cls.family(), y, np.ones(len(y)) if trials is None else trials)
                return share * of_each[0] / (1.0 + tangents.ROOM * (share < 1.0)) + 0.0 * each

            planted = option("model", f"planted_{name}_{share:g}")(
                type("Planted", (cls,), {"largest_curvature": staticmethod(said), "__doc__": "Planted."})
            )()
            arm = next(arm for of, arm in posteriors.arms(planted, 100).items() if "Firefly" in of)
            problem = bind(arm, tmp_path / f"{share:g}", needs_map=True)
            trials = [*prove._functions(planted, arm, problem, name)]
            assert {trial.name for trial in trials if not trial.passed} == failed, trials
            assert {"slopes", "curvature", "kappa", "bounds"} <= {trial.name for trial in trials}


def test_several_modes_are_seen_where_its_class_says_one(cache, tmp_path):
    with registered("flyrun_rows") as module:
        planted = option("model", "single")(type("Single", (module.LabelNoise,), {"one_mode": True}))()
        arm = next(arm for of, arm in posteriors.arms(planted, 100).items() if "Firefly" in of)
        trials = prove._functions(planted, arm, bind(arm, tmp_path, needs_map=True), "")
        assert [trial.name for trial in trials if not trial.passed] == ["one mode"]


def test_a_wrong_curvature_is_seen(cache, tmp_path):
    """By the search for kappa; without bounds by its trial."""
    with registered("flyrun_rows") as module:
        for bounds in (True, False):
            wrong = {"curvature": staticmethod(lambda eta, y: 0.2 + 0.0 * eta), "bounds": bounds}
            cls = type("Bent", (module.LabelNoise,), wrong)
            planted = option("model", f"bent_{bounds}".lower())(cls)()
            arm = next(iter(posteriors.arms(planted, 100).values()))
            if bounds:
                with pytest.raises(ConfigError, match="is not what the slope falls by"):
                    bind(arm, tmp_path, needs_map=True)
        problem = bind(replace(arm, model=planted), tmp_path, needs_map=True)
        trials = prove._functions(planted, replace(arm, model=planted), problem, "")
        assert [trial.passed for trial in trials] == [True, False]
