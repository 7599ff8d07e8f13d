"""A bracket for log Z on simulated data, by annealed importance sampling in both directions.

Forward, from the prior to the posterior, its estimate is at most log Z in expectation; in reverse, from an
exact draw of the posterior, at least. Such a draw is to be had where data were simulated: the θ they came
from, if that was itself drawn from the prior (bidirectional Monte Carlo; Grosse, Ghahramani & Adams 2015).
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from flyrun.experiments.config.arm import Arm
from flyrun.experiments.models.base_density import draw_base
from flyrun.experiments.models.problem import (
    Problem,
    log_densities,
    posterior_curvature,
    prior_scores,
    scores,
)
from flyrun.experiments.models.shard_prior import priors_of
from flyrun.ground.numerics.compiled import outer_jit

CHAINS, STEPS = 16, 300


class Bracket(NamedTuple):
    """Of log Z: at most and at least, each but for chance, and standard errors over chains."""

    low: float
    high: float
    low_se: float
    high_se: float


@outer_jit
def _draw(prior, rng, theta):
    draw_base(prior, rng, theta)


def bracket(
    arm: Arm, problem: Problem, exact: np.ndarray, seed: int = 0, chains: int = CHAINS, steps: int = STEPS
) -> Bracket:
    """Bracket log Z. exact: (P,), a draw of the posterior."""
    rng = np.random.default_rng(seed)
    start = np.empty((chains, exact.size))
    for row in start:
        _draw(problem.prior, rng, row)
    of_prior, of_data = _curvatures(arm, problem, exact.size)
    # once data outweigh the prior the log likelihood's sd is as 1/power: steps of equal ratios then
    most = np.log1p(np.linalg.eigvalsh(of_data)[-1] / of_prior[0, 0])
    ladder = np.expm1(np.linspace(0, most, steps + 1)) / np.expm1(most)
    forward = _annealed(arm, problem, rng, start, ladder)
    reverse = _annealed(arm, problem, rng, np.tile(exact, (chains, 1)), ladder[::-1])
    (low, low_se), (high, high_se) = _log_mean(forward), _log_mean(reverse)
    return Bracket(low, -high, low_se, high_se)


def _curvatures(arm: Arm, problem: Problem, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Of the prior, (P, P), and of the likelihood at the MAP."""
    penalty = priors_of(arm).penalty(problem.prior)
    of_prior = np.eye(size) * (penalty.ridge or 0.5 * penalty.rate**2)
    return of_prior, posterior_curvature(arm, problem) - of_prior


def _log_mean(log_weight: np.ndarray) -> tuple[float, float]:
    """Logarithm of the mean of weights whose logarithms are (n,), and its standard error."""
    n = len(log_weight)
    weight = np.exp(log_weight - log_weight.max())
    error = weight.std(ddof=1) / weight.mean() / np.sqrt(n)
    return float(logsumexp(log_weight) - np.log(n)), float(error)


def _annealed(
    arm: Arm, problem: Problem, rng: np.random.Generator, theta: np.ndarray, ladder: np.ndarray
) -> np.ndarray:
    """Log weights, (chains,), of a way along a ladder of powers of the likelihood, a Langevin step each."""
    of_prior, of_data = _curvatures(arm, problem, theta.shape[1])
    size = min(0.95, 1.6 * theta.shape[1] ** (-1 / 6))
    log_weight = np.zeros(len(theta))
    prior, likelihood = log_densities(arm, problem, theta)
    for before, power in pairwise(ladder):
        log_weight += (power - before) * likelihood
        root = np.linalg.cholesky(of_prior + power * of_data)
        theta, prior, likelihood = _langevin(arm, problem, rng, theta, (prior, likelihood), power, root, size)
    return log_weight


def _langevin(
    arm: Arm,
    problem: Problem,
    rng: np.random.Generator,
    theta: np.ndarray,
    now: tuple[np.ndarray, np.ndarray],
    power: float,
    root: np.ndarray,
    size: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A Metropolis-adjusted Langevin step from (G, P), shaped by root·rootᵀ, on prior × likelihood^power.

    Where that is the precision of a Gaussian target its proposal, of variance size² and a drift of
    1 − √(1 − size²) of the way to the mean, is always taken (Crank & Nicolson's discretisation).
    """
    drifted = 1.0 - np.sqrt(1.0 - size**2)

    def drift(at: np.ndarray) -> np.ndarray:
        slope = power * scores(arm, problem, at) + (1 - power) * prior_scores(arm, problem, at)
        return at + drifted * np.linalg.solve(root.T, np.linalg.solve(root, slope.T)).T

    centre = drift(theta)
    proposal = centre + size * np.linalg.solve(root.T, rng.standard_normal(theta.shape).T).T
    ahead = (((proposal - centre) @ root) ** 2).sum(axis=1)
    back = (((theta - drift(proposal)) @ root) ** 2).sum(axis=1)
    then = log_densities(arm, problem, proposal)
    gain = then[0] - now[0] + power * (then[1] - now[1]) + (ahead - back) / (2 * size**2)
    taken = np.log(rng.random(len(theta))) < gain
    prior, likelihood = (np.where(taken, new, old) for new, old in zip(then, now, strict=True))
    return np.where(taken[:, None], proposal, theta), prior, likelihood
