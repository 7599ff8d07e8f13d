"""Small posteriors of two coordinates, and what quadrature and exact draws say of them."""

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from scipy.special import softmax

from flyrun.experiments.config import prior as priors
from flyrun.experiments.config.arm import Arm
from flyrun.experiments.config.bound import Map
from flyrun.experiments.config.brightness import Implicit
from flyrun.experiments.config.compose import compose_job
from flyrun.experiments.gold import grid_moments
from flyrun.experiments.models.problem import Problem, bind
from flyrun.experiments.prove.counted import counted
from flyrun.families.family import family
from flyrun.families.options import FamilyModel, Logistic, StudentT
from flyrun.ground.errors import ConfigError
from flyrun.ground.schema import SCHEMAS, Choice
from flyrun.tables.dataset import Dataset
from flyrun.tables.dataset_options import Rows

POINTS = 401
"""Of the grid, on each axis."""
MOST_ROWS = 20_000
HEAT = 1.3
"""Temperature of the posterior that stands in for the right one as the negative control."""


@dataclass(frozen=True)
class Few(Rows):
    """A slope and an intercept seen by few rows, one of them far from the others."""

    group: ClassVar[str] = "dataset"
    kernel: ClassVar[str] = __name__
    name: str = "few"
    task: str = "binary"
    n_data: int = 16
    model: str = ""  # a family, which draws the targets


class Hidden(Few):
    """The same, but that methods are shown other rows in place of those that the meter reads."""


def load(config: Few) -> Dataset:
    """n_data rows (x, 1). Labels -1 and 1, classes 0 to 2, numbers with three outliers, or a model's own."""
    data = _rows(config, 17)
    return replace(data, shown=_rows(config, 18)) if isinstance(config, Hidden) else data


def _rows(config: Few, seed: int) -> Dataset:
    rng = np.random.RandomState(seed)
    n = config.n_data
    x = np.append(rng.standard_normal(n - 1), 6.0)
    eta = x - 0.5
    target: Any = eta + 0.5 * rng.standard_t(4, size=n)
    target[:3] += 5.0
    beside: dict[str, Any] = {}
    if config.model:
        its = family(config.model)
        if "trials" in getattr(SCHEMAS["model"][config.model], "beside", ()):
            beside["trials"] = rng.randint(1, 5, n) / (1.0 if its.domain.of_trials else 2.0)
        drawn = its.draw(np.random.default_rng(seed), beside.get("trials", 1.0), (eta,))
        target = np.where(drawn > 0, 1.0, -1.0) if its.domain.classes == 2 else np.asarray(drawn, float)
    elif config.task == "binary":
        target = np.where(rng.random_sample(n) < 1 / (1 + np.exp(-eta)), 1.0, -1.0)
    elif config.task == "classes":
        target = rng.randint(0, 3, n)
    rows, none = np.c_[x, np.ones(n)], np.empty(0)
    names, digest = ("x", "bias"), fingerprint(config)
    return Dataset("few", rows, target, rows[:0], none, names, digest, {}, config.task, **beside)


def fingerprint(config: Few) -> str:
    """Digest of what decides the content."""
    return f"few {config.task} {config.n_data} {config.model}".rstrip()


