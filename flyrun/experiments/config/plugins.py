"""What other packages bring, found through entry points: `GROUPS` has all kinds.

An entry point of a choice names a configuration class, `barker = flyrun_barker:Barker`, decorated with
@option("sampler", "barker"); its field defaults stand for the YAML file that flyrun's own choices have. It
derives from its group's class (for a sampler its family's) and says `kernel`, the module of its code, where
that is not its own; a sampler derived from Sampler itself says `family`, the module that holds its
`prepare(arm, folder)`. One of experiments names a package, whose folder `experiment` has their YAML files.
"""

import hashlib
import importlib
import importlib.util
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from flyrun.experiments.config.acceptance import Acceptance
from flyrun.experiments.config.bound import Bound
from flyrun.experiments.config.brightness import Brightness
from flyrun.experiments.config.dataset import Dataset
from flyrun.experiments.config.model import GraphModel
from flyrun.experiments.config.prior import Prior
from flyrun.experiments.config.sampler import Sampler
from flyrun.families.options import Likelihood
from flyrun.ground import children, schema
from flyrun.ground.errors import ConfigError
from flyrun.ground.numerics.code_digest import of_modules, plugin_points
from flyrun.ground.paths import conf_dir
from flyrun.ground.schema import SCHEMAS, Choice, listing, option

#: what a package may bring -> the group of its entry points, and what a class of it has to derive from
GROUPS: dict[str, tuple[str, tuple[type, ...]]] = {
    "sampler": ("flyrun.samplers", (Sampler,)),
    "dataset": ("flyrun.datasets", (Dataset,)),
    "model": ("flyrun.models", (Likelihood, GraphModel)),
    "prior": ("flyrun.priors", (Prior,)),
    "bound": ("flyrun.bounds", (Bound,)),
    "brightness": ("flyrun.brightness", (Brightness,)),
    "acceptance": ("flyrun.acceptances", (Acceptance,)),
    "experiment": ("flyrun.experiments", ()),
    "section": ("flyrun.sections", ()),
    "metric": ("flyrun.metrics", ()),
}
#: those that are choices, made of a class
CHOICES = tuple(group for group, (_, bases) in GROUPS.items() if bases)
#: name of a package's experiment -> its YAML file
EXPERIMENTS: dict[str, Path] = {}
#: what keeps packages' experiments from being used, a sentence each
COMPLAINTS: list[str] = []

#: (group, name) of flyrun's own choices that a package has tried to take -> the package
TAKEN: dict[tuple[str, str], str] = {}


def register() -> None:
    """Make every installed plug-in a choice of its group; one that is broken says why when it is chosen."""
    group_of = {entry_points: group for group, (entry_points, _) in GROUPS.items()}
    in_double = set[str]()
    for point in plugin_points():
        from flyrun import extend  # late: only packages need it

        schema.importer = imported
        group, package = group_of.get(point.group), point.dist.name if point.dist else point.module
        if group == "experiment":
            _register_experiments(point.module, package)
        if group not in CHOICES:
            continue
        ours = {kind: {name: cls for name, cls in SCHEMAS[kind].items() if _is_own(cls)} for kind in CHOICES}
        double = children.jax64()
        try:
            problem = _problem(group, point.name, extend.loaded(point.load))
            problem = extend.unmet(getattr(sys.modules[point.module], "FLYRUN_CONTRACT", None)) or problem
        except extend.ContractError as error:
            problem = str(error)
        except Exception as error:  # whatever another's package does while it is imported
            problem = f"cannot be loaded ({type(error).__name__}: {error})"
        if children.jax64() and not double:  # as it was imported: for its own samplers, not for others
            children.switch_jax(False)
            in_double.add(package)
        if package in in_double and group == "sampler" and point.name in SCHEMAS[group]:
            SCHEMAS[group][point.name].worker = SCHEMAS[group][point.name].worker or "jax64"  # type: ignore[attr-defined]
        for kind, choices in ours.items():
            SCHEMAS[kind].update(choices)  # none may take the place of flyrun's own
        if point.name in ours[group]:
            TAKEN[group, point.name] = package
        elif problem:
            reason = f"{problem}; mend or remove the package {package}"
            about = {"reason": reason, "__doc__": f"Cannot be used: {reason}"}
            option(group, point.name)(type("_Broken", (_Broken,), about))


