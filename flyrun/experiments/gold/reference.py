"""The posterior of a reference: its words composed, its data and model bound."""

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from flyrun.experiments.config.arm import Arm
from flyrun.experiments.data import load
from flyrun.ground import paths
from flyrun.ground.schema import build
from flyrun.tables.dataset import Dataset

if TYPE_CHECKING:
    from flyrun.experiments.models.problem import Problem


def arm_of(overrides: list[str], more: tuple[str, ...] = ("sampler=laplace",)) -> Arm:
    """The arm of a problem's words and a method's."""
    from flyrun.experiments.config.compose import compose_job  # late: hydra, which a report does without

    return compose_job([*overrides, *more]).arms[0]


def settings_of(arm: Arm) -> dict[str, Any]:
    """What makes a posterior: dataset, model and prior."""
    return {group: getattr(arm, group).settings() for group in ("dataset", "model", "prior")}


def classes_of(arm: Arm, problem: "Problem") -> int:
    """How many classes there are whose common shift the likelihood ignores; 1 for none."""
    return problem.model.n_predictors if getattr(arm.model.code, "SHIFT_FREE", False) else 1


def free(theta: np.ndarray, classes: int) -> np.ndarray:
    """θ (M, P) in coordinates that the data tell of: of several classes less the mean over them."""
    if classes == 1:
        return theta
    by_class = theta.reshape(len(theta), classes, -1)
    return (by_class - by_class.mean(axis=1, keepdims=True)).reshape(theta.shape)


def data_of(settings: dict[str, Any]) -> Dataset:
    """The data of a reference's settings."""
    config: Any = build("dataset", settings["dataset"])
    return load(config)


def bound(settings: dict[str, Any], folder: Path) -> tuple[Any, "Problem"]:
    """(dataset, model and prior as options, the problem that they make), of a reference's settings."""
    from flyrun.experiments.models.problem import bind  # late: numba, which most reports do without

    groups = ("dataset", "model", "prior")
    arm: Any = SimpleNamespace(**{group: build(group, settings[group]) for group in groups})
    return arm, bind(arm, folder, needs_map=False)


def setup_folder() -> Path:
    """Where fits are kept."""
    return paths.cache_dir("gold")
