"""Hydra's own words: each does what it says, or ends in a line whose remedy runs when typed as printed."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys

import pytest

from flyrun.cli.main import main
from flyrun.experiments.config.compose import compose_job
from flyrun.experiments.config.overrides import read
from flyrun.ground.errors import ConfigError

ARM = ["dataset=toy_2d", "model=logistic", "bound=map", "sampler=random_walk", "protocol=smoke"]

#: what is typed, and what is to be typed instead
REMEDIES = {
    "protocol.seeds=range(0,3)": "protocol.seeds=[0,1,2]",
    "protocol.seeds=choice(0,2)": "protocol.seeds=[0,2]",
    "only=map,regular": "only=[map,regular]",
    "hydra.run.dir=mine": "results_dir=mine",
    "hydra.sweeper.params.prior.scale=1,2": "-m prior.scale=1,2",
    "+hydra.sweeper.params={+prior.scale:'1,2'}": "-m prior.scale=1,2",
    "prior.scale=interval(1,2)": "-m prior.scale=1.0,2.0",
}


@pytest.mark.parametrize("word", REMEDIES)
def test_the_remedy_is_what_works(word, capsys):
    assert main([*ARM, word]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    remedy = re.search(r'(?:a list as|run, as in|write) (?!a list|those)(-m \S+|"[^"]+"|[^\s,]\S*)', said)
    words = shlex.split(remedy[1])
    assert words == shlex.split(REMEDIES[word])
    multirun = words[0] == "-m"
    if not multirun and "only" not in word:
        compose_job([*ARM, *words])
    read([*ARM, *words[multirun:]], multirun)


@pytest.mark.thorough(but=2)
@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["prior.scale=1,2"], "holds several values; add -m to run them in turn"),
        (["-m", "prior.scale=range(5,1)"], "holds no value"),
        (["-m", "prior.scale=range(0,1e9)"], "holds more than 10,000 values"),
        (["-m", "prior.scale=glob(*)"], "stands for a group's options"),
        (["-m", "prior=glob(zz*)"], "these words make no job"),
        (["-m", "prior.scale=1,2", "hydra.sweeper.max_batch_size=0"], "Hydra takes no such words"),
    ],
)
def test_a_sweep_without_jobs_is_no_success(words, text, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main([*ARM, *words]) == 2
    assert text in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.thorough
def test_without_assertions_it_is_the_same(tmp_path):
    """PYTHONOPTIMIZE takes Hydra's own checks away."""
    words = ["-O", "-m", "flyrun", "-m", *ARM, "prior.scale=1,2", "hydra.sweeper.max_batch_size=0"]
    done = subprocess.run([sys.executable, *words], cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr


@pytest.mark.parametrize(
    ("typed", "run"),
    [
        ("prior.scale=1,1.0,1e0", "prior.scale=1"),
        ("prior.scale=range(1,3)", "prior.scale=range(1,3)"),
        ("prior.grid=[1,2],[1.0,2]", "prior.grid=[1,2]"),
        ("protocol.extend=true,1", "protocol.extend=true,1"),
        ("name=1,1.0", "name=1,1.0"),
        ("arms.map_tuned.brightness.q=0.1,1e-1,0.2", "arms.map_tuned.brightness.q=0.1,0.2"),
        ("prior=gaussian,laplace,gaussian", "prior=gaussian,laplace"),
    ],
)
def test_values_that_are_one_and_the_same_are_one_job(typed, run):
    (entry,) = read([typed], multirun=True)
    assert entry.text == run


def test_of_a_key_typed_twice_the_last_word_counts_in_a_sweep_too():
    entries = read(["prior.scale=1,2", "prior.scale=3"], multirun=True)
    assert [one.text for one in entries] == ["prior.scale=3"]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("protocol.seeds=[18446744073709551616]", "]: must be a whole number or a list of whole numbers"),
        ("protocol.seeds=100000000", "protocol.seeds=100000000: must"),
        ("protocol.iterations=1e20", "protocol.iterations=1e+20: must be a whole number in [1, 1e+12]"),
        ("protocol.thin=1e30", "protocol.thin=1e+30: must"),
        ("dataset.n_data=1e30", "dataset.n_data=1e+30: must be"),
        ("executor.workers=1e30", "executor.workers=1e+30: must be"),
    ],
)
def test_numbers_that_no_machine_counts_to_are_refused_before_anything_runs(words, text):
    with pytest.raises(ConfigError, match=re.escape(text)):
        compose_job([*ARM, words])


@pytest.mark.thorough
def test_the_largest_seed_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main([*ARM, "protocol.seeds=[18446744073709551615]", "--quiet", "executor.workers=1"]) == 0


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("level", ["1", "2"])
def test_sweeps_and_lists_are_read_under_python_o(level):
    """PYTHONOPTIMIZE=1 leaves out assert statements, by which Hydra steps through brackets: `range(1,3)`
    ended in an AttributeError."""
    words = ["protocol.seeds=[0,1]", "bound.slack=range(1,3)", "prior.scale=choice(1,2)"]
    read_it = (
        "from flyrun.experiments.config.overrides import read; print([e.value for e in read(WORDS, True)])"
    )
    line = read_it.replace("WORDS", repr(words))
    environment = {**os.environ, "PYTHONOPTIMIZE": level}
    done = subprocess.run([sys.executable, "-c", line], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "[0, 1]" in done.stdout
