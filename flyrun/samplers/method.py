"""What every method offers, whatever its family: all that the runner knows of one."""

import importlib
from pathlib import Path
from typing import Any


def prepare(arm: Any, folder: Path) -> Any:
    """The method of an arm, made by its family: data loaded, what is needed fitted (or recalled from folder).

    Raises DataError or ConfigError, one line each, for what a person can mend.
    """
    return importlib.import_module(arm.sampler.path_of_family).prepare(arm, folder)
