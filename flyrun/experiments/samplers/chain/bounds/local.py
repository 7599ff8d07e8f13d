"""Bounds of two levels (models/local_bounds.py): tight at the MAP, tighter where the posterior is. Ours."""

from types import ModuleType
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import chdtri

from flyrun.experiments.config.bound import Local
from flyrun.experiments.models import local_class_bounds, passes
from flyrun.experiments.models.features import Features, Model
from flyrun.experiments.models.local_bounds import Ellipsoid, LocalBound, ellipsoid
from flyrun.experiments.samplers.chain.bounds.map import lowered
from flyrun.experiments.samplers.chain.setup import Setup


def build(config: Local, setup: Setup, expects: bool) -> tuple[Any, np.ndarray]:
    """Bounds for all but config.mass_outside of the Gaussian at the MAP, so much lower; E L̃_n, (N,)."""
    problem = setup.problem
    radius = float(np.sqrt(chdtri(setup.n_params, config.mass_outside)))
    region = ellipsoid(problem.fit.theta_map, setup.curvature, radius)
    setup.queries += setup.n_data
    bound, expected = within(setup.module, problem.model, problem.features, region)
    slack = (0.5 if expected.sum() >= 0.5 else 0.0) if config.slack == "auto" else config.slack
    by, expected = lowered(expected, slack)
    bound.lower(by)
    return bound, expected


def within(module: ModuleType, model: Model, features: Features, region: Ellipsoid) -> tuple[Any, np.ndarray]:
    """Bounds tight at the region's centre, and E L̃_n, (N,): (c_n + f'')s_n²/2 to second order. One pass."""
    if model.n_predictors > 1:
        return local_class_bounds.within(module, model, features, region)
    colour = solve_triangular(np.linalg.cholesky(region.curvature), np.eye(len(region.centre)), lower=True).T
    none = module.map_bound(module.part(model, slice(0, 0)), np.zeros((0, 1)))
    kind, (empty,) = type(none), none
    least_of = getattr(module, "least_curvature", None)

    def work(block: slice) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        part, at = module.part(model, block), passes.block_predictors(model, features, region.centre, block)
        rows = features.rows[block].astype(np.float64)
        square = ((rows @ colour) ** 2).sum(axis=1)  # leverages
        reach, bend = np.sqrt(region.square * square), module.curvature(part, at)[:, 0, 0]
        bent = module.local_curvature(part, at, reach)
        tight = np.column_stack([at, *passes.values_and_slopes(part, at), bent])
        (everywhere,) = module.map_bound(part, at)
        lost = rows.T @ (rows * (bend - least_of(at, reach))[:, None]) if least_of else np.zeros((0, 0))
        return tight, everywhere, 0.5 * np.maximum(bent - bend, 0.0) * square, lost

    # tables of their own, so that a visit touches one cache line of each
    n_data = len(features.rows)
    parabola, expected, first = np.empty((n_data, 4)), np.empty(n_data), 0
    beyond, least = np.empty((n_data, empty.shape[1])), region.curvature if least_of else np.zeros((0, 0))
    for tight, everywhere, expect, lost in passes.over_blocks(n_data, work):
        block = slice(first, first + len(tight))
        parabola[block], beyond[block], expected[block] = tight, everywhere, expect
        least, first = least - lost, block.stop
    return LocalBound(parabola, kind(beyond), region, np.zeros(1, np.bool_), least), expected
