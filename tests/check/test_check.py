"""`flyrun check`: equal bits pass, changed ones do not, other arithmetic is compared by a test at a level."""

from __future__ import annotations

import itertools
import json
from copy import deepcopy

import numpy as np
import pytest
from scipy import stats

from flyrun.cli.main import main
from flyrun.experiments.check import against, judge, measure, run
from flyrun.ground.errors import ConfigError

HERE = {"processor": "a", "numpy": "2"}


def arm(seed=0, queries=1000.0, setup="s", draws="d"):
    rng = np.random.default_rng(seed)
    return {
        "setup": setup,
        "draws": draws,
        "queries": rng.normal(queries, 10, 8).round().astype(int).tolist(),
        "moves": rng.binomial(200, 0.25, 8).tolist(),
        "level": rng.normal(-40, 2, 8).tolist(),
    }


@pytest.fixture
def found(monkeypatch):
    """What measuring toy_flymc gives; tests change it."""
    arms = {"regular": arm(1), "map_tuned": arm(2)}
    monkeypatch.setattr(run, "measure", lambda name, *_: deepcopy(arms))
    monkeypatch.setattr(run, "machine", lambda: dict(HERE))
    monkeypatch.setattr(run, "probe", lambda say: say("probes passed") or 0)
    return arms


def check(folder, *words):
    return main(["check", "toy_flymc", f"values={folder}", "workers=1", *words])


@pytest.fixture
def folder(found, tmp_path, capsys):
    assert check(tmp_path, "--update") == 0
    assert "toy_flymc, map_tuned: new" in capsys.readouterr().out
    return tmp_path


def test_equal_bits_pass(folder, capsys):
    assert check(folder) == 0
    assert "toy_flymc: 2 exact" in capsys.readouterr().out


def test_other_bits_from_the_same_set_up_fail(found, folder, capsys):
    found["map_tuned"]["draws"] = "other"
    found["map_tuned"]["queries"][3] += 1
    assert check(folder) == 1
    printed = capsys.readouterr().out
    assert "1 exact, 1 differs" in printed
    assert "map_tuned: from the same set-up: queries " in printed
    assert "flyrun check --update" in printed


@pytest.mark.parametrize("other", ["set-up", "machine"])
def test_where_the_arithmetic_is_another_the_comparison_is_statistical(
    found, folder, monkeypatch, capsys, other
):
    if other == "machine":
        monkeypatch.setattr(run, "machine", lambda: {**HERE, "processor": "b"})
    setup = "t" if other == "set-up" else "s"
    found["map_tuned"] = arm(12, setup=setup, draws="e")
    assert check(folder) == 0
    printed = capsys.readouterr().out
    assert "1 exact, 1 alike" in printed
    assert "agree at level 0.0002, which would have seen off by: queries " in printed  # 0.001 / (2 · 3)
    assert "probes passed" in printed
    found["map_tuned"] = arm(12, queries=1050.0, setup=setup, draws="e")
    assert check(folder) == 1
    assert "means differ more than luck allows: queries" in capsys.readouterr().out


def test_the_level_holds_for_equal_chains():
    # the whole check at LEVEL; here each of 2,000 comparisons at 0.05 instead, so that some fail
    values = [(arm(k)["queries"], arm(k + 5000)["queries"]) for k in range(2000)]
    failed = sum(judge.p_value(a, b) < 0.05 for a, b in values)
    assert stats.binomtest(failed, 2000, 0.05).pvalue > 1e-3


def test_counts_that_do_not_vary_must_be_equal():
    assert judge.p_value([8, 8, 8], [8, 8, 8]) == 1
    assert judge.p_value([8, 8, 8], [9, 9, 9]) == 0


def test_what_is_not_stored_fails_and_is_said(found, folder, capsys):
    found["new_arm"] = arm(3)
    del found["regular"]
    assert check(folder) == 1
    printed = capsys.readouterr().out
    assert "new_arm: nothing is stored of it" in printed
    assert "regular: is stored, but the experiment has no such arm" in printed


