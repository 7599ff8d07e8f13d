"""Black-box variational inference (Ranganath, Gerrish & Blei 2014): mean field, by values of log p̃ alone.

The survey's Algorithm 18 (Angelino, Johnson & Adams 2016), which lacks the step size: here Adam's.
"""

import numpy as np

from flyrun.experiments.models import passes
from flyrun.experiments.models.problem import log_priors
from flyrun.experiments.models.shard_prior import priors_of
from flyrun.experiments.samplers.approximations.black_box import BlackBox
from flyrun.experiments.samplers.approximations.gradients import by_scores


class Bbvi(BlackBox):
    """Independent Gaussian coordinates, under any prior: no slope is asked for."""

    label = "Black-box VI"

    def gradient(
        self, at: np.ndarray, rows: np.ndarray | None, rng: np.random.Generator
    ) -> tuple[np.ndarray, float]:
        mean, log_sd = np.split(at, 2)
        noise = rng.standard_normal((self.n_draws, self.n_params))
        theta = mean + noise * np.exp(log_sd)
        shared = self.log_likelihoods(theta, rows)
        separate = self.log_prior_by_coordinate(theta) + 0.5 * noise**2 + log_sd + 0.5 * np.log(2 * np.pi)
        bound = float(np.mean(shared + separate.sum(axis=1)))
        return by_scores(self.config.baseline, noise, log_sd, shared, separate), bound

    def log_likelihoods(self, theta: np.ndarray, rows: np.ndarray | None) -> np.ndarray:
        """Σ log L_n, (S,), at positions (S, P); rows as in `gradient`."""
        model, features = self.problem.model, self.problem.features
        if rows is None:
            return passes.log_likelihoods(self.arm.model.code, model, features, theta)
        return self.batches.factor * passes.sums_over(model, features, rows, theta)

    def log_prior_by_coordinate(self, theta: np.ndarray) -> np.ndarray:
        """(S, P), at positions (S, P)."""
        penalty = priors_of(self.arm).penalty(self.problem.prior)
        top = log_priors(self.problem.prior, np.zeros((1, self.n_params)))[0] / self.n_params
        return top - 0.5 * penalty.ridge * theta**2 - penalty.rate * np.abs(theta)

    def gaussian(self, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean, log_sd = np.split(at, 2)
        return mean, np.diag(np.exp(log_sd))


build = Bbvi
