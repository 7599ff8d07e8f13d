"""Likelihoods of tools/likelihoods/flyrun_rows.py, or of flyrun_jax_rows.py, in this process for a while."""

import contextlib
from pathlib import Path

from tools.results.older import registered as registered_from

PLUGINS = Path(__file__).parent
ROWS = Path(__file__).parents[2] / "tools/likelihoods"
FOLDERS = [PLUGINS, ROWS]


@contextlib.contextmanager
def registered(module, *classes):
    """A module of these folders; its choices and other classes are registered until the block ends."""
    path = next(path for folder in FOLDERS if (path := folder / f"{module}.py").is_file())
    with registered_from([path], *classes) as (loaded,):
        yield loaded
