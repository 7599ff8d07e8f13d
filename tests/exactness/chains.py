"""Small posteriors with known moments, and chains on them: shared by exactness tests."""

from typing import NamedTuple

import numpy as np

from flyrun.compiled import jit
from flyrun.models import gaussian, logistic
from flyrun.samplers.chain import empty_draws, run_chain
from flyrun.samplers.firefly import firefly
from flyrun.samplers.full_data import full_data
from flyrun.samplers.target import start


class Toy(NamedTuple):
    """Logistic regression with two coefficients, and its moments by quadrature."""

    features: object
    prior: object
    mean: np.ndarray
    sd: np.ndarray
    mode: np.ndarray


def toy(n_data: int = 40, seed: int = 3) -> Toy:
    """Moments on a fine grid over ±8 posterior sds: exact to many digits (the trapezoid rule on an analytic
    density)."""
    rng = np.random.default_rng(seed)
    x = np.c_[rng.normal(size=n_data), np.ones(n_data)]
    t = np.where(rng.random(n_data) < 1 / (1 + np.exp(-(x @ [1.5, -0.5]))), 1.0, -1.0)
    features = logistic.bind(x, t)[1]
    axis = np.linspace(-6.0, 8.0, 701)
    a, b = np.meshgrid(axis, axis, indexing="ij")
    grid = np.stack([a.ravel(), b.ravel()])
    log_p = -np.logaddexp(0.0, -features.rows @ grid).sum(axis=0) - 0.5 * (grid**2).sum(axis=0)
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    mean = grid @ p
    sd = np.sqrt(((grid - mean[:, None]) ** 2) @ p)
    return Toy(features, gaussian.prior(1.0), mean, sd, grid[:, log_p.argmax()])


@jit
def _start(target, rng, theta):
    start(target, rng, theta)


def firefly_target(problem: Toy, gradients: bool = False, bound=None):
    """FlyMC target with bounds tight at the mode, unless others are given."""
    bound = bound or logistic.map_bound(logistic.Logistic(), (problem.features.rows @ problem.mode)[:, None])
    bounds = logistic.collapse(bound, logistic.Logistic(), problem.features)
    base = gaussian.pseudo_prior(problem.prior, bounds)
    return firefly(base, logistic.Logistic(), bound, problem.features, gradients)


def full_target(problem: Toy):
    """Full-data target."""
    return full_data(problem.prior, logistic.Logistic(), problem.features, 2)


def sample(target, kernel, brightness, first, n_iterations, seed, burn_in=1000):
    """Draws of a chain after burn-in, and the chain's last target."""
    rng, theta = np.random.default_rng(seed), np.array(first, float)
    _start(target, rng, theta)
    run_chain(rng, target, kernel, brightness, theta, 0, burn_in, 1, empty_draws(burn_in, 1, 0, theta.size))
    draws = empty_draws(n_iterations, 1, burn_in, theta.size)
    run_chain(rng, target, kernel, brightness, theta, burn_in, burn_in, 1, draws)
    return draws


def z_scores(theta: np.ndarray, problem: Toy) -> np.ndarray:
    """(mean − exact)/standard error for every coordinate and its square, errors by batch means.

    theta: (T, P). 100 batches: the scores are close to standard normal when batches outlast the correlation.
    """
    scores = []
    for values, exact in ((theta, problem.mean), (theta**2, problem.mean**2 + problem.sd**2)):
        batches = values.reshape(100, -1, values.shape[1]).mean(axis=1)
        scores.append((batches.mean(axis=0) - exact) / (batches.std(axis=0, ddof=1) / 10.0))
    return np.concatenate(scores)
