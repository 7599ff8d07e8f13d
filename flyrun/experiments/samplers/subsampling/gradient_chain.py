"""What chains by gradients of batches share: the gradient, its noise, their law on a Gaussian posterior."""

import time
from abc import abstractmethod
from typing import Any

import numpy as np
from scipy.linalg import solve_discrete_lyapunov

from flyrun.experiments.models import passes
from flyrun.experiments.models.problem import Problem, posterior_curvature, prior_scores
from flyrun.experiments.models.shard_prior import priors_of
from flyrun.experiments.samplers.batches import rows_of
from flyrun.experiments.samplers.method import Arm, State
from flyrun.experiments.samplers.subsampling.method import SubsetChain
from flyrun.ground.errors import FlyrunError

_FAR = 1e100  # beyond it squares, and sums of them, are soon no numbers


class GradientChain(SubsetChain):
    """A step reads a batch, b queries. Biased, but for what its own file says.

    covariance: G, the shape of steps, and root, R with RRᵀ = G: I or, for metric=hessian, H⁻¹, H the
    posterior's curvature at the MAP, a pass at set-up.
    """

    def __init__(self, arm: Arm, problem: Problem):
        super().__init__(arm, problem)
        started = time.perf_counter()
        self.covariance: np.ndarray = np.eye(self.n_params)
        self.root: np.ndarray = np.eye(self.n_params)
        if getattr(arm.sampler, "metric", "") == "hessian":
            self.covariance = np.linalg.inv(posterior_curvature(arm, problem))
            self.root = np.linalg.cholesky(self.covariance)
            self.own_queries += self.n_data
        self.own_seconds += time.perf_counter() - started

    def of_data(self, theta: np.ndarray, index: np.ndarray) -> np.ndarray:
        """What stands for Σ_n ∇ log L_n(θ), (P,), by a batch."""
        model, features = rows_of(self.arm, self.problem, index)
        return self.batches.factor * passes.slope(self.arm.model.code, model, features, theta)[1]

    def gradient(self, theta: np.ndarray, index: np.ndarray) -> np.ndarray:
        """∇U_t(θ), (P,), unbiased for that of the log posterior."""
        return prior_scores(self.arm, self.problem, theta) + self.of_data(theta, index)

    def by_row(self, theta: np.ndarray, index: np.ndarray) -> np.ndarray:
        """∇ log L_n(θ) of each row of a batch, (b, P)."""
        model, features = rows_of(self.arm, self.problem, index)
        eta = passes.block_predictors(model, features, theta, slice(0, len(index)))
        slopes = passes.slopes(model, eta)
        return np.einsum("nk,nd->nkd", slopes, features.rows.astype(np.float64)).reshape(len(index), -1)

    def checked(self, theta: np.ndarray, step: int, remedy: str = "take a shorter one") -> np.ndarray:
        """θ, (P,), unless it is out of all bounds: then FlyrunError."""
        if not np.abs(theta).max() < _FAR:
            raise FlyrunError(
                f"θ left all bounds at step {step:,}: sampler.step={self.arm.sampler.step:g} is too long; "
                f"{remedy}"
            )
        return theta

    def noise(self, theta: np.ndarray) -> np.ndarray:
        """N·Var_n of what a batch of one row adds, (P, P), over all rows at θ; b rows make it N/b of that."""
        return noise_of(self.arm, self.problem, theta, 0.0)

    def linear(
        self, curvature: np.ndarray, noise: np.ndarray, state: State
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """F and Q of a step x ← Fx + N(0, Q) on a Gaussian posterior, θ its first P numbers; None where steps
        are not linear. curvature, noise: of the log posterior and of a batch's gradient, (P, P).
        """
        return None

    def more(self, state: State | None) -> dict[str, Any]:
        """expected_sd_ratio: of the law that `linear` says is stationary, at the last θ."""
        if state is None or not state["step"][0]:
            return {}
        theta = state["theta"]
        curvature = passes.look(
            self.arm.model.code, self.problem.model, self.problem.features, theta
        ).curvature + np.diag(priors_of(self.arm).penalty(self.problem.prior).ridges(theta))
        noise = self.n_data / self.batches.size * self.noise(theta)
        if self.batches.kind == "epochs":  # less than this: over an epoch noise cancels
            noise *= (self.n_data - self.batches.size) / max(1, self.n_data - 1)
        law = self.linear(curvature, noise, state)
        return {} if law is None else {"expected_sd_ratio": stationary_ratio(*law, curvature)}


class MomentumChain(GradientChain):
    """θ = Rφ in coordinates of its own, φ moved by a momentum of unit mass: φ ← φ + hp, p ← p + …"""

    def companions(self, rng: np.random.Generator) -> State:
        return {"momentum": rng.standard_normal(self.n_params)}

    def move(
        self, rng: np.random.Generator, theta: np.ndarray, step: int, index: np.ndarray, beside: State
    ) -> tuple[np.ndarray, int]:
        h = self.arm.sampler.step
        with np.errstate(over="ignore", invalid="ignore"):
            moved = self.checked(theta + h * self.root @ beside["momentum"], step)
            kick = h * self.root.T @ self.gradient(moved, index)
            beside["momentum"] = self.refreshed(rng, moved, step, index, beside) + kick
        return moved, len(index)

    @abstractmethod
    def refreshed(
        self, rng: np.random.Generator, theta: np.ndarray, step: int, index: np.ndarray, beside: State
    ) -> np.ndarray:
        """The momentum, (P,), after friction and noise."""


def noise_of(arm: Arm, problem: Problem, theta: np.ndarray, known: np.ndarray | float) -> np.ndarray:
    """N·Var_n(∇ log L_n(θ) − s_n ⊗ x_n), (P, P). known: s, slopes in η, (N, K), or 0. N queries."""
    model, features, code = problem.model, problem.features, arm.model.code

    def work(block: slice) -> tuple[np.ndarray, np.ndarray]:
        eta = passes.block_predictors(model, features, theta, block)
        slopes = passes.slopes(code.part(model, block), eta)
        slopes -= known[block] if isinstance(known, np.ndarray) else known
        rows = features.rows[block].astype(np.float64)
        each = np.einsum("nk,nd->nkd", slopes, rows).reshape(len(rows), -1)
        return each.T @ each, each.sum(axis=0)

    squares, total = passes.added(passes.over_blocks(len(features.rows), work))
    return squares - np.outer(total, total) / len(features.rows)


def stationary_ratio(forward: np.ndarray, driven: np.ndarray, curvature: np.ndarray) -> float:
    """Geometric mean over θ's coordinates of the sd of x ← Fx + N(0, Q) by the posterior's, both Gaussian;
    inf where no law is stationary.
    """
    if np.abs(np.linalg.eigvals(forward)).max() >= 1.0:
        return float("inf")
    variance = np.diag(solve_discrete_lyapunov(forward, driven))[: len(curvature)]
    return float(np.exp(0.5 * np.mean(np.log(variance / np.diag(np.linalg.inv(curvature))))))
