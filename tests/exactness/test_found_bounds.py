"""Chains under bounds that were searched for, of a package's likelihoods, against moments by quadrature."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import poisson, t

from flyrun.experiments.models import gaussian_prior, tangents
from flyrun.experiments.samplers.chain import hmc, random_walk
from flyrun.experiments.samplers.chain.brightness.implicit import implicit
from flyrun.experiments.samplers.chain.brightness.per_datum import per_datum
from flyrun.experiments.samplers.chain.metric import reference_of
from tests.exactness.chains import Toy, firefly_target, sample, z_scores
from tests.exactness.tightened import local_bound, local_target
from tests.plugins.rows import registered

N_DATA, N_ITERATIONS = 40, 100_000
LEVEL = 4.5  # four z-scores a test: fails by chance once in 36,000 runs, and seeds are fixed
SCALES = np.random.default_rng(2).uniform(0.2, 2.0, N_DATA)[:, None]
#: log L of targets (N, 1) at linear predictors (N, M), by formulas that share no code with the models
LIKELIHOODS = {
    "label_noise": lambda y, eta: np.log(0.05 + 0.9 / (1.0 + np.exp(-np.where(y > 0, eta, -eta)))),
    "softplus_counts": lambda y, eta: poisson.logpmf(y, np.logaddexp(0.0, eta)),
    "known_noise": lambda y, eta: t.logpdf(y, 4, eta, SCALES),
}


@pytest.fixture(scope="module", autouse=True)
def package():
    with registered("flyrun_rows"):
        yield


def toy(name):
    """Two coefficients, prior N(0, 1): moments on a grid."""
    rng = np.random.default_rng(4)
    x = np.c_[rng.standard_normal(N_DATA), np.ones(N_DATA)]
    eta = x @ [[1.2], [-0.4]]
    y = {
        "label_noise": np.where(rng.random((N_DATA, 1)) < 0.05 + 0.9 / (1.0 + np.exp(-eta)), 1.0, -1.0),
        "softplus_counts": 1.0 * rng.poisson(np.logaddexp(0.0, eta)),
        "known_noise": eta + SCALES * rng.standard_t(4, eta.shape),
    }[name]
    axes = np.linspace(-3.0, 4.0, 561), np.linspace(-3.5, 2.5, 481)
    grid = np.stack([part.ravel() for part in np.meshgrid(*axes, indexing="ij")])
    log_p = LIKELIHOODS[name](y, x @ grid).sum(axis=0) - 0.5 * (grid**2).sum(axis=0)
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    mean = grid @ p
    sd = np.sqrt((grid - mean[:, None]) ** 2 @ p)
    code = tangents.of(name)
    model, features = code.bind(x, y[:, 0], trials=SCALES[:, 0])
    mode = np.ascontiguousarray(grid[:, log_p.argmax()])
    return Toy(features, gaussian_prior.prior(1.0), mean, sd, mode, model, code)


def walk(target, problem):
    return random_walk.build(SimpleNamespace(target_accept=0.3, step=None), 2), implicit(0.3, N_DATA)


def hamiltonian(target, problem):
    config = SimpleNamespace(target_accept=0.8, step=None, n_steps=3, jitter=0.2)
    bright = np.random.default_rng(0).uniform(0.02, 0.9, N_DATA)
    return hmc.build(config, 2, reference_of(target.base, target=True)), per_datum(bright)


TARGETS = {
    "map": lambda problem: firefly_target(problem),
    "untuned": lambda problem: firefly_target(
        problem, bound=problem.likelihood.untuned_bound(problem.model, problem.features, 1.0)
    ),
    "local": lambda problem: local_target(problem, local_bound(problem, 1.2, 0.5)[0]),
}


LONG = [("label_noise", "local"), ("known_noise", "local")]  # compile for 8 s each, as softplus counts do


@pytest.mark.thorough(but="label_noise-map")
@pytest.mark.parametrize(
    ("name", "bound"),
    [
        pytest.param(name, bound, marks=[pytest.mark.slow] if (name, bound) in LONG else [])
        for name in LIKELIHOODS
        for bound in TARGETS
    ],
)
def test_chain_has_the_exact_moments(name, bound):
    problem = toy(name)
    target = TARGETS[bound](problem)
    kernel, brightness = (hamiltonian if bound == "local" else walk)(target, problem)
    draws = sample(target, kernel, brightness, problem.mode + 0.1, N_ITERATIONS, seed=5)
    assert np.abs(z_scores(draws.theta, problem)).max() < LEVEL
