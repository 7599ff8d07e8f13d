"""The likelihoods of flyrun_rows.py and flyrun_jax_rows.py in this process, for a while."""

import contextlib
import importlib
import sys
from pathlib import Path

from flyrun.ground.schema import SCHEMAS

HERE = str(Path(__file__).parent)


@contextlib.contextmanager
def registered(module, *classes):
    """A module of this folder, its classes and others choices of model until the block ends."""
    before = dict(SCHEMAS["model"])
    sys.path.insert(0, HERE)
    try:
        loaded = importlib.import_module(module)
        ours = [value for value in vars(loaded).values() if getattr(value, "__module__", "") == module]
        SCHEMAS["model"] |= {value.name: value for value in (*ours, *classes) if isinstance(value, type)}
        yield loaded
    finally:
        sys.path.remove(HERE)
        SCHEMAS["model"].clear()
        SCHEMAS["model"].update(before)