def test_updating_prints_the_difference_and_then_passes(found, folder, capsys):
    found["regular"] = arm(1, queries=1100.0, draws="e")
    assert check(folder, "--update") == 0
    printed = capsys.readouterr().out
    assert "toy_flymc, regular: queries 1,00" in printed
    assert "other draws" in printed
    assert "map_tuned" not in printed
    assert check(folder) == 0
    assert check(folder, "--update") == 0
    assert "nothing changed" in capsys.readouterr().out


def test_another_size_is_not_compared(folder, monkeypatch, capsys):
    monkeypatch.setattr(run, "overrides", lambda name, *_: ["protocol=short"])
    assert check(folder) == 1
    assert "nothing is stored of it" in capsys.readouterr().out


@pytest.mark.thorough
def test_another_revision_is_compared_on_this_machine(found, tmp_path, capsys, monkeypatch):
    """Two revisions cannot be told apart by values of another processor: both run here, bit for bit."""

    def measure_there(folder, revision, names, workers):
        assert (folder / "flyrun/cli/main.py").is_file()
        assert not (folder / ".git").exists()
        check(tmp_path, "--update")
        return tmp_path

    monkeypatch.setattr(run, "measure_there", measure_there)
    words = ["check", "toy_flymc", "workers=1", "--against", "HEAD"]
    assert main(words) == 0
    printed = capsys.readouterr().out
    assert "toy_flymc: 2 exact" in printed
    assert "probes passed" not in printed
    both = [deepcopy(found), {**found, "map_tuned": arm(12, draws="e")}]
    turns = itertools.cycle(both)
    monkeypatch.setattr(run, "measure", lambda name, *_: next(turns))
    assert main(words) == 0
    printed = capsys.readouterr().out
    assert "1 exact, 1 alike" in printed
    assert "map_tuned: the code is another; agree at level" in printed
    assert "probes passed" in printed
    for name in both[1]:  # all of them, too: whether the posterior is still right is another question
        both[1][name] = arm(12, queries=1050.0, draws="e")
    assert main(words) == 1
    printed = capsys.readouterr().out
    assert "the code is another, and means differ more than luck allows: queries" in printed
    assert "alike" not in printed
    assert "probes passed" in printed


def test_a_revision_that_cannot_check_itself_is_one_line(tmp_path, monkeypatch):
    """A revision's own failure is not taken for values of its own."""
    (tmp_path / "checkout/flyrun").mkdir(parents=True)
    (tmp_path / "checkout/flyrun/__init__.py").write_text("")
    (tmp_path / "checkout/flyrun/__main__.py").write_text("raise SystemExit('no such verb')")
    with pytest.raises(ConfigError, match="check --against old: its own check ended with 1: no such verb"):
        against.measure_there(tmp_path / "checkout", "old", ["toy_flymc"], 1)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["check", "--against", "nowhere"], "check --against nowhere: no such revision; name a commit of "),
        (["check", "--against", "HEAD", "--update"], "--against and --update do not go together; drop one"),
        (["check", "toy"], "did you mean toy_flymc?"),
        (["check", "toy_flymc", "workers=0"], "--workers 0: must be a whole number"),
        (["check", "toy_flymc", "--updat"], "no such option"),
        (["check", "toy_flymc", "values={folder}"], "cannot be read"),
    ],
)
def test_bad_calls_are_one_line(found, tmp_path, capsys, words, text):
    (tmp_path / "toy_flymc.json").write_text("{")
    assert main([word.replace("{folder}", str(tmp_path)) for word in words]) == 2
    said = capsys.readouterr().err
    assert text in said
    assert said.count("\n") == 1


@pytest.mark.thorough
def test_real_arms_repeat_and_a_changed_sampler_is_found(monkeypatch):
    first, again = measure.measure("toy_flymc"), measure.measure("toy_flymc")
    assert first == again
    assert json.loads(json.dumps(first)) == first
    words = measure.overrides("toy_flymc")
    monkeypatch.setattr(measure, "overrides", lambda name, *_: [*words, "only=untuned", "brightness.q=1"])
    changed = measure.measure("toy_flymc")["untuned"]
    assert changed["setup"] != first["untuned"]["setup"]
    assert judge.judge(first["untuned"], changed, "", 100).kind == judge.DIFFERS
