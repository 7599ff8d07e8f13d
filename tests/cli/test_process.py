"""`flyrun` as a process of its own: start-up time, what is imported, exit codes, no traceback."""

from __future__ import annotations

import resource
import subprocess
import sys
import time

import pytest

HEAVY = (
    "numba",
    "sklearn",
    "pandas",
    "matplotlib",
    "arviz_base",
    "arviz_stats",
    "xarray",
    "rich",
    "scipy",
    "hydra",
)


def flyrun(*words: str, cwd=None) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "flyrun", *words], cwd=cwd, capture_output=True, text=True, timeout=120
    )


@pytest.mark.thorough
def test_help_is_fast():
    flyrun("--help")
    start = time.perf_counter()
    done = flyrun("--help")
    assert time.perf_counter() - start < 3.0  # under 0.1 s on an idle machine
    assert done.returncode == 0
    assert "flyrun experiment=NAME" in done.stdout


@pytest.mark.thorough
def test_completion_is_fast(monkeypatch):
    """In seconds of the processor: they do not depend on who else works."""
    monkeypatch.setenv("COMP_LINE", "flyrun experiment=mnist_logreg brightness.q=0.1 brightness.")
    flyrun("-sc", "query=bash")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = flyrun("-sc", "query=bash")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert "brightness.fraction=" in done.stdout.split()
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 2.1  # 0.4 measured


@pytest.mark.parametrize(
    ("line", "heavy"),
    [
        ("import flyrun.cli", HEAVY),
        ("from flyrun.cli.main import main; main(['list'])", HEAVY),
        ("from flyrun.cli.main import main; main(['--help'])", tuple({*HEAVY} - {"rich"})),
        (
            "import flyrun.fitting.engine",
            ("numba", "matplotlib", "xarray", "scipy.optimize", "hydra"),
        ),
    ],
)
def test_nothing_heavy_is_imported(line, heavy):
    code = f"{line}\nimport sys; sys.exit(' '.join(set({heavy!r}) & set(sys.modules)) or 0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["experiment=mnist_logreg", "prior.scale=-1"], "prior.scale=-1: must"),
        (["experiment=mnist_logreg", "prior=cauchy"], "choose from gaussian"),
        (["lst"], "did you mean list?"),
    ],
)
def test_bad_calls_end_in_one_line(tmp_path, words, text):
    done = flyrun(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("flyrun: error: ")
    assert text in done.stderr
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_reader_that_goes_away(tmp_path):
    code = "import sys; from flyrun.cli.main import main; sys.exit(main(['list']))"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as started:
        started.stdout.close()
        error = started.stderr.read()
    assert b"Traceback" not in error
