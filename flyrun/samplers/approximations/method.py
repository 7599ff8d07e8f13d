"""The family of approximations by one density: what its methods share, and which is asked for."""

from pathlib import Path
from typing import Any

from flyrun.models.problem import Problem, bind
from flyrun.samplers.method import Facts, Method


def prepare(arm: Any, folder: Path) -> Method:
    """Data and model bound, the MAP fitted or recalled; DataError or ConfigError as bind's."""
    return arm.sampler.code.build(arm, bind(arm, folder, needs_map=True))


def facts(arm: Any, problem: Problem, label: str, exact: bool, queries: int, seconds: float) -> Facts:
    """What is known of a method, whose set-up took so many queries and seconds besides the fits."""
    fit, names, model = problem.fit, problem.dataset.feature_names, problem.model
    several = tuple(f"{k}:{name}" for k in range(model.n_predictors) for name in names)
    return Facts(
        update=label,
        exact=exact,
        coordinates=several if model.n_predictors > 1 else tuple(names),
        n_data=len(problem.features.rows),
        n_params=fit.theta_map.size,
        setup_queries=fit.queries + queries,
        setup_s=fit.seconds + seconds,
        more={"prior_scale": fit.scale, "map_queries": fit.queries},
    )
