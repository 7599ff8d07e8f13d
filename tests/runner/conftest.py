import io

import pytest
import runner_fakes as fakes
from rich.console import Console
from runner_fakes import draws_of

from flyrun.experiments.runner.launch import run


class Screen:
    """A console that is no terminal, and what was printed on it."""

    def __init__(self):
        self.file = io.StringIO()
        self.console = Console(file=self.file, width=200)

    def __str__(self):
        return self.file.getvalue()


@pytest.fixture
def screen():
    return Screen()


@pytest.fixture(scope="session")
def unbroken(tmp_path_factory):
    """Draws of an unbroken run in this process, and its folder."""
    result = run(fakes.make_job(tmp_path_factory.mktemp("unbroken")), None, fakes.prepare)
    assert result.exit_code == 0
    return draws_of(result.run_dir)
