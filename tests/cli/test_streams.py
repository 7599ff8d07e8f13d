"""Whatever stdout and terminal are, a command does its work, or says in one line what it could not."""

import io
import json
import os
import sys

import pytest
import rich.console

from flyrun.cli.main import main
from flyrun.experiments.runner import progress
from flyrun.experiments.runner.events import Events


def test_a_full_disk_is_one_line(monkeypatch, capsys):
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert main(["list"]) == 2
        full.flush()
    said = capsys.readouterr().err
    assert said.startswith("flyrun: error: stdout: No space left on device")
    assert said.count("\n") == 1


def test_a_reader_that_is_gone(monkeypatch, capsys):
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        assert main(["list"]) == 1
    assert capsys.readouterr().err == ""


def test_stdout_that_is_closed(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["list"]) == 0
    assert capsys.readouterr().err == ""


def test_characters_that_an_encoding_lacks(monkeypatch):
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, "ascii"))
    monkeypatch.setattr("flyrun.cli.main._dispatch", lambda words: print("2 ± 1 ≤ θ") or 0)
    assert main(["list"]) == 0
    assert raw.getvalue() == b"2 +- 1 <= \\u03b8\n"
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, "ascii")
    Events(stream).say("2 ± 1")
    assert json.loads(raw.getvalue())["text"] == "2 ± 1"


@pytest.mark.parametrize("columns", ["0", "00"])
def test_no_columns_are_not_taken_at_their_word(monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    main(["--version"])
    assert "COLUMNS" not in os.environ


@pytest.mark.parametrize("columns", [20, 40])
def test_narrow_terminals_show_all(columns, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(columns))
    assert main(["list", "priors"]) == 0
    assert "laplace" in capsys.readouterr().out


def test_a_dumb_terminal_gets_lines():
    """Bars move the cursor, which such a terminal cannot: it would show nothing while cells run."""
    for term, kind in {"dumb": progress.Lines, "xterm": progress.Bars}.items():
        console = rich.console.Console(file=io.StringIO(), force_terminal=True, _environ={"TERM": term})
        shown = progress.display(console, 1, bars=True)
        shown.close()
        assert type(shown) is kind


def test_update_from_a_wheel_is_refused(monkeypatch, capsys):
    monkeypatch.setattr("flyrun.ground.paths.in_checkout", lambda: False)
    assert main(["check", "toy_flymc", "--update"]) == 2
    assert "add --values FOLDER" in capsys.readouterr().err
