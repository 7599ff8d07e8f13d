"""Taylor surrogates of the small posteriors of `chains`, prior of curvature I: shared by tests."""

from typing import Any

import numpy as np

from flyrun.experiments.models import passes
from flyrun.experiments.samplers.chain.metric import Reference, reference_at
from flyrun.experiments.samplers.chain.surrogate.remainder import Remainder, by_leverages, remainder
from flyrun.experiments.samplers.chain.surrogate.taylor import (
    Surrogate,
    coloured,
    cube,
    leverages,
    predictors_at,
    surrogate,
)
from flyrun.experiments.samplers.chain.targets.surrogate import SurrogateData, surrogate_data
from tests.exactness.chains import Toy


def expansion(problem: Toy, order: int) -> tuple[Surrogate, np.ndarray]:
    """The surrogate about the grid's mode, and roots of leverages. Exactness does not ask for a mode."""
    at, model, features = np.array(problem.mode), problem.model, problem.features
    look = passes.look(problem.likelihood, model, features, at)
    lower = np.linalg.cholesky(look.curvature + np.eye(at.size))
    predictors = predictors_at(model, features, at)
    cubic = cube(problem.likelihood, model, features, predictors, coloured(lower)) if order == 3 else None
    made = surrogate(order, at, lower, look.gradient, look.curvature, predictors, cubic)
    return made, leverages(model, features, made.colour)


def bounds(problem: Toy, order: int, kind: str = "local") -> Remainder:
    """What is left out, as Setup.remainder has it."""
    made, roots = expansion(problem, order)
    if hasattr(problem.likelihood, "data_bounds"):
        return remainder(*problem.likelihood.data_bounds(problem.model, made.mean, order))
    constants = problem.likelihood.remainder_constants(problem.model, made.predictors, order, kind == "local")
    return by_leverages(order, constants, roots, kind == "cornish")


def expanded_target(problem: Toy, order: int, gradients: bool = False) -> SurrogateData:
    """What rules that thin work on."""
    made = expansion(problem, order)[0]
    return surrogate_data(problem.prior, problem.model, problem.features, made, gradients)


def about(problem: Toy) -> Reference:
    """The Gaussian that whitens."""
    made: Any = expansion(problem, 2)[0]
    return reference_at(made.mean, made.lower @ made.lower.T)
