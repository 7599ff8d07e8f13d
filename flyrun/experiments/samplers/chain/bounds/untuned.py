"""The same bound for every datum, whatever the posterior."""

from typing import Any

import numpy as np

from flyrun.experiments.config.bound import Untuned
from flyrun.experiments.samplers.chain.setup import Setup


def build(config: Untuned, setup: Setup, expects: bool) -> tuple[Any, np.ndarray]:
    """Bounds as config.xi says, at no query; what they leave bright is not known, (0,)."""
    problem = setup.problem
    return setup.module.untuned_bound(problem.model, problem.features, config.xi), np.empty(0)
