"""Samplers of other packages, found through the entry point group `flyrun.samplers`.

An entry point names a configuration class, `barker = flyrun_barker:Barker`, decorated with
@option("sampler", "barker"); its field defaults stand for the YAML file that flyrun's own samplers have. It
derives from a family's class (flyrun/config/sampler/) and says `kernel`, the module of its code, where that
is not its own; or from Sampler, and says `family`, the module that holds its `prepare(arm, folder)`.
"""

from dataclasses import dataclass
from typing import Any

from flyrun.config.sampler import Sampler
from flyrun.config.schema import SCHEMAS, option
from flyrun.errors import ConfigError
from flyrun.numerics.sources import plugin_points


def register() -> None:
    """Make every installed plug-in a choice of sampler; one that is broken says why when it is chosen."""
    for point in plugin_points():
        own = {name: cls for name, cls in SCHEMAS["sampler"].items() if _is_own(cls)}
        try:
            problem = _problem(point.name, point.load())
        except Exception as error:  # whatever another's package does while it is imported
            problem = f"cannot be loaded ({type(error).__name__}: {error})"
        SCHEMAS["sampler"].update(own)  # none may take the place of flyrun's own
        if problem and point.name not in own:
            package = point.dist.name if point.dist else point.module
            reason = f"{problem}; mend or remove the package {package}"
            about = {"reason": reason, "__doc__": f"Cannot be used: {reason}"}
            option("sampler", point.name)(type("_Broken", (_Broken,), about))


def names() -> list[str]:
    """Names of the samplers that other packages bring."""
    return [name for name, cls in SCHEMAS["sampler"].items() if not _is_own(cls)]


def offer_to_hydra() -> None:
    """Let Hydra compose `sampler=NAME` for the plug-ins, which have no YAML file."""
    from hydra.core.config_store import ConfigStore  # late: only a run needs Hydra

    for name in names():
        ConfigStore.instance().store(name=name, node=defaults(name), group="sampler", provider="flyrun")


def defaults(name: str) -> dict[str, Any]:
    """A plug-in's settings when nothing is said, as its YAML file would hold them."""
    cls = SCHEMAS["sampler"][name]
    return {"name": name} if issubclass(cls, _Broken) else cls().settings()  # type: ignore[call-arg]


def _is_own(cls: type) -> bool:
    return cls.__module__.partition(".")[0] == "flyrun" and not issubclass(cls, _Broken)


def _problem(name: str, cls: Any) -> str:
    """What keeps a loaded entry point from being a sampler."""
    if not (isinstance(cls, type) and issubclass(cls, Sampler)):
        return "is no configuration class: derive it from flyrun.config.sampler.Sampler"
    if SCHEMAS["sampler"].get(name) is not cls:
        return f'is not registered under its name: decorate the class with @option("sampler", "{name}")'
    return ""


@dataclass(frozen=True)
class _Broken(Sampler):
    """A sampler whose package cannot be used."""

    reason = ""

    def __post_init__(self) -> None:
        """Refuse to be chosen."""
        raise ConfigError(f"sampler={self.name}: {self.reason}")
