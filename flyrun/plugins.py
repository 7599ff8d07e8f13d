"""Samplers of other packages, found through the entry point group `flyrun.samplers`.

An entry point names a configuration class, `barker = flyrun_barker:Barker`, decorated with
@option("sampler", "barker"); its field defaults stand for the YAML file that flyrun's own samplers have. The
kernel is in the module that the class names as `kernel`, or in its own; it is written as those in
flyrun/samplers/ are (LABEL, GRADIENTS, build, and implementations of update and tune).
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

from flyrun.errors import ConfigError
from flyrun.schema import SCHEMAS, Choice, option

GROUP = "flyrun.samplers"


def register() -> None:
    """Make every installed plug-in a choice of sampler; one that is broken says why when it is chosen."""
    for point in _points():
        own = {name: cls for name, cls in SCHEMAS["sampler"].items() if _is_own(cls)}
        try:
            problem = _problem(point.name, point.load())
        except Exception as error:  # whatever another's package does while it is imported
            problem = f"cannot be loaded ({type(error).__name__}: {error})"
        SCHEMAS["sampler"].update(own)  # none may take the place of flyrun's own
        if problem and point.name not in own:
            package = point.dist.name if point.dist else point.module
            _register_broken(point.name, f"{problem}; mend or remove the package {package}")


def names() -> list[str]:
    """Names of the samplers that other packages bring."""
    return [name for name, cls in SCHEMAS["sampler"].items() if not _is_own(cls)]


def offer_to_hydra() -> None:
    """Let Hydra compose `sampler=NAME` for the plug-ins, which have no YAML file."""
    from hydra.core.config_store import ConfigStore

    for name in names():
        ConfigStore.instance().store(name=name, node=defaults(name), group="sampler", provider="flyrun")


def defaults(name: str) -> dict[str, Any]:
    """A plug-in's settings when nothing is said, as its YAML file would hold them."""
    cls = SCHEMAS["sampler"][name]
    return {"name": name} if issubclass(cls, _Broken) else cls().settings()  # type: ignore[call-arg]


def kernel(choice: Any) -> ModuleType:
    """The module of a sampler: flyrun's own by its name, a plug-in's as its class says."""
    cls = type(choice)
    own = f"flyrun.samplers.{choice.name}"
    return importlib.import_module(own if _is_own(cls) else getattr(cls, "kernel", cls.__module__))


def digest_of(choice: Any) -> str:
    """Digest of the sources of the package that a sampler comes from; "" for flyrun's own."""
    cls = type(choice)
    return "" if _is_own(cls) else _digest(cls.__module__)


def installed_digest() -> str:
    """Digest of the sources of every installed plug-in, none of which is imported; "" without any."""
    return "".join(f"{point.name}:{_digest(point.module)}" for point in _points())


def _points() -> list[metadata.EntryPoint]:
    return sorted(metadata.entry_points(group=GROUP), key=lambda point: point.name)


def _is_own(cls: type) -> bool:
    return cls.__module__.partition(".")[0] == "flyrun" and not issubclass(cls, _Broken)


def _problem(name: str, cls: Any) -> str:
    """What keeps a loaded entry point from being a sampler."""
    if not (isinstance(cls, type) and issubclass(cls, Choice)):
        return "is no configuration class: derive it from flyrun.schema.Choice"
    if SCHEMAS["sampler"].get(name) is not cls:
        return f'is not registered under its name: decorate the class with @option("sampler", "{name}")'
    return ""


@dataclass(frozen=True)
class _Broken(Choice):
    """A sampler whose package cannot be used."""

    reason = ""

    def __post_init__(self) -> None:
        """Refuse to be chosen."""
        raise ConfigError(f"sampler={self.name}: {self.reason}")


def _register_broken(name: str, reason: str) -> None:
    option("sampler", name)(
        type("_Broken", (_Broken,), {"reason": reason, "__doc__": f"Cannot be used: {reason}"})
    )


def _digest(module: str) -> str:
    """Digest of the .py files of the package, or of the single file, that a module belongs to."""
    digest = hashlib.sha256()
    for root, file in _sources(module.partition(".")[0]):
        digest.update(f"{file.relative_to(root).as_posix()}\0".encode() + file.read_bytes())
    return digest.hexdigest()[:12]


def _sources(package: str) -> Iterator[tuple[Path, Path]]:
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        return
    if spec.submodule_search_locations:
        for folder in map(Path, spec.submodule_search_locations):
            yield from ((folder.parent, file) for file in sorted(folder.rglob("*.py")))
    elif spec.origin:
        yield Path(spec.origin).parent, Path(spec.origin)
