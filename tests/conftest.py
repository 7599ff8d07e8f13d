"""Shared settings: fixed seeds, no deadline where code compiles first, figures where they matter."""

import gc
import os

# Before flyrun is imported, and for processes that tests start: half the time of compiling, the same numbers.
# `make check` compares chains with the stored ones under the default, but for .ci/run.
os.environ.setdefault("FLYRUN_COMPILE", "quick")
# Matrices are small here, and a worker stands on every core: two threads each wait for one another, and a
# test of 6 s takes 16. Runs and fits of the tests' processes share the setting.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest
from hypothesis import settings

from flyrun import data, files
from flyrun.report import figures

settings.register_profile("flyrun", deadline=None, derandomize=True)
settings.load_profile("flyrun")

# compiling makes many objects that stay: collecting them again and again takes a tenth of its time
gc.set_threshold(100_000, 20, 100)

# No test cuts the power. Waiting for the disk takes 15 s of the suite; processes that tests start do wait.
files._sync = lambda path: None

_SAVED, _DRAWN = figures.saved, figures._drawn
_EMPTY = b"\x89PNG", '<svg xmlns="http://www.w3.org/2000/svg"/>'
"""What stands for a figure: to lay one out and save it takes nine tenths of a small report's time."""


def _not_saved(figure):
    return _EMPTY


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Figures are plotted always, but laid out and saved only for what is marked `figures`: all of them, or
    those that the mark names.

    What another test loaded, perhaps by a loader of its own, is forgotten.
    """
    data._last = None
    mark = item.get_closest_marker("figures")
    figures.saved = _SAVED if mark else _not_saved

    def drawn(plot, path):
        figures.saved = _SAVED if path.name in mark.args else _not_saved
        return _DRAWN(plot, path)

    if mark and mark.args:
        figures._drawn = drawn
    try:
        return (yield)
    finally:
        figures.saved, figures._drawn = _SAVED, _DRAWN
