"""Bounds tight at the MAP, or near it: where they touch, and how many data they leave bright."""

from typing import Any

import numpy as np

from flyrun.experiments.config.arm import Arm
from flyrun.experiments.config.bound import Map
from flyrun.experiments.models import passes
from flyrun.experiments.models.problem import Problem
from flyrun.experiments.samplers.chain.setup import Setup


def build(config: Map, setup: Setup, expects: bool) -> tuple[Any, np.ndarray]:
    """Bounds that touch at `centre`, or config.slack lower; E L̃_n, (N,), costs a pass and the curvature."""
    problem = setup.problem
    bound = setup.touching(centre(config, setup))
    if not expects and config.slack == 0:
        return bound, np.empty(0)
    expected = expected_pseudo(setup.arm, problem, setup.curvature)
    setup.queries += setup.n_data
    by, expected = lowered(expected, config.slack)
    setup.module.lower(bound, by)
    return bound, expected


def centre(config: Map, setup: Setup) -> np.ndarray:
    """Where the bounds touch, (P,): θ_MAP + offset_sds·Rᵀz, |z|² = P, a random direction.

    offset_sds times as far as a typical draw from the posterior: so many of its sds in each direction, in
    root mean square. RRᵀ: the posterior's curvature at the MAP.
    """
    theta_map = setup.problem.fit.theta_map
    if config.offset_sds == 0:
        return theta_map
    stream = np.random.Generator(np.random.PCG64(config.direction_seed))
    z = stream.standard_normal(theta_map.size)
    z *= np.sqrt(z.size) / np.linalg.norm(z)
    root = setup.lower
    return theta_map + config.offset_sds * np.linalg.solve(root.T, z)


def expected_pseudo(arm: Arm, problem: Problem, curvature: np.ndarray) -> np.ndarray:
    """E L̃_n over the posterior, (N,), for bounds tight at the MAP.

    η_n varies by its leverage, x_nᵀH⁻¹x_n for one predictor, H the posterior's `curvature` at the MAP.
    """
    module, features, theta = arm.model.code, problem.features, problem.fit.theta_map
    n_predictors, size = problem.model.n_predictors, features.rows.shape[1]
    covariance = np.linalg.inv(curvature)
    parts = covariance.reshape(n_predictors, size, n_predictors, size)

    def work(block: slice) -> np.ndarray:
        variance = passes.predictor_variance(features.rows[block].astype(np.float64), parts)
        at_map = passes.block_predictors(problem.model, features, theta, block)
        return module.expected_pseudo_likelihood(module.part(problem.model, block), at_map, variance)

    return passes.gathered(len(features.rows), work)


def lowered(expected: np.ndarray, slack: float) -> tuple[np.ndarray, np.ndarray]:
    """By how much bounds with slack lie below tight ones, (N,), and what E L̃_n, (N,), is then.

    1 + L̃ is the likelihood over its bound: bounds lower by s multiply it by e^s.
    """
    by = slack * expected
    # beyond 1e260 a datum is bright for good, and e^by would overflow soon
    return by, np.expm1(np.minimum(by, 600.0)) * (1.0 + expected) + expected
