"""A bracket for log Z on simulated data, by annealed importance sampling in both directions.

Forward, from the prior to the posterior, its estimate is at most log Z in expectation; in reverse, from an
exact draw of the posterior, at least. Such a draw is to be had where data were simulated: the θ they came
from, if that was itself drawn from the prior (bidirectional Monte Carlo; Grosse, Ghahramani & Adams 2015).
"""

from itertools import pairwise

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


@outer_jit
def _draw(prior, rng, theta):
    draw_base(prior, rng, theta)


def bracket(
    arm: Arm, problem: Problem, exact: np.ndarray, seed: int = 0, chains: int = CHAINS, steps: int = STEPS
) -> tuple[float, float]:
    """(at most, at least) log Z, each but for the luck of so many chains. exact: (P,), a draw of the
    posterior.
    """
    rng = np.random.default_rng(seed)
    start = np.empty((chains, exact.size))
    for row in start:
        _draw(problem.prior, rng, row)
    ladder = 1 / (1 + np.exp(-np.linspace(-6, 6, steps + 1)))
    ladder = (ladder - ladder[0]) / (ladder[-1] - ladder[0])
    forward = _annealed(arm, problem, rng, start, ladder)
    reverse = _annealed(arm, problem, rng, np.tile(exact, (chains, 1)), ladder[::-1])
    return float(logsumexp(forward) - np.log(chains)), float(np.log(chains) - logsumexp(reverse))


def _annealed(
    arm: Arm, problem: Problem, rng: np.random.Generator, theta: np.ndarray, ladder: np.ndarray
) -> np.ndarray:
    """Log weights, (chains,), of a way along a ladder of powers of the likelihood, a Langevin step each."""
    penalty = priors_of(arm).penalty(problem.prior)
    of_prior = np.eye(theta.shape[1]) * (penalty.ridge or 0.5 * penalty.rate**2)
    of_data = posterior_curvature(arm, problem) - of_prior
    size = 1.2 * theta.shape[1] ** (-1 / 6)
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
    """A Metropolis-adjusted Langevin step from (G, P), shaped by root·rootᵀ, on prior × likelihood^power."""

    def drift(at: np.ndarray) -> np.ndarray:
        slope = power * scores(arm, problem, at) + (1 - power) * prior_scores(arm, problem, at)
        return at + 0.5 * size**2 * np.linalg.solve(root.T, np.linalg.solve(root, slope.T)).T

    centre = drift(theta)
    proposal = centre + size * np.linalg.solve(root.T, rng.standard_normal(theta.shape).T).T
    ahead = (((proposal - centre) @ root) ** 2).sum(axis=1)
    back = (((theta - drift(proposal)) @ root) ** 2).sum(axis=1)
    then = log_densities(arm, problem, proposal)
    gain = then[0] - now[0] + power * (then[1] - now[1]) + (ahead - back) / (2 * size**2)
    taken = np.log(rng.random(len(theta))) < gain
    prior, likelihood = (np.where(taken, new, old) for new, old in zip(then, now, strict=True))
    return np.where(taken[:, None], proposal, theta), prior, likelihood
