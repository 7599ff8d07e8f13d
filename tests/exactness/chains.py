"""Small posteriors with known moments, and chains on them: shared by exactness tests."""

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import helmert
from scipy.special import logsumexp

from flyrun.experiments.models import (
    gaussian_prior,
    laplace_prior,
    logistic,
    normal,
    softmax,
    student_t,
)
from flyrun.experiments.models.collapse import collapse
from flyrun.experiments.samplers.chain.loop import begin_chain, empty_draws, run_chain
from flyrun.experiments.samplers.chain.metric import reference_of
from flyrun.experiments.samplers.chain.targets.firefly import firefly
from flyrun.experiments.samplers.chain.targets.full_data import FullData, full_data
from flyrun.experiments.samplers.chain.targets.target import start
from flyrun.ground.numerics.compiled import jit


class Toy(NamedTuple):
    """A posterior of a few parameters and its moments by quadrature."""

    features: Any
    prior: Any
    mean: np.ndarray
    sd: np.ndarray
    mode: np.ndarray
    model: Any = logistic.Logistic()
    likelihood: Any = logistic
    priors: Any = gaussian_prior


@cache  # the grids take a second, and many tests ask for them
def toy(n_data: int = 40, seed: int = 3) -> Toy:
    """Logistic regression with two coefficients.

    Moments on a fine grid over ±8 posterior sds: exact to many digits (the trapezoid rule on an analytic
    density). The density is worked out only where it is above e⁻¹⁰⁰ of its greatest value: it is log-concave,
    so every tenth point tells the box that holds all of these; every third point there has the moments.
    """
    rng = np.random.default_rng(seed)
    x = np.c_[rng.normal(size=n_data), np.ones(n_data)]
    t = np.where(rng.random(n_data) < 1 / (1 + np.exp(-(x @ [1.5, -0.5]))), 1.0, -1.0)
    features = logistic.bind(x, t)[1]
    axis = np.linspace(-6.0, 8.0, 701)

    def evaluated(*axes):
        grid = np.stack([part.ravel() for part in np.meshgrid(*axes, indexing="ij")])
        log_p = -np.logaddexp(0.0, -features.rows @ grid).sum(axis=0) - 0.5 * (grid**2).sum(axis=0)
        return grid, log_p

    coarse, log_p = evaluated(axis[::10], axis[::10])
    high = coarse[:, log_p > log_p.max() - 100.0]
    inside = [(axis > part.min() - 0.2) & (axis < part.max() + 0.2) for part in high]
    grid, log_p = evaluated(*(axis[within][::3] for within in inside))
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    mean = grid @ p
    sd = np.sqrt(((grid - mean[:, None]) ** 2) @ p)
    near, log_p = evaluated(*(axis[np.abs(axis - best) < 0.2] for best in grid[:, log_p.argmax()]))
    return Toy(features, gaussian_prior.prior(1.0), mean, sd, near[:, log_p.argmax()])


@cache
def softmax_toy(n_data: int = 30, seed: int = 5) -> Toy:
    """Three classes, one feature of small whole numbers, prior N(0, 1.5²).

    In the orthonormal coordinates u = Hθ (Helmert) the likelihood does not know u₀ = Σθ/√3, which has the
    prior's distribution; the other two are on a grid as in `toy`.
    """
    rng = np.random.default_rng(seed)
    x = rng.integers(-2, 3, n_data).astype(float)
    p = np.exp(np.outer(x, [0.8, -0.3, -0.5]))
    labels = (rng.random(n_data)[:, None] > np.cumsum(p / p.sum(axis=1, keepdims=True), axis=1)).sum(axis=1)
    model, features = softmax.bind(x[:, None], labels)
    scale, basis = 1.5, helmert(3, full=True)
    axis = np.linspace(-7.0, 7.0, 401)
    a, b = np.meshgrid(axis, axis, indexing="ij")
    grid = np.stack([a.ravel(), b.ravel()])
    theta = basis[1:].T @ grid
    log_p = -0.5 * (grid**2).sum(axis=0) / scale**2
    for n in range(n_data):
        eta = x[n] * theta
        log_p += eta[labels[n]] - logsumexp(eta, axis=0)
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    mean = grid @ p
    covariance = np.zeros((3, 3))
    covariance[0, 0] = scale**2
    covariance[1:, 1:] = (grid - mean[:, None]) * p @ (grid - mean[:, None]).T
    sd = np.sqrt(np.diag(basis.T @ covariance @ basis))
    mode = np.ascontiguousarray(theta[:, log_p.argmax()])
    return Toy(features, gaussian_prior.prior(scale), basis[1:].T @ mean, sd, mode, model, softmax)