def arms(choice: Choice, iterations: int) -> dict[str, Arm]:
    """The posteriors that a choice is tried on, and under which bounds: what -> arm.

    A sampler: logistic regression under a Gaussian prior, whose posterior is skewed, on all data and, where
    it goes with bounds, under Firefly Monte Carlo, and on more rows than any of its settings; robust
    regression under a Laplace prior. A likelihood, a prior or another choice of a chain: itself on few rows,
    moved by a random walk. ConfigError where none goes with it.
    """
    sampler = choice.name if choice.group == "sampler" else "random_walk"
    if getattr(choice, "kind", "rows") != "rows" or "rows" not in getattr(choice, "kinds", ("rows",)):
        raise ConfigError(f"prove {choice.name}: is not of rows of data, which is what proofs are tried on")
    if getattr(choice, "task", "") == "classes":
        raise ConfigError(f"prove {choice.name}: has several predictors, and quadrature is for one")
    if getattr(choice, "auxiliary", False) and choice.group == "model":
        raise ConfigError(f"prove {choice.name}: samples more than coefficients, and quadrature is for those")
    length = (f"protocol.iterations={iterations}", f"protocol.burn_in={iterations // 5}")
    (base,) = compose_job(
        [f"sampler={sampler}", "dataset=toy_2d", "model=logistic", *length, "protocol.init=map"]
    ).arms
    logistic, prior = counted(Logistic()), priors.Gaussian(scale=2.0)
    wanted: dict[str, dict[str, Any]] = {"logistic": {"model": logistic, "prior": prior}}
    if choice.group == "sampler":
        heavy = StudentT(scale=0.5)
        wanted["logistic"]["sampler"] = choice
        many = {**wanted["logistic"], "dataset": Few(n_data=rows_beyond(choice))}
        wanted |= {f"logistic, {many['dataset'].n_data:,} rows": many}
        wanted["robust"] = {"model": heavy, "prior": priors.Laplace(scale=0.5), "sampler": choice}
    else:
        wanted = {choice.name: {"model": logistic, "prior": prior} | {choice.group: choice}}
    bounded = {"bound": (True,), "brightness": (True,), "acceptance": (False,)}
    tried, why = {}, ""
    for name, parts in wanted.items():
        for bound in bounded.get(choice.group, (False, True)):
            if bound and (
                base.bound is None or not parts["model"].bounds or name not in ("logistic", choice.name)
            ):
                continue
            flymc: dict[str, Any] = {"bound": Map(), "brightness": Implicit()} if bound else {}
            flymc.pop(choice.group, None)
            if choice.group == "model" and not bound:  # what its bounds are given must be its own
                parts = {**parts, "model": counted(choice)}
            elif choice.group == "model":
                parts = {**parts, "model": choice}
            try:
                few = parts.get("dataset", Few(task=parts["model"].task, model=_drawing(parts["model"])))
                parts = {key: part for key, part in parts.items() if key != "dataset"}
                tried[f"{name}, Firefly" if bound else name] = replace(base, dataset=few, **parts, **flymc)
            except ConfigError as error:
                why = why or str(error)
    if not tried:
        raise ConfigError(f"prove {choice.name}: goes with none of the posteriors that it is tried on: {why}")
    return tried


def _drawing(model: Choice) -> str:
    """A likelihood's name, where it draws targets: those of several likelihoods are alike."""
    return (
        model.name if isinstance(model, FamilyModel) and (model.for_tables or hasattr(model, "draw")) else ""
    )


def rows_beyond(choice: Choice) -> int:
    """More rows than a batch that a sampler's settings name, or than usual ones, at most MOST_ROWS."""
    named = [n for n in choice.settings().values() if isinstance(n, int) and not isinstance(n, bool)]
    return max([500, *(int(2.5 * size) for size in named if size <= MOST_ROWS / 2.5)])


def hidden(arm: Arm) -> Arm:
    """The arm whose method is shown other rows than its meter reads; its random numbers are the same."""
    few = arm.dataset
    return replace(arm, dataset=Hidden(**{field.name: getattr(few, field.name) for field in fields(few)}))


class Truth:
    """An arm's posterior by quadrature, at a temperature."""

    def __init__(self, arm: Arm, folder: Path, heat: float = 1.0):
        self.problem: Problem = bind(arm, folder, needs_map=True)
        self.theta, log_weight, _, _ = grid_moments.weigh(arm, self.problem, POINTS)
        self.share = softmax(log_weight / heat)
        self.mean = self.share @ self.theta
        self.sd = np.sqrt(self.share @ (self.theta - self.mean) ** 2)
        self._rank = np.cumsum(self.share)
        self.expected = self.share @ self.functions(self.theta)

    def functions(self, theta: np.ndarray) -> np.ndarray:
        """What draws, (n, 2), are judged by, (n, 5): z, z² and z₁z₂ of z = (θ - mean)/sd."""
        z = (theta - self.mean) / self.sd
        return np.column_stack([z, z**2, z[:, 0] * z[:, 1]])

    def draws(self, n: int, seed: int) -> np.ndarray:
        """n exact draws, (n, 2), but for a cell's width."""
        rng = np.random.default_rng(seed)
        cell = np.ptp(self.theta, axis=0) / (POINTS - 1)
        nodes = self.theta[np.searchsorted(self._rank, rng.random(n) * self._rank[-1])]
        return nodes + cell * (rng.random((n, 2)) - 0.5)
