"""A copy of a fit's process: what it gives is what this one would, and its death costs nothing."""

import os
import subprocess
import sys
from contextlib import contextmanager

import pytest

from flyrun.fitting import command, second_process
from flyrun.fitting.request import Clock, Request
from flyrun.fitting.second_process import _on_two
from flyrun.ground.errors import StoreError
from flyrun.tables import loader
from flyrun.tables.options import Table

HERE = os.getpid()


def slow_square(number):
    if number == 3 and os.getpid() != HERE and os.environ.get("FLYRUN_TEST_DIES"):
        os._exit(9)
    return number**2, os.getpid()


@pytest.mark.usefixtures("beside")
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no copy is made")
def test_a_copy_does_half_in_order_and_its_death_costs_nothing(monkeypatch):
    squares, where = zip(*_on_two(slow_square, range(5)), strict=True)
    assert squares == (0, 1, 4, 9, 16)
    assert len(set(where)) == 2
    monkeypatch.setenv("FLYRUN_TEST_DIES", "1")
    squares, where = zip(*_on_two(slow_square, range(5)), strict=True)
    assert squares == (0, 1, 4, 9, 16)
    assert set(where) == {HERE}


def reported(folder):
    """Who made a report; a copy dies over some."""
    if str(folder) == "dies" and os.getpid() != HERE:
        os._exit(9)
    if str(folder) == "full":
        raise StoreError("no room")
    return os.getpid()


@pytest.mark.usefixtures("beside")
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no copy is made")
def test_a_copy_makes_the_report_and_its_death_costs_nothing(monkeypatch, capfd):
    monkeypatch.setattr(second_process, "report", reported)
    monkeypatch.setattr(second_process, "_load_reports", lambda: None)
    made = {}
    for name, beside in (("there", True), ("dies", True), ("here", False)):
        with second_process.reporting(beside) as report:
            made[name] = report(name)
    assert made["there"] != HERE
    assert made["dies"] == made["here"] == HERE
    with pytest.raises(StoreError, match="no room"), second_process.reporting(beside=True) as report:
        report("full")
    with pytest.raises(StoreError), second_process.reporting(beside=True):
        raise StoreError("before it is asked")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("long", [True, False])
def test_of_a_long_file_the_digest_and_reports_come_before_what_draws(long, tmp_path, monkeypatch):
    path, digested, asked = tmp_path / "t.csv", [], []
    path.write_text("x,y\n1,2\n")

    @contextmanager
    def reporting(beside):
        asked.append((beside, len(digested)))
        yield None

    monkeypatch.setattr(loader, "_SETTLED_NS", -1)
    monkeypatch.setattr(loader, "_digest", lambda path: digested.append(path) or "0" * 64)
    monkeypatch.setattr(command, "_LONG_TO_READ", 0 if long else 1 << 20)
    monkeypatch.setattr(command, "reporting", reporting)
    monkeypatch.setattr(command, "_fit", lambda *_: loader.fingerprint(Table(path=str(path))))
    assert command.fit(Request(str(path), "y"), Clock(), None) == "0" * 64
    assert asked == [(long, int(long))]
    assert len(digested) == 1


def test_matplotlib_is_there_before_figures_are_shared_out(tmp_path):
    # each copy would import it for itself, .35 s
    code = """if True:
        import sys
        from functools import partial
        from pathlib import Path
        from flyrun.ground.page import figures

        def each(work, items):
            print("matplotlib.figure" in sys.modules)
            return map(work, items)

        figures.drawn({}, Path("."), each)
        figures.drawn({"none": partial(int, 0)}, Path("."), lambda *_: each(lambda _: ("", "", []), [0]))
    """
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.split() == ["False", "True"], done.stderr
