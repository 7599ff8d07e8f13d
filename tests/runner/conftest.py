import io
from pathlib import Path

import fakes
import numpy as np
import pytest
from rich.console import Console

from flyrun.runner import store
from flyrun.runner.launch import run


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


def draws_of(run_dir):
    """{(arm, seed): {group/name: array}} of every finished cell, read back from the posterior files."""
    found = {}
    for cell in store.open_cells(Path(run_dir)):
        if cell.state != "done":
            continue
        with cell.tree() as tree:
            found[cell.arm, cell.seed] = {
                f"{node.name}/{name}": np.array(variable)
                for node in tree.children.values()
                for name, variable in node.data_vars.items()
            }
    return found


def assert_same(found, wanted):
    assert found.keys() == wanted.keys()
    for cell, arrays in wanted.items():
        assert found[cell].keys() == arrays.keys()
        for name, array in arrays.items():
            np.testing.assert_array_equal(found[cell][name], array, err_msg=f"{cell} {name}")


@pytest.fixture(scope="session")
def unbroken(tmp_path_factory):
    """Draws of an unbroken run in this process, and its folder."""
    result = run(fakes.make_job(tmp_path_factory.mktemp("unbroken")), None, fakes.prepare)
    assert result.exit_code == 0
    return draws_of(result.run_dir)
