"""Automatic differentiation variational inference (Kucukelbir, Tran, Ranganath, Gelman & Blei 2017).

θ = μ + L·noise, whose noise does not depend on the parameters: the bound's slope is that of log p̃ at draws,
and the entropy's in closed form. L is diagonal or lower triangular. Whitened, all this happens in coordinates
φ, θ = MAP + Rφ with RRᵀ Laplace's covariance, and begins there: Adam's steps are of one length in every
coordinate, so it is slow where the posterior's sds differ or coordinates are correlated.
"""

import time
from typing import Any

import numpy as np

from flyrun.experiments.config.arm import Arm
from flyrun.experiments.models import passes
from flyrun.experiments.models.problem import Problem, log_priors, posterior_curvature, prior_scores
from flyrun.experiments.samplers.approximations.black_box import BlackBox
from flyrun.experiments.samplers.approximations.gradients import by_slopes, by_slopes_full, entropy
from flyrun.experiments.samplers.approximations.method import ridge_of
from flyrun.experiments.samplers.batches import rows_of


class Advi(BlackBox):
    """Gaussians by slopes of a smooth log posterior."""

    def __init__(self, arm: Arm, problem: Problem):
        super().__init__(arm, problem)
        ridge_of(arm, problem)
        self.full, self.whiten = arm.sampler.covariance == "full_rank", arm.sampler.whiten
        self.label = f"ADVI, {'full rank' if self.full else 'mean field'}{', whitened' * self.whiten}"
        self.centre, self.frame = np.zeros(self.n_params), np.eye(self.n_params)
        if self.whiten:
            started = time.perf_counter()
            self.centre, lower = problem.fit.theta_map, np.linalg.cholesky(posterior_curvature(arm, problem))
            self.frame = np.linalg.inv(lower).T
            self.own_queries, self.own_seconds = len(problem.features.rows), time.perf_counter() - started
        self.log_frame = np.log(np.diag(self.frame)).sum()  # of its determinant: it is triangular

    @property
    def parts(self) -> tuple[Any, ...]:
        return self.centre, self.frame

    def first(self) -> np.ndarray:
        """L diagonal, (2P + Q,) with Q entries below it; whitened it is Laplace's Gaussian."""
        below = np.zeros(self.n_params * (self.n_params - 1) // 2 if self.full else 0)
        start = np.zeros(2 * self.n_params) if self.whiten else super().first()
        return np.concatenate([start, below])

    def gradient(
        self, at: np.ndarray, rows: np.ndarray | None, rng: np.random.Generator
    ) -> tuple[np.ndarray, float]:
        mean, root = self.root(at)
        noise = rng.standard_normal((self.n_draws, self.n_params))
        theta = self.centre + (mean + noise @ root.T) @ self.frame.T
        values, slopes = self.log_posterior(theta, rows)
        log_sd = at[self.n_params : 2 * self.n_params]
        bound = values.mean() + entropy(log_sd) + self.log_frame
        by = by_slopes_full if self.full else by_slopes
        return by(noise, slopes @ self.frame, log_sd), float(bound)

    def log_posterior(self, theta: np.ndarray, rows: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Values, (S,), and slopes, (S, P), at positions (S, P); rows as in `gradient`."""
        module, model, features, factor = self.arm.model.code, self.problem.model, self.problem.features, 1.0
        if rows is not None:
            (model, features), factor = rows_of(self.arm, self.problem, rows), self.batches.factor
        looks = [passes.slope(module, model, features, each) for each in theta]
        values = np.array([value for value, _ in looks])
        slopes = np.array([slope for _, slope in looks])
        prior = log_priors(self.problem.prior, theta), prior_scores(self.arm, self.problem, theta)
        return factor * values + prior[0], factor * slopes + prior[1]

    def root(self, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """μ, (P,), and L, (P, P)."""
        mean, log_sd, below = np.split(at, [self.n_params, 2 * self.n_params])
        root = np.diag(np.exp(log_sd))
        if self.full:
            root[np.tril_indices(self.n_params, -1)] = below
        return mean, root

    def gaussian(self, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean, root = self.root(at)
        return self.centre + self.frame @ mean, self.frame @ root


build = Advi
