"""Simulation-based calibration (Talts et al. 2018) of exact weighted draws, and a fault that it finds."""

import numpy as np
from scipy.stats import chisquare

from flyrun.experiments.models import gaussian_prior, logistic
from flyrun.experiments.models.factors import Factors, Gaussian, touching
from flyrun.experiments.models.fits.newton_fit import find_newton_map
from flyrun.experiments.samplers.approximations.remainders import Proposal, best_rate, draw, remainders, room

N, REPEATS, DRAWS, BINS = 30, 600, 1_000, 8


class _Named:
    """What `remainders` reads of an arm and its problem."""

    def __init__(self, **values):
        self.__dict__.update(values)


def _problem(rng):
    """θ from the prior, data by it; Laplace's sites and the Gaussian that they make."""
    theta = rng.standard_normal(2)
    x = np.c_[rng.normal(size=N) * 1.5, np.ones(N)]
    t = np.where(rng.random(N) < 1 / (1 + np.exp(-(x @ theta))), 1.0, -1.0)
    model, features = logistic.bind(x, t)
    prior = gaussian_prior.penalty(gaussian_prior.prior(1.0))
    found = find_newton_map(logistic, model, features, prior, 0.0, np.zeros(2))
    sites = touching(Factors(logistic, model), features.rows @ found.theta[:, None])
    precision = np.eye(2) + (features.rows * sites.precision[:, 0]).T @ features.rows
    return theta, model, features, sites, Gaussian(found.theta, np.linalg.inv(precision))


def _level(width):
    """The least p-value of the ranks' evenness, over both coordinates; ranks are by weight."""
    rng, counts = np.random.default_rng(11), np.zeros((2, BINS))
    for _ in range(REPEATS):
        truth, model, features, sites, q = _problem(rng)
        arm = _Named(model=_Named(code=logistic))
        left, kappa, _ = remainders(arm, _Named(model=model, features=features), sites, q)
        theta, log_weight, queries = np.empty((DRAWS, 2)), np.empty(DRAWS), np.empty(DRAWS)
        negative, root = np.zeros(DRAWS, bool), np.linalg.cholesky(q.covariance)
        proposal, work = Proposal(q.mean, root, 0.0), room(2, 1, left.basis)
        draw(
            left, proposal, model, features, work, rng, 4 * best_rate(kappa), 3.0, theta, log_weight,
            negative, queries,
        )  # fmt: skip
        weight = np.where(negative, -1, 1) * np.exp(log_weight)
        theta = q.mean + width * (theta - q.mean)
        share = (weight @ (theta < truth)) / weight.sum()
        for d in range(2):
            counts[d, int(np.clip(share[d] * BINS, 0, BINS - 1))] += 1
    return min(chisquare(one).pvalue for one in counts)


def test_ranks_of_the_truth_are_even():
    assert _level(1.0) > 0.005


def test_negative_control_draws_too_close_together_are_found_out():
    assert _level(0.67) < 1e-6
