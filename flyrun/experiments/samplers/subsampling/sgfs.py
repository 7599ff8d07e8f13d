"""Stochastic gradient Fisher scoring (Ahn, Korattikara & Welling 2012, Algorithm 1) with B = M.

θ ← θ + 2/(1 + 4/ε)·M⁻¹(∇U_t + N(0, 4M/ε)), M = (1 + N/b)·N·Î + Λ: Î is the mean so far of the covariance of a
batch's scores, Λ the prior's curvature, which the authors leave out. M is the curvature and the variance of a
batch's gradient together: on a Gaussian posterior of curvature N·Î + Λ the law is right for every ε. For
ε → ∞ batches make all the noise.
"""

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from flyrun.experiments.models.problem import prior_curvature, prior_scores
from flyrun.experiments.samplers.method import State
from flyrun.experiments.samplers.subsampling.gradient_chain import GradientChain


class Sgfs(GradientChain):
    """A step reads a batch, b queries, and factors a matrix, O(P³)."""

    label = "SGFS"

    def companions(self, rng: np.random.Generator) -> State:
        return {"fisher": np.zeros((self.n_params, self.n_params))}

    def metric(self, theta: np.ndarray, fisher: np.ndarray) -> np.ndarray:
        """M, (P, P), by the mean covariance of scores."""
        share = 1.0 + self.n_data / self.batches.size
        return share * self.n_data * fisher + prior_curvature(self.arm, self.problem, theta)

    def move(
        self, rng: np.random.Generator, theta: np.ndarray, step: int, index: np.ndarray, beside: State
    ) -> tuple[np.ndarray, int]:
        each, ratio = self.by_row(theta, index), 4.0 / self.arm.sampler.step
        fisher = np.cov(each, rowvar=False).reshape(beside["fisher"].shape)
        beside["fisher"] = beside["fisher"] + (fisher - beside["fisher"]) / (step + 1)
        slope = prior_scores(self.arm, self.problem, theta) + self.batches.factor * each.sum(axis=0)
        factor = cho_factor(self.metric(theta, beside["fisher"]), lower=True)
        noise = np.sqrt(ratio) * rng.standard_normal(len(theta))
        moved = cho_solve(factor, slope) + solve_triangular(factor[0], noise, lower=True, trans="T")
        return self.checked(theta + 2.0 / (1.0 + ratio) * moved, step), len(index)

    def linear(
        self, curvature: np.ndarray, noise: np.ndarray, state: State
    ) -> tuple[np.ndarray, np.ndarray] | None:
        ratio, metric = 4.0 / self.arm.sampler.step, self.metric(state["theta"], state["fisher"])
        gain = 2.0 / (1.0 + ratio) * np.linalg.inv(metric)
        return np.eye(len(gain)) - gain @ curvature, gain @ (noise + ratio * metric) @ gain


build = Sgfs
