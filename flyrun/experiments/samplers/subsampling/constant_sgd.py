"""Stochastic gradient descent with a constant step, taken for a sampler (Mandt, Hoffman & Blei 2017).

θ ← θ + K∇U_t, without noise of its own. V is the variance of a batch's gradient at the MAP. Theorem 1's step,
least in KL among multiples of the identity, is K = 2P/Tr V; Theorem 2's are K_ii = 2/V_ii and the full 2V⁻¹.
On a Gaussian posterior of curvature H the law is Σ = (I − KH)Σ(I − KH)ᵀ + KVKᵀ: for the full K the
posterior's up to H by V, which is small where batches are.
"""

import time

import numpy as np
from scipy.linalg import LinAlgError

from flyrun.experiments.models.problem import Problem
from flyrun.experiments.samplers.method import Arm, State
from flyrun.experiments.samplers.subsampling.gradient_chain import GradientChain
from flyrun.ground.errors import FlyrunError


class ConstantSgd(GradientChain):
    """A step reads a batch, b queries; the noise at the MAP costs a pass at set-up."""

    label = "Constant-step SGD"

    def __init__(self, arm: Arm, problem: Problem):
        super().__init__(arm, problem)
        started = time.perf_counter()
        noise = self.n_data / self.batches.size * self.noise(problem.fit.theta_map)
        self.gain = arm.sampler.step * _gain(noise, arm.sampler.preconditioner)
        self.own_queries, self.own_seconds = self.n_data, time.perf_counter() - started

    def move(
        self, rng: np.random.Generator, theta: np.ndarray, step: int, index: np.ndarray, beside: State
    ) -> tuple[np.ndarray, int]:
        with np.errstate(over="ignore", invalid="ignore"):
            return self.checked(theta + self.gain @ self.gradient(theta, index), step), len(index)

    def linear(
        self, curvature: np.ndarray, noise: np.ndarray, state: State
    ) -> tuple[np.ndarray, np.ndarray] | None:
        return np.eye(len(curvature)) - self.gain @ curvature, self.gain @ noise @ self.gain.T


def _gain(noise: np.ndarray, kind: str) -> np.ndarray:
    """K, (P, P), of a kind of preconditioner. FlyrunError where the noise is 0 in some direction."""
    if kind == "scalar":
        return 2.0 * len(noise) / np.trace(noise) * np.eye(len(noise))
    try:
        return 2.0 * np.linalg.inv(noise if kind == "full" else np.diag(np.diag(noise)))
    except LinAlgError:
        raise FlyrunError(
            "sampler=constant_sgd: batches are alike in some direction; take sampler.preconditioner=scalar"
        ) from None


build = ConstantSgd
