"""Keys of a whole job, which belong to no group: its name and arms, its figures, the paper's values."""

import json
from collections.abc import Collection
from typing import Any

from flyrun.experiments.config.catalogue import illustrations
from flyrun.ground.errors import ConfigError
from flyrun.ground.paths import reference_dir
from flyrun.ground.run_files import FOLDER_NAME, folder_name
from flyrun.ground.schema import did_you_mean, listing, show

_SHOWN = 12  # arms that a message lists


def choices(name: object, arms: Collection[str], experiment: str | None) -> str:
    """A dozen arms to choose from, how many more, and the one most like this name."""
    if not arms:
        return "arms belong to experiments, add experiment=NAME"
    known = [str(arm) for arm in arms]
    more = f"{len(known) - _SHOWN} more, see `flyrun info {experiment}`"
    shown = known if len(known) <= _SHOWN else [*known[:_SHOWN], more]
    return f"choose from {listing(shown)}{did_you_mean(str(name), known)}"


def names(only: Any) -> list[str]:
    """One name, or a list of them, as a list."""
    return only if isinstance(only, list) else [only]


def selected(arms: dict[str, Any], only: object, experiment: str | None) -> dict[str, Any]:
    """The arms to run, in the experiment's order. Raises ConfigError for an unknown one."""
    if only is None:
        return arms
    for name in names(only) or [""]:
        if not isinstance(name, str) or name not in arms:
            raise ConfigError(f"only={show(only)}: {choices(name, arms, experiment)}")
    return {name: one for name, one in arms.items() if name in names(only)}


def arm_name(groups: dict[str, Any]) -> str:
    """Name a single arm after its bound; without one, "regular"; without the group, after its sampler."""
    for group in ("dataset", "model", "sampler"):
        if groups[group] is None:
            raise ConfigError(
                f"{group}: none is chosen; add {group}=NAME (`flyrun list {group}`) or experiment=NAME"
            )
    bound = groups["bound"]
    if bound is None or not groups["sampler"].of_bound:
        return groups["sampler"].name
    return bound.name if bound.firefly else "regular"


def check_job(base: dict[str, Any], name: Any) -> str:
    """Check the keys that belong to no group; return the run's name."""
    folder_name(name, f"name={show(name)}")
    if not isinstance(base["fresh"], bool):
        raise ConfigError(f"fresh={show(base['fresh'])}: must be true or false")
    if not isinstance(base["results_dir"], str) or not base["results_dir"]:
        raise ConfigError(f"results_dir={show(base['results_dir'])}: must be a folder, such as results")
    for arm in base["arms"]:
        if not isinstance(arm, str) or not FOLDER_NAME.fullmatch(arm):
            raise ConfigError(f"arms.{show(arm)}: an arm's name must be of letters, digits and . _ + -")
    return name


def figures(asked: object) -> tuple[str, ...]:
    """The further figures that an experiment asks for. Raises ConfigError for one that nobody draws."""
    there, wanted = illustrations(), tuple(names(asked))
    for name in wanted:
        if name not in there:
            raise ConfigError(
                f"figures={show(asked)}: must be a list of figures that there are: {listing(there)}"
            )
    return wanted


def drawn(base: dict[str, Any], arms: Collection[str]) -> tuple[str, ...]:
    """The arms that an experiment's figures draw. Raises ConfigError for one that it has not."""
    wanted = tuple(names(base["drawn"]))
    for name in wanted:
        if name not in arms:
            raise ConfigError(f"drawn={show(base['drawn'])}: {name} is no arm; choose from {listing(arms)}")
    return wanted


def reference(name: str | None, experiment: str | None) -> dict[str, dict[str, Any]]:
    """The paper's values for the experiment's arms, arm -> {column: value}; {} where none are named."""
    if name is None:
        return {}
    path = reference_dir() / f"{name}.json"
    try:
        return json.loads(path.read_text(encoding="utf-8")).get(experiment, {})
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"reference={name}: {path} cannot be read ({error}); restore it or set reference=null"
        ) from error
