"""Moments of every coordinate by quadrature, where each row of the data sees one of them alone.

The posterior of independent coordinates is a product, however many these are: a pass over the rows evaluates
a node of every coordinate at once. Where a node's density is e^−45 of the highest nothing is left to add.
"""

import numpy as np

from flyrun.experiments.config.arm import Arm
from flyrun.experiments.gold.grid_moments import BELOW
from flyrun.experiments.gold.recipe import Moments
from flyrun.experiments.models import passes
from flyrun.experiments.models.base_density import Penalty
from flyrun.experiments.models.problem import Problem, log_priors
from flyrun.experiments.models.shard_prior import priors_of
from flyrun.ground.errors import FlyrunError

POINTS, _FIRST, _MOST_ROUNDS = 401, 2_001, 12
_SDS = 10.0  # of a Gaussian prior, to either side, that are looked at


def moments(arm: Arm, problem: Problem) -> Moments:
    """Of a model of one predictor. FlyrunError where a row sees several coordinates."""
    rows = problem.features.rows
    if problem.model.n_predictors > 1 or (np.count_nonzero(rows, axis=1) > 1).any():
        raise FlyrunError(
            f"dataset={problem.dataset.name}: its rows see several coordinates each, whose exact moments are "
            "not known; drop quadrature=true"
        )
    penalty = priors_of(arm).penalty(problem.prior)
    reach = BELOW / penalty.rate if penalty.rate else _SDS / np.sqrt(penalty.ridge)
    low, high = np.full(rows.shape[1], -reach), np.full(rows.shape[1], reach)
    points = _FIRST
    for _ in range(_MOST_ROUNDS):
        theta = np.linspace(low, high, points)
        log_p = _log_densities(problem, penalty, theta)
        step = (high - low) / (points - 1)
        inside = log_p > log_p.max(axis=0) - BELOW
        first, last = inside.argmax(axis=0), points - 1 - inside[::-1].argmax(axis=0)
        within = (last - first + 2) * step
        if (within > 0.5 * (high - low)).all() and points == POINTS:
            return _summed(theta, log_p, step)
        low, high = low + (first - 1) * step, low + (last + 1) * step
        points = POINTS
    raise FlyrunError("quadrature=true: the density is too narrow for it; take fewer data")


def _log_densities(problem: Problem, penalty: Penalty, theta: np.ndarray) -> np.ndarray:
    """Log posterior of each coordinate at its nodes, both (G, D), each with its share of the evidence."""
    size = theta.shape[1]
    seen = (problem.features.rows != 0).argmax(axis=1)
    constant = float(log_priors(problem.prior, np.zeros((1, size)))[0]) / size
    log_density = constant - 0.5 * penalty.ridge * theta**2 - penalty.rate * np.abs(theta)
    every = slice(0, len(seen))
    for g, at in enumerate(theta):
        eta = passes.block_predictors(problem.model, problem.features, at, every)
        log_density[g] += np.bincount(seen, passes.values_and_slopes(problem.model, eta)[0], size)
    return log_density


def _summed(theta: np.ndarray, log_p: np.ndarray, step: np.ndarray) -> Moments:
    """By the trapezoidal rule, as for a grid; theta, log_p: (G, D), step: (D,)."""
    top = log_p.max(axis=0)
    weight = np.exp(log_p - top)
    share = weight / weight.sum(axis=0)
    mean = (share * theta).sum(axis=0)
    variance = (share * (theta - mean) ** 2).sum(axis=0)
    none = np.zeros_like(mean)
    return Moments(mean, variance, none, none, float((top + np.log(weight.sum(axis=0) * step)).sum()), 0.0)
