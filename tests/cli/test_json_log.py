"""`--log json`: stdout holds one JSON object a line and nothing else, whatever the command and its end."""

import json
import os
import signal
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from flyrun.cli.main import main
from flyrun.fitting import command
from flyrun.ground import progress
from flyrun.ground.lock import locked
from flyrun.ground.page import render


@pytest.fixture(autouse=True)
def table(tmp_path, monkeypatch):
    """A table in the current folder, and no page of figures, which takes long."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("flyrun.fitting.second_process.report", lambda folder: None)
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"x": rng.normal(size=80)})
    rows.assign(y=rows["x"] + rng.normal(size=80)).to_csv("t.csv", index=False)


def events(capsys):
    """What stdout holds, all of it events, and what stderr does."""
    printed = capsys.readouterr()
    said = [json.loads(line) for line in printed.out.splitlines()]
    assert all(line["event"] and line["time"] for line in said)
    assert [line["event"] for line in said].count("ended") == 1
    assert said[-1]["event"] == "ended"
    return said, printed.err


@pytest.mark.parametrize("flag", [["--log", "json"], ["log=json"], ["--json"]])
def test_a_fit_tells_paths_and_its_exit_code(flag, capsys):
    assert main(["fit", "t.csv", "y ~ x", "--model", "gaussian", *flag]) == 0
    said, errors = events(capsys)
    assert {line["event"] for line in said[:-2]} == {"note"}
    assert said[-2]["event"] == "table"
    assert said[-2]["posterior"] == "results/runs/t/posterior.nc"
    assert said[-1]["exit_code"] == 0
    assert errors == ""


def test_predictions_go_to_a_file_alone(capsys):
    assert main(["fit", "t.csv", "y ~ x", "--quiet", "--model", "gaussian"]) == 0
    capsys.readouterr()
    assert main(["predict", "t", "t.csv", "--log", "json"]) == 2
    said, errors = events(capsys)
    assert [line["event"] for line in said] == ["error", "ended"]
    assert "name a file for predictions with --out FILE" in errors
    assert main(["predict", "t", "t.csv", "--log", "json", "--out", "p.csv", "--draws", "50"]) == 0
    said, errors = events(capsys)
    assert [line["event"] for line in said] == ["note", "predictions", "ended"]
    assert errors == ""
    assert (said[1]["rows"], said[1]["file"]) == (80, "p.csv")


@pytest.mark.parametrize(
    ("words", "code", "fault"),
    [
        (["fit", "no.csv", "y ~ x"], 2, "no.csv"),
        (["fit", "t.csv", "y ~ z"], 2, "z"),
        (["predict", "no", "t.csv", "--out", "p.csv"], 2, "no such run"),
        (["report", "no"], 2, "no such run"),
        (["no"], 2, "no such command"),
        (["experiment=no"], 2, "experiment"),
    ],
)
def test_an_error_is_an_event_and_a_line(words, code, fault, capsys):
    assert main([*words, "--log", "json"]) == code
    said, errors = events(capsys)
    assert [line["event"] for line in said] == ["error", "ended"]
    assert fault in said[0]["text"]
    assert errors == f"flyrun: error: {said[0]['text']}\n"
    assert said[-1]["exit_code"] == code


def test_what_any_verb_prints_is_notes(capsys):
    assert main(["list", "priors", "--log", "json"]) == 0
    said, _ = events(capsys)
    assert {line["event"] for line in said[:-1]} == {"note"}
    assert any("laplace" in line["text"] for line in said[:-1])


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_has_its_exit_code(number, code, capsys, monkeypatch):
    monkeypatch.setattr(command, "_fit", lambda *given: os.kill(os.getpid(), number))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert main(["fit", "t.csv", "y ~ x", "--log", "json"]) == code
    finally:
        signal.signal(signal.SIGINT, before)
    said, _ = events(capsys)
    assert [line["event"] for line in said] == ["warning", "ended"]
    assert "what was finished is kept" in said[0]["text"]
    assert said[-1]["exit_code"] == code


def test_no_memory_is_a_line(capsys, monkeypatch):
    def full(*given):
        raise MemoryError("Unable to allocate 9 GiB")

    monkeypatch.setattr(command, "_fit", full)
    assert main(["fit", "t.csv", "y ~ x", "--log", "json"]) == 2
    said, errors = events(capsys)
    assert [line["event"] for line in said] == ["error", "ended"]
    assert errors.startswith("flyrun: error: out of memory (Unable to allocate 9 GiB); use fewer columns")


def test_warnings_of_python_are_events(capsys, monkeypatch):
    def warned(*given):
        print("half ", end="")
        warnings.warn("odd numbers", RuntimeWarning, stacklevel=1)
        print("a line", end="")
        return 0

    monkeypatch.setattr(command, "_fit", warned)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert main(["fit", "t.csv", "y ~ x", "--log", "json"]) == 0
    said, _ = events(capsys)
    assert [(line["event"], line.get("text")) for line in said[:-1]] == [
        ("note", "half "),
        ("warning", "odd numbers"),
        ("note", "a line"),
    ]


@pytest.mark.parametrize("words", [["--log", "text"], ["--log"], ["--log="]])
def test_another_log_is_refused(words, capsys):
    assert main(["list", *words]) == 2
    assert "must be json, as in `--log json`" in capsys.readouterr().err


def test_no_bars_move_in_a_file_that_takes_colours(monkeypatch, tmp_path):
    """As continuous integration has it, which sets FORCE_COLOR."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    with open(tmp_path / "log", "w") as file:
        monkeypatch.setattr(sys, "stdout", file)
        console = render.screen()
        assert console.is_terminal
        assert not progress.moves(console)
        with progress.counted(console, "scan", 2) as tell:
            tell(1, "quick")
    assert (tmp_path / "log").read_text() == ""


def test_a_second_fit_of_a_name_is_refused_while_the_first_is_at_work(capsys):
    folder = Path("results/runs/t")
    folder.mkdir(parents=True)
    words = ["fit", "t.csv", "y ~ x", "--model", "gaussian", "--log", "json"]
    with locked(folder / "lock"):
        assert main(words) == 2
        said, _ = events(capsys)
        assert f"results/runs/t is in use by process {os.getpid()} on" in said[0]["text"]
        assert [path.name for path in folder.iterdir()] == ["lock"]
    assert main(words) == 0
    assert events(capsys)[0][-1]["exit_code"] == 0
