"""Published runs that are older than their experiment: what they were set to beside what it says now."""

import argparse
import contextlib
import importlib
import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from flyrun.experiments.compare.publish import SETTINGS
from flyrun.experiments.config.arm import Arm
from flyrun.experiments.config.compose import compose_job
from flyrun.ground.schema import SCHEMAS, Choice, flat, show
from tools.results import published


def changes(folder: Path) -> list[str] | None:
    """How a published run's arms differ from those that its command makes now; None without settings.json.

    A key that an option has gained since is no change while it is at its default, nor one that is gone.
    """
    try:
        stored = json.loads((folder / SETTINGS).read_text("utf-8"))
    except FileNotFoundError:
        return None
    then = {name: stored["all"] | own for name, own in stored["arms"].items()}
    words = argparse.ArgumentParser()
    words.add_argument("--config-dir", action="append", default=[])
    further, typed = words.parse_known_args(shlex.split(stored["command"])[1:])
    folders = [published.MEASURED.parents[1] / folder for folder in further.config_dir]
    with registered([path for folder in folders for path in folder.glob("flyrun_*.py")]):
        now = {arm.name: arm for arm in compose_job(typed, folders).arms}
    found = [f"{name}: no longer an arm" for name in then if name not in now]
    found += [f"{name}: not published" for name in now if name not in then]
    found += _without_spread(folder)
    return found + [
        f"{name}: {text}" for name in then if name in now for text in _changes(then[name], now[name])
    ]


@contextlib.contextmanager
def registered(paths: list[Path], *classes: type[Choice]) -> Iterator[list[ModuleType]]:
    """Packages of a module each that nobody has installed; their choices and classes until the block ends."""
    before = {group: dict(choices) for group, choices in SCHEMAS.items()}
    folders = [str(path.parent) for path in paths]
    sys.path[:0] = folders
    try:
        modules = [importlib.import_module(path.stem) for path in paths]
        for module in modules:
            theirs = [value for value in vars(module).values() if isinstance(value, type)]
            classes += tuple(value for value in theirs if value.__module__ == module.__name__)
        for choice in classes:
            if issubclass(choice, Choice):
                SCHEMAS[choice.group][choice.name] = choice
        yield modules
    finally:
        for folder in folders:
            sys.path.remove(folder)
        for group in SCHEMAS:
            SCHEMAS[group].clear()
            SCHEMAS[group].update(before.get(group, {}))


#: columns of what is shown after ±, of reports in which it was worked out from effective draws alone
_WITHOUT_SPREAD = ("shards_off_se", "bias_error")


def _without_spread(folder: Path) -> list[str]:
    """Whether the report has errors that leave out what seeds differ by."""
    path = folder / "table.csv"
    told = published.rows(path) if path.exists() else []
    kept = [name for name in _WITHOUT_SPREAD if any(row.get(name) not in ("", None) for row in told)]
    return [f"{name}: leaves out what seeds differ by" for name in kept]


def _changes(then: dict[str, Any], arm: Arm) -> list[str]:
    now = json.loads(json.dumps(flat(arm.key_settings())))
    usual = set(now) - set(flat({g: choice.non_default() for g, choice in arm.choices().items()}))
    usual |= {f"{group}.name" for group, choice in arm.choices().items() if choice.neutral}
    found = {key: (then.get(key), value) for key, value in now.items() if key in then or key not in usual}
    changed = {key: pair for key, pair in found.items() if pair[0] != pair[1]}
    renamed = {
        key.partition(".")[0] for key in changed if key.endswith(".name")
    }  # its keys are another option's
    return [
        f"{key}={show(before)}, now {show(after)}"
        for key, (before, after) in changed.items()
        if key.endswith(".name") or key.partition(".")[0] not in renamed
    ]