def _register_experiments(module: str, package: str) -> None:
    """Offer the YAML files in the folder `experiment` of a package."""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        spec = None
    folders = [Path(place) / "experiment" for place in (spec and spec.submodule_search_locations) or ()]
    files = sorted(path for folder in folders for path in folder.glob("*.yaml"))
    if not files:
        COMPLAINTS.append(
            f"the package {package} brings experiments, and {module}/experiment has no YAML file"
        )
    for path in files:
        taken = (conf_dir() / "experiment" / path.name).is_file() or path.stem in EXPERIMENTS
        if taken:
            COMPLAINTS.append(f"the package {package} brings {path}, whose name another experiment has")
        else:
            EXPERIMENTS[path.stem] = path


def imported(path: str) -> ModuleType:
    """The module of an option's code. ContractError where a package imports what flyrun lacks."""
    if path.partition(".")[0] == "flyrun":
        return importlib.import_module(path)
    from flyrun import extend  # late, as above

    return extend.loaded(lambda: importlib.import_module(path))


def refuse_taken(group: str, name: Any) -> None:
    """ConfigError where a choice of flyrun's own is one that a package has tried to take: which is meant?"""
    if package := TAKEN.get((group, name)):
        raise ConfigError(
            f"{group}={name}: is flyrun's own, and the package {package} brings another of this name; give "
            "that one another name, in its entry point and in @option, or remove the package"
        )


def names(group: str) -> list[str]:
    """Names of a group's choices that other packages bring."""
    return [name for name, cls in SCHEMAS[group].items() if not _is_own(cls)] if group in CHOICES else []


def is_foreign(choice: Choice) -> bool:
    """Whether another package brings it."""
    return choice.group in CHOICES and choice.name in names(choice.group)


def identity(choice: Choice) -> str:
    """Group, name and digest of the sources and settings of a choice."""
    modules = [type(choice).__module__, choice.path_of_code]
    modules += [choice.path_of_family] if isinstance(choice, Sampler) else []
    text = json.dumps([of_modules(modules), choice.settings()], sort_keys=True)
    return f"{choice.group}-{choice.name}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def offered() -> tuple[type[Choice], ...]:
    """All choices that other packages bring."""
    return tuple(SCHEMAS[group][name] for group in CHOICES for name in names(group))


def offer_to_hydra() -> None:
    """Let Hydra compose `group=NAME` for the plug-ins, which have no YAML file."""
    from hydra.core.config_store import ConfigStore  # late: only a run needs Hydra

    for cls in offered():
        node = defaults(cls.group, cls.name)
        ConfigStore.instance().store(name=cls.name, node=node, group=cls.group, provider="flyrun")
    for name, path in [*EXPERIMENTS.items()]:
        from omegaconf import OmegaConf  # late, as above

        place = {"name": name, "group": "experiment", "package": "_global_", "provider": "flyrun"}
        try:
            ConfigStore.instance().store(node=OmegaConf.load(path), **place)
        except Exception as error:  # another's YAML harms only who chooses it
            COMPLAINTS.append(f"{path} cannot be read: {' '.join(str(error).split())}")
            del EXPERIMENTS[name]


def defaults(group: str, name: str) -> dict[str, Any]:
    """A plug-in's settings when nothing is said, as its YAML file would hold them."""
    cls = SCHEMAS[group][name]
    return {"name": name} if issubclass(cls, _Broken) else cls().settings()


def _is_own(cls: type) -> bool:
    return cls.__module__.partition(".")[0] == "flyrun" and not issubclass(cls, _Broken)


def _problem(group: str, name: str, cls: object) -> str:
    """What keeps a loaded entry point from being a choice of its group."""
    if not (isinstance(cls, type) and issubclass(cls, GROUPS[group][1])):
        bases = listing((f"{base.__module__}.{base.__name__}" for base in GROUPS[group][1]), "or")
        return f"is no configuration class: derive it from {bases}"
    if SCHEMAS[group].get(name) is not cls:
        return f'is not registered under its name: decorate the class with @option("{group}", "{name}")'
    return ""


@dataclass(frozen=True)
class _Broken(Choice):
    """A choice whose package cannot be used."""

    reason = ""

    def __post_init__(self) -> None:
        """Refuse to be chosen."""
        raise ConfigError(f"{self.group}={self.name}: {self.reason}")
