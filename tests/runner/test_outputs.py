"""--quiet and --json: what a run prints for scripts."""

import io
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import runner_fakes as fakes

from flyrun.cli.main import main
from flyrun.experiments.runner.events import Events
from flyrun.experiments.runner.launch import run


def events(stream):
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def kinds(stream):
    return [event["event"] for event in events(stream)]


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("workers", [1, 2])
def test_events_of_a_run(tmp_path, workers):
    stream = io.StringIO()
    run(fakes.make_job(tmp_path, workers=workers), Events(stream), fakes.prepare)
    said = events(stream)
    assert said[0]["event"] == "started"
    assert [cell["action"] for cell in said[0]["cells"]] == ["run"] * 4
    assert kinds(stream).count("cell_started") == kinds(stream).count("cell_finished") == 4
    progress = [event for event in said if event["event"] == "progress"]
    assert progress[-1]["iteration"] <= progress[-1]["iterations"] == fakes.ITERATIONS
    assert progress[0]["seconds_left"] > 0
    assert progress[0]["means"]["queries"] == 7
    assert all(event["time"] for event in said)


def test_events_of_failures_and_of_damage(tmp_path, monkeypatch):
    monkeypatch.setenv("FAKE_FAULT", "raise:one:0:700")
    stream = io.StringIO()
    run(fakes.make_job(tmp_path, seeds=1), Events(stream), fakes.prepare)
    (failed,) = (event for event in events(stream) if event["event"] == "cell_failed")
    assert (failed["arm"], failed["seed"], failed["text"]) == ("one", 0, "ValueError: a planted fault")
    assert "Traceback" in Path(failed["log"]).read_text()
    monkeypatch.delenv("FAKE_FAULT")
    newest = max(tmp_path.glob("runs/*/one/*/*/checkpoint-*"))
    newest.write_bytes(b"")
    again = io.StringIO()
    run(fakes.make_job(tmp_path, seeds=1), Events(again), fakes.prepare)
    (note,) = (event for event in events(again) if event["event"] == "note")
    assert (note["arm"], note["seed"]) == ("one", 0)
    assert "goes back to iteration" in note["text"]


@pytest.fixture
def fake_runs(tmp_path, monkeypatch):
    """The command line with the runner's fake program and no report."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("flyrun.experiments.runner.launch.default_prepare", fakes.prepare)
    monkeypatch.setattr(
        "flyrun.experiments.report.build.build",
        lambda folder, console: print("a table" if console else "", end="") or SimpleNamespace(complete=True),
    )
    return ["experiment=mnist_logreg", "protocol=smoke", "executor.workers=1", "protocol.seeds=1"]


@pytest.mark.thorough
def test_quiet_prints_the_path_of_the_table(fake_runs, capsys):
    assert main([*fake_runs, "--quiet"]) == 0
    printed = capsys.readouterr()
    assert printed.out == "results/runs/mnist_logreg/table.csv\n"
    assert printed.err == ""


@pytest.mark.thorough
def test_quiet_tells_of_failures(fake_runs, capsys, monkeypatch):
    monkeypatch.setenv("FAKE_FAULT", "raise:untuned:0:200")
    assert main(["--quiet", *fake_runs]) == 1
    printed = capsys.readouterr()
    assert printed.out.count("\n") == 1
    assert printed.err.count("\n") == 1
    assert "untuned seed=0: failed: ValueError: a planted fault; traceback in" in printed.err


@pytest.mark.thorough
def test_json_ends_with_table_and_exit_code(fake_runs, capsys):
    assert main([*fake_runs, "--json"]) == 0
    printed = capsys.readouterr()
    said = [json.loads(line) for line in printed.out.splitlines()]
    assert said[-2]["csv"] == "results/runs/mnist_logreg/table.csv"
    assert said[-1]["event"] == "ended"
    assert said[-1]["exit_code"] == 0
    assert printed.err == ""


def test_json_tells_of_errors_too(fake_runs, capsys):
    assert main([*fake_runs, "--json", "prior.scale=-1"]) == 2
    printed = capsys.readouterr()
    assert [json.loads(line)["event"] for line in printed.out.splitlines()] == ["error", "ended"]
    assert printed.err.startswith("flyrun: error: prior.scale=-1")


def test_one_output_at_a_time(fake_runs, capsys):
    assert main([*fake_runs, "--json", "--quiet"]) == 2
    assert "do not go together" in capsys.readouterr().err
