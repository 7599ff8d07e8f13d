"""Fits of small tables are quicker in one process: a second takes two seconds to begin."""

import pytest

from flyrun.ground import addresses
from tests.s3_server import serving


@pytest.fixture(autouse=True)
def _one_process(monkeypatch, request):
    if "beside" not in request.fixturenames:
        monkeypatch.setattr("flyrun.fitting.second_process.cores", lambda: 1)


@pytest.fixture
def beside(monkeypatch):
    """As where there are two cores."""
    monkeypatch.setattr("flyrun.fitting.second_process.cores", lambda: 2)


@pytest.fixture
def no_figures(monkeypatch):
    """Reports have tables alone: matplotlib takes a second to begin, and a second a report."""
    monkeypatch.setattr("flyrun.ground.page.figures._drawn", lambda plot, path, pdf: ("", []))


@pytest.fixture
def s3(monkeypatch):
    """A server of S3 on this machine, which addresses lead to."""
    with serving() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        addresses._system_of.cache_clear()
        yield server
    addresses._system_of.cache_clear()