@cache
def student_t_toy(n_data: int = 40, seed: int = 9) -> Toy:
    """Two coefficients, t₄ noise, Laplace prior; Gauss-Legendre on both sides of the corner at 0."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_data, 2))
    y = x @ [0.5, 0.05] + 0.6 * rng.standard_t(4, n_data)
    model, features = student_t.bind(x, y, scale=0.6, nu=4.0)
    nodes, weights = np.polynomial.legendre.leggauss(200)
    half = 1.5 * (nodes + 1.0) / 2.0  # (0, 1.5): beyond 8 posterior sds
    axis, weights = np.concatenate([-half[::-1], half]), np.concatenate([weights[::-1], weights])
    a, b = np.meshgrid(axis, axis, indexing="ij")
    grid = np.stack([a.ravel(), b.ravel()])
    log_p = -np.abs(grid).sum(axis=0) / 0.3
    for n in range(n_data):
        log_p -= 2.5 * np.log1p(((y[n] - x[n] @ grid) / 0.6) ** 2 / 4.0)
    p = np.exp(log_p - log_p.max()) * np.outer(weights, weights).ravel()
    p /= p.sum()
    mean = grid @ p
    sd = np.sqrt(((grid - mean[:, None]) ** 2) @ p)
    mode = grid[:, log_p.argmax()]
    return Toy(features, laplace_prior.prior(0.3), mean, sd, mode, model, student_t, laplace_prior)


@cache
def normal_toy(n_data: int = 30, seed: int = 2) -> Toy:
    """Numbers taken for normal, prior N(0, 1) of mean and log sd."""
    y = 0.4 + 0.8 * np.random.default_rng(seed).standard_normal(n_data)
    model, features = normal.bind(np.ones((n_data, 1)), y)
    a, b = np.meshgrid(np.linspace(-1.0, 1.8, 561), np.linspace(-1.4, 1.2, 521), indexing="ij")
    grid = np.stack([a.ravel(), b.ravel()])
    log_p = normal.sums(model, features.rows, grid.T) - 0.5 * (grid**2).sum(axis=0)
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    mean = grid @ p
    sd = np.sqrt(((grid - mean[:, None]) ** 2) @ p)
    return Toy(features, gaussian_prior.prior(1.0), mean, sd, grid[:, log_p.argmax()], model, normal)


TOYS = {"logistic": toy, "softmax": softmax_toy, "student_t": student_t_toy}


@jit
def begin(target, rng, theta):
    """Let a target look at the first position with no chain about."""
    start(target, rng, theta)


def firefly_target(problem: Toy, gradients: bool = False, bound=None):
    """FlyMC target with bounds tight at the mode, unless others are given."""
    model, features = problem.model, problem.features
    if bound is None:
        coefficients = problem.mode.reshape(model.n_predictors, -1)
        bound = problem.likelihood.map_bound(model, features.rows @ coefficients.T)
    base = problem.priors.pseudo_prior(problem.prior, collapse(bound, model, features))
    return firefly(base, model, bound, features, gradients)


def reference(problem: Toy, target):
    """The Gaussian of a Firefly target's own base; on full data that of bounds tight at the mode."""
    own = not isinstance(target, FullData)
    return reference_of(target.base if own else firefly_target(problem).base, own)


def full_target(problem: Toy, gradients: bool = False):
    """Full-data target."""
    return full_data(problem.prior, problem.model, problem.features, problem.mode.size, gradients)


def sample(target, kernel, brightness, first, n_iterations, seed, burn_in=1000):
    """Draws of a chain after burn-in, and the chain's last target."""
    rng, theta = np.random.default_rng(seed), np.array(first, float)
    begin_chain(rng, target, kernel, brightness, theta)
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
