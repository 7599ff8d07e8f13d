"""Stochastic gradient Langevin dynamics (Welling & Teh 2011; Angelino, Johnson & Adams 2016, Algorithm 8).

θ ← θ + ½ε_t ∇U_t(θ) + N(0, ε_t I), U_t = log p(θ) + (N/b) Σ_batch log p(x_n|θ), without a test of acceptance:
biased for every step. Steps ε_t = step·(delay + t)^(−decay), constant for decay = 0.
"""

from typing import Any

import numpy as np

from flyrun.errors import FlyrunError
from flyrun.models import passes
from flyrun.models.problem import Problem, prior_scores
from flyrun.samplers.batches import rows_of
from flyrun.samplers.method import Method, State
from flyrun.samplers.subsampling.method import SubsetChain


def build(arm: Any, problem: Problem) -> Method:
    """The method of an arm."""
    return Sgld(arm, problem)


class Sgld(SubsetChain):
    """A step reads a batch, b queries."""

    label = "SGLD"

    def step_size(self, step: np.ndarray | int) -> Any:
        """ε_t of a step t, counted from 0."""
        sampler = self.arm.sampler
        return sampler.step * (sampler.delay + step) ** -sampler.decay

    def gradient(self, theta: np.ndarray, index: np.ndarray) -> np.ndarray:
        """∇U_t(θ), (P,), unbiased for that of the log posterior."""
        model, features = rows_of(self.arm, self.problem, index)
        by_data = passes.slope(self.arm.model.code, model, features, theta)[1]
        return prior_scores(self.arm, self.problem, theta) + self.batches.factor * by_data

    def move(
        self, rng: np.random.Generator, theta: np.ndarray, step: int, index: np.ndarray
    ) -> tuple[np.ndarray, int]:
        """As in the base class."""
        size = self.step_size(step)
        with np.errstate(over="ignore", invalid="ignore"):
            drift = 0.5 * size * self.gradient(theta, index)
            moved = theta + drift + np.sqrt(size) * rng.standard_normal(len(theta))
        if not np.isfinite(moved).all():
            raise FlyrunError(
                f"θ left all bounds at step {step:,}: sampler.step={self.arm.sampler.step:g} is too long; "
                "take a shorter one"
            )
        return moved, len(index)

    def more(self, state: State | None) -> dict[str, Any]:
        """expected_sd_ratio: by the curvature at the last θ and the mean step of the last half, one pass."""
        if state is None or not state["step"][0]:
            return {}
        n_steps, theta = int(state["step"][0]), state["theta"]
        curvature = passes.look(
            self.arm.model.code, self.problem.model, self.problem.features, theta
        ).curvature + self.arm.prior.code.penalty(self.problem.prior).ridge * np.eye(self.n_params)
        size = float(np.mean(self.step_size(np.arange(n_steps // 2, n_steps))))
        noise = self.batches.factor
        if self.batches.kind == "epochs":
            noise *= (self.n_data - self.batches.size) / max(1, self.n_data - 1)
        return {"expected_sd_ratio": sd_ratio(curvature, size, noise)}


def sd_ratio(curvature: np.ndarray, step: float, noise: float) -> float:
    """Geometric mean over coordinates of SGLD's stationary sd by the posterior's, both Gaussian; inf where
    the step is too long.

    Along an eigenvector of the curvature, (P, P), of eigenvalue λ the variances' ratio is (1 + noise·ελ/4)/
    (1 − ελ/4). noise: variance of a batch's gradient by λ; N/b where rows are drawn with replacement and the
    model holds, so that their gradients' variances add up to the curvature. Less for batches of an epoch.
    """
    values, vectors = np.linalg.eigh(curvature)
    quarter = 0.25 * step * values
    if quarter.max() >= 1.0:
        return float("inf")
    inflated = (1.0 + quarter * noise) / (1.0 - quarter) / values
    own, theirs = (np.einsum("ij,j,ij->i", vectors, one, vectors) for one in (inflated, 1.0 / values))
    return float(np.exp(0.5 * np.mean(np.log(own / theirs))))
