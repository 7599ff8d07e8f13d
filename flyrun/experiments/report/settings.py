"""What the arms of a run are set to, as typed, and where the paper's are set otherwise."""

import contextlib
import functools
from collections.abc import Mapping
from typing import Any

from flyrun.experiments.report.arms import Run
from flyrun.ground.errors import ConfigError
from flyrun.ground.page.document import NO_SETTINGS
from flyrun.ground.page.render import NOTHING, View
from flyrun.ground.schema import flat, schema, show

_ALL, _UNKNOWN = "all arms", object()

#: arm -> {group.key: value}
Settings = dict[str, dict[str, Any]]


def stored(info: Mapping[str, Any]) -> Settings:
    """All settings of a run's arms, by its run.json, that decide the draws."""
    return {arm["name"]: flat(arm.get("settings", {})) for arm in info["arms"]}


def split(settings: Settings) -> tuple[dict[str, Any], Settings]:
    """What all arms are set to alike, and what is each arm's own."""
    first, *others = settings.values()
    alike = {key: first[key] for key in first if all(key in arm and arm[key] == first[key] for arm in others)}
    return alike, {arm: {k: v for k, v in row.items() if k not in alike} for arm, row in settings.items()}


def table(run: Run) -> View:
    """A row for what all arms have alike and one for each: options, and keys that are not at their default.

    Beside them what the paper sets otherwise, of the arms that it has.
    """
    settings = {arm: row for arm, row in stored(run.info).items() if row}
    if not settings:
        return NO_SETTINGS
    alike, each = split(_told(settings))
    paper = {arm: values for arm, values in run.paper_settings.items() if arm in settings}
    common = run.paper_settings.get("all", {}).items()
    theirs = {_ALL: dict(pair for pair in common if any(_differ(settings[arm], *pair) for arm in paper))}
    theirs |= {
        arm: dict(pair for pair in v.items() if _differ(settings[arm], *pair)) for arm, v in paper.items()
    }
    rows = (
        [(_ALL, alike), *each.items()] if len(each) > 1 else [(arm, row | alike) for arm, row in each.items()]
    )
    cells = [(arm, _words(values), _words(theirs.get(arm, {}))) for arm, values in rows]
    header = ("arm", "set to, where not the default", "otherwise in the paper")
    kept = 3 if any(cell[2] != NOTHING for cell in cells) else 2
    return View("Settings", header[:kept], tuple(cell[:kept] for cell in cells))


def _differ(settings: dict[str, Any], key: str, value: object) -> bool:
    return settings.get(key) != value


def _told(settings: Settings) -> Settings:
    """The options' names, and the keys that are not at their default in an arm of the same option."""
    known = [(key, value, _option(key, row)) for row in settings.values() for key, value in row.items()]
    not_default = {(key, option) for key, value, option in known if _default(key, option) != value}
    return {
        arm: {key: value for key, value in row.items() if (key, _option(key, row)) in not_default}
        for arm, row in settings.items()
    }


def _option(key: str, settings: dict[str, Any]) -> str:
    """The option that a key is of; a group of one option has no name."""
    return str(settings.get(f"{key.partition('.')[0]}.name", "*"))


def _default(key: str, option: str) -> Any:
    """A key's value by default; none for an option's name, and for what is not known here."""
    group, _, field = key.partition(".")
    if field == "name":
        return _UNKNOWN
    with contextlib.suppress(ConfigError):  # of a package that is not installed
        return _defaults(group, option).get(field, _UNKNOWN)
    return _UNKNOWN


@functools.cache
def _defaults(group: str, option: str) -> dict[str, Any]:
    return flat(schema(group, option).defaults())


def _words(values: dict[str, Any]) -> str:
    return " ".join(f"{key.removesuffix('.name')}={show(value)}" for key, value in values.items()) or NOTHING
