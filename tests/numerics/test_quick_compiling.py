"""Code compiled quickly gives the numbers of code compiled by default, called by compiled code and Python."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
from typing import NamedTuple
import numpy as np
from flyrun.ground.numerics import compile_cache
from flyrun.ground.numerics.compiled import generic, implements, inline_jit, jit
from flyrun.ground.numerics.quick_compiling import QUICK

class Halves(NamedTuple):
    scale: float

@generic
def halved(kind, value): "value / 2, scaled."

@inline_jit
def plus(value, more):
    return value + more

implements(halved, Halves)(lambda kind, value: plus(kind.scale * value / 2, 0.1))

@jit
def total(kind, values):
    out = 0.0
    for value in values:
        out += np.exp(halved(kind, value))
    return out

both = total(Halves(1.3), np.linspace(0, 1, 1000)), plus(0.1, 0.2), plus(1, 2)
print(QUICK, compile_cache.folder().name.endswith("quick"), *map(repr, both))
"""


def said(how, folder, tmp_path):
    (program := tmp_path / "program.py").write_text(PROGRAM)
    environment = {
        **os.environ,
        "FLYRUN_COMPILE": how,
        "FLYRUN_CACHE": str(folder),
        "PYTHONPATH": os.getcwd(),
    }
    done = subprocess.run(
        [sys.executable, program], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.thorough
def test_the_numbers_are_the_same_and_the_caches_apart(tmp_path):
    quick, default = (said(how, tmp_path / "code", tmp_path) for how in ("quick", ""))
    assert quick[:2] == ["True", "True"]
    assert default[:2] == ["False", "False"]
    assert quick[2:] == default[2:]
    assert float(quick[2]) == pytest.approx(1550.13, rel=0.1)
    assert said("quick", tmp_path / "code", tmp_path) == quick  # found on disk
