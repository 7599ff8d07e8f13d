"""Shared settings: fixed seeds, no deadline where code compiles first, figures where they matter."""

import pytest
from hypothesis import settings

from flyrun.report import figures

settings.register_profile("flyrun", deadline=None, derandomize=True)
settings.load_profile("flyrun")

_SAVED = figures.saved
_EMPTY = b"\x89PNG", '<svg xmlns="http://www.w3.org/2000/svg"/>'
"""What stands for a figure: to lay one out and save it takes nine tenths of a small report's time."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Figures are plotted always, but laid out and saved only for what is marked `figures`."""
    looks = item.get_closest_marker("figures") is not None
    figures.saved = _SAVED if looks else lambda figure: _EMPTY
    try:
        return (yield)
    finally:
        figures.saved = _SAVED
