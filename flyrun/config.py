"""The configuration's dataclasses: one per option of every group, frozen, picklable and checked when made.

A new dataset, model or sampler is one class here, one YAML in conf/ and one file beside its kind.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from flyrun import (
    config_graphs,  # noqa: F401  registers the choices for graphs
    plugins,
)
from flyrun.config_datasets import (  # noqa: F401
    Cifar3,
    Mnist7v9,
    OpvCep,
    OpvScale,
    Qm9Gap,
    Table,
    Tall,
    Toy2d,
)
from flyrun.config_executors import Dask, Local  # noqa: F401
from flyrun.config_samplers import (  # noqa: F401
    EllipticalSlice,
    Hmc,
    Independence,
    Mala,
    RandomWalk,
    Slice,
)
from flyrun.errors import ConfigError
from flyrun.schema import SCHEMAS, Choice, listing, option, ranged, show

#: groups that belong to one arm, in the order in which they are shown; the others belong to the whole job
ARM_GROUPS = ("dataset", "model", "prior", "bound", "brightness", "sampler", "protocol")
GROUPS = (*ARM_GROUPS, "executor", "experiment")


@option("model", "logistic")
@dataclass(frozen=True)
class Logistic(Choice):
    """Logistic regression: log L_n = -log(1 + exp(-t_n θᵀx_n))."""

    suggests: ClassVar[tuple[str, ...]] = ("prior=gaussian", "bound=none")
    needs: ClassVar[tuple[str, ...]] = ("prior", "bound", "brightness")
    task: ClassVar[str] = "binary"
    name: str = "logistic"


@option("model", "softmax")
@dataclass(frozen=True)
class Softmax(Choice):
    """Classes 0 … K-1: log L_n = η_t - log Σ exp(η_k), η = Θx_n, Θ of K rows."""

    suggests: ClassVar[tuple[str, ...]] = ("prior=gaussian", "bound=none")
    needs: ClassVar[tuple[str, ...]] = ("prior", "bound", "brightness")
    task: ClassVar[str] = "classes"
    name: str = "softmax"


@option("model", "student_t")
@dataclass(frozen=True)
class StudentT(Choice):
    """Robust regression, y_n = θᵀx_n + scale·t_nu; `held_out` as for the prior, `estimated`: most likely."""

    suggests: ClassVar[tuple[str, ...]] = ("prior=laplace", "bound=none")
    needs: ClassVar[tuple[str, ...]] = ("prior", "bound", "brightness")
    task: ClassVar[str] = "regression"
    name: str = "student_t"
    # beyond at_most rounding eats the likelihood, which has long been the normal one
    nu: float = ranged(4.0, above=0, at_most=1e9)
    scale: float | Literal["held_out", "estimated"] = ranged(1.0, above=0)
    grid: tuple[float, ...] = ranged((0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.7, 1.0), above=0)

    def __post_init__(self) -> None:
        """Check the fields, then what they mean together."""
        super().__post_init__()
        _check_grid(self)


@option("prior", "gaussian")
@dataclass(frozen=True)
class Gaussian(Choice):
    """θ ~ N(0, scale² I); `held_out` takes the one of `grid` with the best test log likelihood at the MAP."""

    name: str = "gaussian"
    scale: float | Literal["held_out"] = ranged(1.0, above=0)
    grid: tuple[float, ...] = ranged((0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0), above=0)

    def __post_init__(self) -> None:
        """Check the fields, then what they mean together."""
        super().__post_init__()
        _check_grid(self)


@option("prior", "laplace")
@dataclass(frozen=True)
class Laplace(Choice):
    """θ_d ~ exp(-|θ_d|/scale)/(2 scale), independent; `held_out` as for the Gaussian prior."""

    name: str = "laplace"
    scale: float | Literal["held_out"] = ranged(1.0, above=0)
    grid: tuple[float, ...] = ranged((0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0), above=0)

    def __post_init__(self) -> None:
        """Check the fields, then what they mean together."""
        super().__post_init__()
        _check_grid(self)


def _check_grid(choice: Any) -> None:
    if not choice.grid:
        raise ConfigError(f"{choice.group}.grid=[]: must hold at least one scale, such as [0.1,1,10]")


@option("bound", "none")
@dataclass(frozen=True)
class NoBound(Choice):
    """No lower bounds: every update looks at all data."""

    firefly: ClassVar[bool] = False
    suggests: ClassVar[tuple[str, ...]] = ("brightness=none",)
    name: str = "none"


@option("bound", "untuned")
@dataclass(frozen=True)
class Untuned(Choice):
    """The same bound for every datum: tight at margins ±xi, for softmax at η = xi·e_t, for Student-t noise at
    residuals of ±xi likelihood scales."""

    firefly: ClassVar[bool] = True
    suggests: ClassVar[tuple[str, ...]] = ("brightness=implicit", "brightness.q=0.1")
    name: str = "untuned"
    xi: float = ranged(1.5, at_least=0)


@option("bound", "map")
@dataclass(frozen=True)
class Map(Choice):
    """Each datum's bound tight at the MAP, or `offset_sds` posterior sds from it by draw `direction_seed`.

    slack puts it lower, by slack times its expected pseudo-likelihood: (1 + slack) times as many data are
    bright, and θ moves more freely between them. 0 as in the paper; 0.3 to 0.5 serve Firefly-HMC best.
    """

    firefly: ClassVar[bool] = True
    suggests: ClassVar[tuple[str, ...]] = ("brightness=implicit", "brightness.q=0.01")
    name: str = "map"
    slack: float = ranged(0.0, at_least=0)
    offset_sds: float = ranged(0.0, at_least=0)
    direction_seed: int = ranged(0, at_least=0)


@option("brightness", "none")
@dataclass(frozen=True)
class NoBrightness(Choice):
    """No auxiliary variables: the full-data target."""

    firefly: ClassVar[bool] = False
    name: str = "none"


@option("brightness", "implicit")
@dataclass(frozen=True)
class Implicit(Choice):
    """Algorithm 2: dark data proposed to brighten with probability q, by geometric skips.

    q=auto proposes as many as are expected to be bright: q = Σ E L̃_n/N, for bounds tight at the MAP.
    """

    firefly: ClassVar[bool] = True
    name: str = "implicit"
    q: float | Literal["auto"] = ranged(0.01, at_least=1e-12, at_most=1)


@option("brightness", "per_datum")
@dataclass(frozen=True)
class PerDatum(Choice):
    """Algorithm 2 with q_n = factor times the expected L̃_n, for bounds tight at the MAP."""

    firefly: ClassVar[bool] = True
    name: str = "per_datum"
    factor: float = ranged(2.0, above=0)


@option("brightness", "explicit")
@dataclass(frozen=True)
class Explicit(Choice):
    """Algorithm 1: a fraction of all z_n drawn anew each iteration, in one of three orders."""

    firefly: ClassVar[bool] = True
    name: str = "explicit"
    fraction: float = ranged(0.1, above=0, at_most=1)
    order: Literal["with_replacement", "without_replacement", "sequential"] = "with_replacement"


@option("protocol", "*")
@dataclass(frozen=True)
class Protocol(Choice):
    """How long and how often: seeds (n for 0..n-1, or a list), iterations (with burn-in), thinning, start.

    extend: finished chains keep their state, and more iterations go on from there.
    """

    name: str = "default"
    seeds: int | tuple[int, ...] = 5
    iterations: int = ranged(80_000, at_least=1)
    burn_in: int = ranged(10_000, at_least=0)
    thin: int = ranged(1, at_least=1)
    init: Literal["prior", "map"] = "prior"
    chunk_seconds: float = ranged(2.0, above=0)
    extend: bool = False

    def __post_init__(self) -> None:
        """Check the fields, then what they mean together."""
        super().__post_init__()
        seeds = self.seeds if isinstance(self.seeds, tuple) else range(self.seeds)
        if not seeds or min(seeds) < 0 or len(set(seeds)) < len(seeds):
            raise ConfigError(
                f"protocol.seeds={show(self.seeds)}: must be a number of seeds at least 1, "
                "or a list of different whole numbers at least 0, such as [0,1,2]"
            )
        if self.burn_in >= self.iterations:
            raise ConfigError(
                f"protocol.burn_in={self.burn_in}: must be below protocol.iterations={self.iterations}, "
                f"such as {self.iterations // 4}"
            )
        for key in ("iterations", "burn_in"):
            if getattr(self, key) % self.thin:
                raise ConfigError(
                    f"protocol.thin={self.thin}: must divide protocol.{key}={getattr(self, key)}; "
                    "take a divisor of both iterations and burn_in"
                )

    @property
    def free(self) -> tuple[str, ...]:
        """Fields that leave a seed's draws as they are, so that they do not belong in a cell's key.

        Chains that can be extended have one key at any length: a longer one begins with the shorter.
        """
        always = ("name", "seeds", "chunk_seconds", "extend")
        return (*always, "iterations") if self.extend else always

    @property
    def seed_list(self) -> tuple[int, ...]:
        """The seeds, one chain each."""
        return self.seeds if isinstance(self.seeds, tuple) else tuple(range(self.seeds))


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
    protocol: Protocol

    def __post_init__(self) -> None:
        """Check that the choices go together; data that serve several models are read as this one needs."""
        if getattr(self.dataset, "task", None) == "auto" and hasattr(self.model, "task"):
            object.__setattr__(self, "dataset", replace(self.dataset, task=self.model.task))
        for group in ("dataset", "model", "sampler", "protocol", *getattr(self.model, "needs", ())):
            if getattr(self, group) is None:
                raise ConfigError(f"{group}=null: arm {self.name} needs one; see `flyrun list {group}`")
        self._check_kinds()
        if self.bound is None or self.brightness is None:
            return
        if self.bound.firefly != self.brightness.firefly:
            remedy = "bound=map or bound=untuned" if self.brightness.firefly else "brightness=implicit"
            raise ConfigError(
                f"bound={self.bound.name} and brightness={self.brightness.name} do not go together "
                f"in arm {self.name}: choose {remedy}, or none for both"
            )
        auto = getattr(self.brightness, "q", None) == "auto"
        if (auto or self.brightness.name == "per_datum") and getattr(self.bound, "offset_sds", 1) != 0:
            chosen = "brightness.q=auto" if auto else "brightness=per_datum"
            raise ConfigError(
                f"{chosen} and bound={self.bound.name} do not go together in arm {self.name}: "
                "its rates hold where bounds are tight at the MAP; choose bound=map, bound.offset_sds=0"
            )

    def _check_kinds(self) -> None:
        """Graphs, their models and their samplers go together, and with nothing else."""
        for group, trait in (("dataset", "kind"), ("sampler", "program")):
            other = getattr(self, group)
            if getattr(other, trait, None) != getattr(self.model, trait, None):
                fitting = listing(
                    name
                    for name, cls in SCHEMAS[group].items()
                    if getattr(cls, trait, None) == getattr(self.model, trait, None)
                )
                raise ConfigError(
                    f"{group}={other.name} and model={self.model.name} do not fit in arm {self.name}: "
                    f"with this model choose {fitting}"
                )
        for group in ("prior", "bound", "brightness"):
            if getattr(self.model, "program", None) and getattr(self, group) is not None:
                raise ConfigError(
                    f"{group}={getattr(self, group).name}: model={self.model.name} has none; drop it"
                )

    def settings(self) -> dict[str, Any]:
        """The resolved configuration, group -> {key: plain value}, without the groups that are None."""
        chosen = {group: getattr(self, group) for group in ARM_GROUPS}
        return {group: choice.settings() for group, choice in chosen.items() if choice is not None}

    def problem(self) -> dict[str, Any]:
        """What two arms must share to be compared: dataset, model, prior, and how long chains run."""
        kept = self.key_settings()
        shared: dict[str, Any] = {name: kept[name] for name in ("dataset", "model", "prior") if name in kept}
        lengths = {"iterations": self.protocol.iterations, "burn_in": self.protocol.burn_in}
        return {**shared, "protocol": lengths}

    def method(self) -> dict[str, Any]:
        """What keys the arm's random numbers: all settings but the protocol's that are not the defaults.

        So neither a longer run, nor a file that moved, nor an option that gains a key has other draws.
        """
        chosen = {group: getattr(self, group) for group in ARM_GROUPS if group != "protocol"}
        return {group: choice.non_default() for group, choice in chosen.items() if choice is not None}

    def key_settings(self) -> dict[str, Any]:
        """Return `settings()` without what leaves a seed's draws unchanged (seeds, names, chunk lengths)."""
        kept = self.settings()
        for group, values in kept.items():
            for key in getattr(getattr(self, group), "free", ()):
                values.pop(key, None)
        return kept


@dataclass(frozen=True)
class Job:
    """All that one command runs: arms × seeds, where to, and the paper's values to show beside them.

    kind: of report (flyrun/report/kinds.py), where the draws alone do not tell.
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
    report: str | None = None
    description: str = ""
    kind: str | None = None


plugins.register()
