"""How far a Gaussian is from the posterior, from draws of it and few data a draw, whatever their number.

With sites for a Gaussian q, log p(θ, data) − log q(θ) is a known quadratic and Σ r_n(θ). Two sums over data
drawn apart, each scaled to stand for all, have for covariance over θ ~ q the variance of the log weight:
what each adds of noise is independent. Half of it is KL(q‖p) where it is small; Pareto's k̂ is that of the
weights, the noise shrunk away.
"""

from typing import NamedTuple

import numpy as np

from flyrun.experiments.config.arm import Arm
from flyrun.experiments.models import passes
from flyrun.experiments.models.factors import (
    Factors,
    Gaussian,
    Projection,
    Sites,
    averaging,
    nodes,
    root_of,
    unsited,
)
from flyrun.experiments.models.features import gram, predicted, pulled
from flyrun.experiments.models.problem import Problem
from flyrun.experiments.models.shard_prior import priors_of
from flyrun.experiments.samplers.approximations.remainders import POINTS
from flyrun.ground.diagnostics.psis import pareto_k
from flyrun.ground.numerics.state import seeded

DRAWS = 1_000
FIRST, LAST = 100, 1_600  # data of a sum; four times as many until the error is small
_SMALL = 0.5  # variance of log weights, up to where KL is half of it
_EVEN = 0.01  # below, weights are all but even: of a tail there is nothing to see but the subsamples' noise
_BLOCK = 4_000_000  # numbers of rows looked at together


class Certificate(NamedTuple):
    """Of a Gaussian q."""

    variance: float  # of log weights under q
    error: float  # its standard error; too small where log weights have heavy tails
    kl: float  # KL(q‖p) in nats; NaN where variance is too large to tell
    k_hat: float  # NaN where weights are about even
    queries: int

    def plain(self) -> dict[str, float]:
        """As facts; without KL and k̂ where there are none."""
        facts = {f"certificate_{name}": float(value) for name, value in self._asdict().items()}
        unknown = [f"certificate_{name}" for name in ("kl", "k_hat") if np.isnan(getattr(self, name))]
        return {name: value for name, value in facts.items() if name not in unknown}


class Stand(NamedTuple):
    """Sites that stand for the likelihoods, for what is done about a Gaussian."""

    gaussian: Gaussian  # by all of them
    sites: Sites  # of the rows
    prior: Sites  # of the prior's coordinates, if it is no Gaussian
    queries: int  # that they took


def stand_at(arm: Arm, problem: Problem, q: Gaussian) -> Stand:
    """Sites of average slope and curvature under q, by a pass. LinAlgError where they make no Gaussian."""
    module, model, features = arm.model.code, problem.model, problem.features
    basis = Factors(module, model).basis
    projection = Projection(features, basis)
    little, k = projection.reduced(*q), basis.shape[1]
    penalty, size = priors_of(arm).penalty(problem.prior), len(q.mean)
    prior = Sites(*penalty.sites(size))
    sites = Sites(np.empty((len(features.rows), k, k)), np.empty((len(features.rows), k)))

    def work(block: slice) -> tuple[np.ndarray, np.ndarray, int]:
        rows, factors = features.rows[block].astype(np.float64), Factors(module, module.part(model, block))
        fitted, spent = averaging(factors, projection.marginals(rows, *little), POINTS)
        sites.precision[block], sites.linear[block] = fitted
        return gram(features, rows, fitted.precision), pulled(features, rows, fitted.linear), spent.queries

    product, linear, queries = passes.added(passes.over_blocks(len(features.rows), work))
    precision, linear = projection.back(product, linear)
    precision = precision + np.diag(penalty.gaussian_ridges(size) + prior.precision[:, 0, 0])
    np.linalg.cholesky(precision)
    covariance = np.linalg.inv(precision)
    return Stand(Gaussian(covariance @ linear, covariance), sites, prior, queries)


def certify(arm: Arm, problem: Problem, q: Gaussian, stand: Stand) -> Certificate:
    """Of q, with sites that need not make it."""
    gaussian, sites, prior = stand[:3]
    rng = seeded(0)
    noise = rng.standard_normal((DRAWS, len(q.mean)))
    away = noise @ np.linalg.cholesky(q.covariance).T
    theta = q.mean + away
    known = 0.5 * (noise**2).sum(axis=1) + _log_density(gaussian, theta)
    penalty = priors_of(arm).penalty(problem.prior)
    if not penalty.gaussian:
        known += penalty.beyond_ridge(theta)
        known -= theta @ prior.linear[:, 0] - 0.5 * theta**2 @ prior.precision[:, 0, 0]
    size, queries = FIRST, stand.queries
    while True:
        pair = []
        for _ in range(2):
            sums, spent = _sums(arm, problem, rng, theta, q, sites, min(size, len(problem.features.rows)))
            pair.append(known + sums)
            queries += spent
        first, second = (values - values.mean() for values in pair)
        variance, error = float(np.mean(first * second)), float(np.std(first * second) / np.sqrt(DRAWS))
        if error < max(0.01, 0.1 * variance) or size >= min(LAST, len(problem.features.rows)):
            break
        size *= 4
    both = (first + second) / 2
    shrunk = both * np.sqrt(max(variance, 0.0) / both.var()) if both.any() else both
    kl = max(variance, 0.0) / 2 if variance < _SMALL else np.nan
    k_hat = pareto_k(shrunk) if variance > _EVEN else np.nan
    return Certificate(variance, error, kl, k_hat, queries)


def _log_density(gaussian: Gaussian, theta: np.ndarray) -> np.ndarray:
    """At θ (S, P), up to a constant."""
    away = theta - gaussian.mean
    return -0.5 * np.einsum("np,np->n", away, np.linalg.solve(gaussian.covariance, away.T).T)


def _sums(
    arm: Arm,
    problem: Problem,
    rng: np.random.Generator,
    theta: np.ndarray,
    q: Gaussian,
    sites: Sites,
    size: int,
) -> tuple[np.ndarray, int]:
    """(N/size)·Σ r_n, (S,), over data of each θ's own, and the queries that they took."""
    module, model, features = arm.model.code, problem.model, problem.features
    rows = features.rows
    basis = Factors(module, model).basis
    projection = Projection(features, basis)
    little = projection.reduced(*q)
    grid, log_weight = nodes(basis.shape[1], POINTS)
    sums, step = np.empty(len(theta)), max(1, _BLOCK // (size * rows.shape[1]))
    for first in range(0, len(theta), step):
        at = theta[first : first + step]
        index = rng.integers(len(rows), size=(len(at), size))
        part, flat = rows[index.ravel()].astype(np.float64), index.ravel()
        factors, chosen = Factors(module, module.part(model, flat)), Sites(*(value[flat] for value in sites))
        gaussians = projection.marginals(part, *little)
        root = root_of(gaussians.variance)
        centre = np.zeros(len(flat))
        for node, weight in zip(grid, np.exp(log_weight), strict=True):
            centre += weight * unsited(factors, chosen, gaussians.mean + root @ node)
        eta = predicted(features, part.reshape(len(at), size, -1), at).reshape(len(flat), -1)
        left = unsited(factors, chosen, eta @ basis) - centre
        sums[first : first + step] = left.reshape(len(at), size).mean(axis=1) * len(rows)
    return sums, theta.shape[0] * size * (len(grid) + 1)
