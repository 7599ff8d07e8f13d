"""What there is to choose from, and in which files. No Hydra."""

import inspect
import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from flyrun.experiments.config import plugins
from flyrun.experiments.config.arm import GROUPS
from flyrun.ground.errors import ConfigError
from flyrun.ground.paths import conf_dir
from flyrun.ground.schema import SCHEMAS

#: the groups as `list` shows them
SHOWN = ("experiment", *(group for group in GROUPS if group != "experiment"))


def plural(group: str) -> str:
    """Name a group's options together: experiments; brightness stays."""
    return group if group.endswith("s") else f"{group}s"


def files(group: str, folders: Iterable[str | Path] = ()) -> dict[str, Path]:
    """Return option -> YAML file of a group, flyrun's own before those of packages and further folders."""
    each = [sorted((Path(folder) / group).glob("*.yaml")) for folder in (conf_dir(), *folders)]
    each.insert(1, [*plugins.EXPERIMENTS.values()] if group == "experiment" else [])
    paths: dict[str, Path] = {}
    for path in itertools.chain(*each):
        paths.setdefault(path.stem, path)
    return paths


def options(group: str, folders: Iterable[str | Path] = ()) -> list[str]:
    """Names of a group's options, those of plug-ins last."""
    return list(dict.fromkeys([*files(group, folders), *plugins.names(group)]))


def described(group: str, folders: Iterable[str | Path] = ()) -> dict[str, str]:
    """Return option -> one line of description."""
    texts = {name: first_comment(path) for name, path in files(group, folders).items()}
    for name in plugins.names(group):
        texts.setdefault(name, paragraphs(SCHEMAS[group][name])[0])
    return texts


def paragraphs(cls: type) -> list[str]:
    """What an option's class says of itself: its first line, then further paragraphs, a line each."""
    return [" ".join(text.split()) for text in inspect.cleandoc(cls.__doc__ or "").split("\n\n")]


def first_comment(path: Path) -> str:
    """An option's one-line description: the first comment of its file that is not for Hydra."""
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            return ""
        if not line.startswith("# @"):
            return line.lstrip("# ")
    return ""


def load(path: Path) -> dict[str, Any]:
    """An option's YAML file as it stands. Raises ConfigError where it cannot be read."""
    import yaml  # late: 25 ms, and Tab must be quick

    try:
        loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: cannot be read as YAML ({error}); correct it") from error
    return loaded if isinstance(loaded, dict) else {}


def illustrations() -> list[str]:
    """Names of the further figures that an experiment may ask for."""
    files = (Path(__file__).parents[1] / "report/illustrations").iterdir()
    return sorted(path.stem for path in files if not path.stem.startswith("_"))
