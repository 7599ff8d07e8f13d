"""Shared settings: fixed seeds, no deadline where code compiles first, figures where they matter."""

import collections
import gc
import os
import re

# Before flyrun is imported, and for processes that tests start: half the time of compiling, the same numbers.
# `make check` compares chains with the stored ones under the default, but for .ci/run.
os.environ.setdefault("FLYRUN_COMPILE", "quick")
# Matrices are small here, and a worker stands on every core: two threads each wait for one another, and a
# test of 6 s takes 16. Runs and fits of the tests' processes share the setting.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest
from hypothesis import settings

from flyrun.experiments import data
from flyrun.ground import files
from flyrun.ground.page import figures

settings.register_profile("flyrun", deadline=None, derandomize=True)
settings.load_profile("flyrun")

# compiling makes many objects that stay: collecting them again and again takes a tenth of its time
gc.set_threshold(100_000, 20, 100)

# No test cuts the power. Waiting for the disk takes 15 s of the suite; processes that tests start do wait.
files._sync = lambda path: None

_SAVED, _DRAWN = figures.saved, figures._drawn
_EMPTY = b"\x89PNG", '<svg xmlns="http://www.w3.org/2000/svg"/>'
"""What stands for a figure: to lay one out and save it takes nine tenths of a small report's time."""

_NEVER_THOROUGH = re.compile(
    "enumerat|negative_control|resum|bit_for_bit|cuts_|a_cut_|chunk_borders_leave|one_chain|counting"
)
"""Tests whose names hold one of these are in the first tier, with one of their cases or more."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Takes the mark `thorough` from the cases that its `but` keeps in the first tier: a number, the first so
    many of the test's; a text, those whose names hold it; a tuple, those of each.
    """
    numbers, moved = collections.Counter(), {}
    for item in items:
        mark = item.get_closest_marker("thorough")
        if mark is None:
            continue
        test, _, case = item.nodeid.partition("[")
        kept = mark.kwargs.get("but", ())
        kept = kept if isinstance(kept, tuple) else (kept,)
        number, numbers[test] = numbers[test], numbers[test] + 1
        stays = any(number < one if isinstance(one, int) else one in case for one in kept)
        if stays:
            item.own_markers.remove(mark)
        moved[test] = moved.get(test, True) and not stays
    whole = not any("::" in path for path in config.args)  # else cases that stay may not have been asked for
    for test in moved if whole else ():
        if moved[test] and _NEVER_THOROUGH.search(test):
            raise pytest.UsageError(
                f"{test}: a test of this kind keeps a case in the first tier; name it: thorough(but=...)"
            )


def pytest_collection_finish():
    """What has been imported stays: collecting garbage need not look at it again."""
    gc.freeze()


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

    def drawn(plot, path, pdf=False):
        figures.saved = _SAVED if path.name in mark.args else _not_saved
        return _DRAWN(plot, path, pdf)

    if mark and mark.args:
        figures._drawn = drawn
    try:
        return (yield)
    finally:
        figures.saved, figures._drawn = _SAVED, _DRAWN
