"""What every folder under results/runs has: a name, and run.json."""

import itertools
import re
from pathlib import Path
from typing import Any

from flyrun.ground import files
from flyrun.ground.errors import ConfigError, StoreError
from flyrun.ground.schema import flat, show

RUN, POSTERIOR = "run.json", "posterior.nc"


def read_run(run_dir: Path) -> dict[str, Any]:
    """run.json of a run; raises StoreError when there is none or it is damaged."""
    path = Path(run_dir) / RUN
    if not path.exists():
        raise StoreError(f"{path} does not exist: nothing was run under this name; run it first")
    remedy = "run the same command again to write it anew"
    try:
        stored = files.read_json(path)
    except files.DamagedFile as error:
        raise StoreError(f"{error}; {remedy}") from error
    if not isinstance(stored, dict) or not isinstance(stored.get("arms"), list):
        raise StoreError(f"{path}: lists no arms; {remedy}")
    return stored


def changes(before: dict[str, Any], now: dict[str, Any]) -> str:
    """In which settings two differ, in words, "" where in none; where a file lies is none."""
    then, next_ = flat(before), flat(now)
    keys = [key for key in {**then, **next_} if then.get(key) != next_.get(key)]
    keys = [key for key in keys if key != "dataset.path"] if "dataset.sha256" in next_ else keys
    said = [f"{key}={show(then.get(key))}, now {show(next_.get(key))}" for key in keys[:3]]
    return "; ".join(said + ([f"{len(keys) - 3} more"] if len(keys) > 3 else []))


def free_name(folder: Path) -> str:
    """A name beside a run's that no run has."""
    numbered = (f"{folder.name}_{k}" for k in itertools.count(2))
    return next(name for name in numbered if not (folder.parent / name).exists())


FOLDER_NAME = re.compile(r"[A-Za-z0-9_+-][A-Za-z0-9._+-]{0,199}")


def folder_name(name: object, typed: str) -> str:
    """A run's name, which its folder has. Raises ConfigError, with how it was typed, for what is none."""
    if not isinstance(name, str) or not FOLDER_NAME.fullmatch(name):
        raise ConfigError(
            f"{typed}: must be a folder name of letters, digits and . _ + -, such as my_run, and no dot first"
        )
    return name
