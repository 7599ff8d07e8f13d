"""An arm, one method with all its settings, and a job, all that one command runs."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

# that they are imported registers the choices
from flyrun.experiments.config import acceptance, bound, brightness, dataset, model, plugins, prior, protocol  # noqa: F401
from flyrun.experiments.config.axes import Swept
from flyrun.experiments.config.sampler import Sampler
from flyrun.ground import executor  # noqa: F401
from flyrun.ground.errors import ConfigError
from flyrun.ground.schema import Choice, neutral

#: groups that belong to one arm, in the order in which they are shown; the others belong to the whole job
ARM_GROUPS = ("dataset", "model", "prior", "bound", "brightness", "sampler", "acceptance", "protocol")
GROUPS = (*ARM_GROUPS, "executor", "experiment")


@dataclass(frozen=True)
class Arm:
    """One algorithm with all its settings. A group the model has no use for is None (no prior on a graph).

    Raises ConfigError where a needed group is missing or two choices do not go together.
    """

    experiment: str
    name: str
    dataset: Any
    model: Any
    prior: Any
    bound: Any
    brightness: Any
    sampler: Any
    protocol: Any
    acceptance: Any = None
    # the axis and point that it is of, where a sweep made it; no part of its settings
    swept: Swept | None = None

    def __post_init__(self) -> None:
        """Check that the choices go together; data that serve several models are read as this one needs."""
        if getattr(self.dataset, "task", None) == "auto" and hasattr(self.model, "task"):
            object.__setattr__(self, "dataset", replace(self.dataset, task=self.model.task))
        needed = ["dataset", "model", "sampler", "protocol"]
        self._require(needed)
        needed += [*self.model.needs, *self.sampler.needs]
        for group in needed:
            if getattr(self, group) is None:
                object.__setattr__(self, group, neutral(group))
        for group, choice in self.choices().items():
            if group not in needed and choice.idle:
                object.__setattr__(self, group, None)
            elif group not in needed:
                user = "model" if self.model.kind != "rows" else "sampler"
                who = f"{user}={getattr(self, user).name}"
                raise ConfigError(f"{group}={choice.name}: {who} has none; drop it")
            elif why := choice.unfit(self):
                raise ConfigError(why.replace(":", f" in arm {self.name}:", 1))
        self._require(needed)

    def _require(self, groups: list[str]) -> None:
        for group in groups:
            if getattr(self, group) is None:
                raise ConfigError(f"{group}=null: arm {self.name} needs one; see `flyrun list {group}`")

    def choices(self) -> dict[str, Choice]:
        """Group -> choice, without the groups that are None."""
        return {group: choice for group in ARM_GROUPS if (choice := getattr(self, group)) is not None}

    def code(self) -> list[str]:
        """Dotted names of the modules that the draws come from."""
        code = [
            part.path_of_code for part in self.choices().values() if part.home or isinstance(part, Sampler)
        ]
        inner = [name for arm in self.sampler.inner_arms(self) for name in arm.code()]
        return [self.sampler.path_of_family, *code, *inner]

    def settings(self) -> dict[str, Any]:
        """The resolved configuration, group -> {key: plain value}, without the groups that are None."""
        return {group: choice.settings() for group, choice in self.choices().items()}

    def problem(self) -> dict[str, Any]:
        """What two arms must share to be compared: dataset, model, prior, and how long chains run."""
        shared = {k: v for k, v in self.key_settings().items() if k in ("dataset", "model", "prior")}
        return shared | {"protocol": {key: getattr(self.protocol, key) for key in ("iterations", "burn_in")}}

    def method(self) -> dict[str, Any]:
        """What keys the arm's random numbers: all settings but the protocol's that are not the defaults.

        So neither a longer run, nor a file that moved, nor an option that gains a key has other draws.
        """
        keyed = {group: choice for group, choice in self.choices().items() if group != "protocol"}
        return {group: choice.non_default() for group, choice in keyed.items() if not choice.neutral}

    def key_settings(self) -> dict[str, Any]:
        """Return `settings()` without what leaves a seed's draws unchanged (seeds, names, chunk lengths)."""
        return {group: choice.key_settings() for group, choice in self.choices().items()}


@dataclass(frozen=True)
class Job:
    """All that one command runs: arms × seeds, where to, and the paper's values to show beside them.

    dashed: whether its options are said as --name NAME and --fresh, not as name=NAME and fresh=true.
    """

    name: str
    experiment: str | None
    title: str
    paper: str
    arms: tuple[Arm, ...]
    executor: Any
    results_dir: Path
    fresh: bool = False
    reference: dict[str, dict[str, Any]] = field(default_factory=dict)
    run_overrides: list[str] = field(default_factory=list)
    reference_name: str | None = None
    figures: tuple[str, ...] = ()
    drawn: tuple[str, ...] = ()
    arena: bool = False
    held_out: bool = False
    quadrature: bool = False
    bounded: bool = False
    description: str = ""
    dashed: bool = False


plugins.register()
