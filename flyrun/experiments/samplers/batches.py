"""What methods that read some rows a step need of an arm: its batches, and the likelihood of some rows."""

from typing import Any

import numpy as np

from flyrun.experiments.config.arm import Arm
from flyrun.experiments.models.problem import Problem
from flyrun.ground.errors import ConfigError
from flyrun.ground.numerics.batches import Batches


def batches_of(arm: Arm, n_data: int, what: str = "rows") -> Batches:
    """The batches that a sampler's options ask for, of all rows where `batch` is null.

    ConfigError where they are larger than the data.
    """
    size = n_data if arm.sampler.batch is None else arm.sampler.batch
    if size > n_data:
        raise ConfigError(f"sampler.batch={size}: the data have {n_data:,} {what}; take at most as many")
    return Batches(n_data, size, arm.sampler.batches)


def rows_of(arm: Arm, problem: Problem, index: np.ndarray) -> tuple[Any, Any]:
    """Model and features of some rows, as copies, for `passes`. index: (n,)."""
    features = problem.features
    return arm.model.code.part(problem.model, index), type(features)(features.rows[index])
