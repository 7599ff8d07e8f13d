"""The family of approximations by one density: what its methods share, and which is asked for."""

from pathlib import Path
from typing import Any

import numpy as np

from flyrun.errors import ConfigError
from flyrun.models.problem import Problem, bind
from flyrun.numerics.batches import Batches
from flyrun.numerics.state import generator_state, seeded
from flyrun.samplers.method import Facts, Method, State


def prepare(arm: Any, folder: Path) -> Method:
    """Data and model bound, the MAP fitted or recalled where wanted; DataError or ConfigError as bind's."""
    return arm.sampler.code.build(arm, bind(arm, folder, needs_map=arm.sampler.at_map))


def facts(arm: Any, problem: Problem, label: str, exact: bool, queries: int, seconds: float) -> Facts:
    """What is known of a method, whose set-up took so many queries and seconds besides the fits."""
    fit, names, model = problem.fit, problem.dataset.feature_names, problem.model
    several = tuple(f"{k}:{name}" for k in range(model.n_predictors) for name in names)
    return Facts(
        update=label,
        exact=exact,
        coordinates=several if model.n_predictors > 1 else tuple(names),
        n_data=len(problem.features.rows),
        n_params=problem.features.rows.shape[1] * model.n_predictors,
        setup_queries=fit.queries + queries,
        setup_s=fit.seconds + seconds,
        more={"prior_scale": fit.scale, "map_queries": fit.queries},
    )


class StreamedGaussian(Method):
    """A Gaussian under a Gaussian prior, changed by batch after batch; its state is in natural parameters."""

    answers = "density"
    unit = "step"
    shown = ("{queries} queries/step",)

    def __init__(self, arm: Any, problem: Problem, batches: Batches):
        self.arm, self.problem, self.batches = arm, problem, batches
        n_features = problem.features.rows.shape[1]
        penalty = arm.prior.code.penalty(problem.prior)
        if penalty.rate:
            raise ConfigError(
                f"sampler={arm.sampler.name}: needs a Gaussian prior, prior={arm.prior.name} is none; choose "
                "prior=gaussian"
            )
        self.prior_precision = penalty.ridge * np.eye(n_features * problem.model.n_predictors)

    def init(self, seed: int, needed: tuple[Any, ...] = ()) -> State:
        """The prior, and the key of the batches."""
        rng = seeded(seed, self.arm.method())
        key = rng.integers(2**63, size=1)
        prior = {"precision": self.prior_precision, "linear": np.zeros(len(self.prior_precision))}
        return {**prior, "step": np.zeros(1, np.int64), "key": key, "rng": generator_state(rng)}

    def estimates(self, state: State) -> dict[str, np.ndarray]:
        """Moments of the Gaussian."""
        found = self.result(state)
        return {"mean": found["mean"], "square": found["mean"] ** 2 + np.diag(found["covariance"])}

    def result(self, state: State) -> dict[str, np.ndarray]:
        """Its mean and covariance."""
        covariance = np.linalg.inv(state["precision"])
        return {"mean": covariance @ state["linear"], "covariance": (covariance + covariance.T) / 2}
