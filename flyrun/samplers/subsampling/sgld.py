"""Stochastic gradient Langevin dynamics (Welling & Teh 2011; Angelino, Johnson & Adams 2016, Algorithm 8).

θ ← θ + ½ε_t G ∇U_t(θ) + N(0, ε_t G), U_t = log p(θ) + (N/b) Σ_batch log p(x_n|θ), without a test of
acceptance: biased for every step. Steps ε_t = step·(delay + t)^(−decay), constant for decay = 0. G is I or,
for metric=hessian, H⁻¹, H the posterior's curvature at the MAP: steps are then in units of its variance, as a
step in θ itself must stay far below 4 by H's largest eigenvalue.

For steps that shrink, averages weigh each position by its step (Welling & Teh 2011, eq. 12; Teh, Thiery &
Vollmer 2016, whose best decay is 1/3).
"""

import time
from typing import Any

import numpy as np
from scipy.linalg import solve_discrete_lyapunov

from flyrun.errors import FlyrunError
from flyrun.models import passes
from flyrun.models.problem import Problem, posterior_curvature, prior_scores
from flyrun.models.shard_prior import priors_of
from flyrun.samplers.batches import rows_of
from flyrun.samplers.method import Arm, Records, State
from flyrun.samplers.subsampling.method import SubsetChain

_FAR = 1e100  # beyond it squares, and sums of them, are soon no numbers
KEPT = 2_000
"""Positions that weighted averages hand in, evenly over the steps after burn-in."""


class Sgld(SubsetChain):
    """A step reads a batch, b queries."""

    label = "SGLD"

    def __init__(self, arm: Arm, problem: Problem):
        super().__init__(arm, problem)
        started = time.perf_counter()
        self.covariance: np.ndarray = np.eye(self.n_params)  # G
        self.root: np.ndarray = np.eye(self.n_params)  # R, RRᵀ = G
        if arm.sampler.metric == "hessian":
            self.covariance = np.linalg.inv(posterior_curvature(arm, problem))
            self.root = np.linalg.cholesky(self.covariance)
            self.own_queries += self.n_data
        self.own_seconds += time.perf_counter() - started
        if arm.sampler.average == "steps":
            self.answers = "weighted"
            self.every = max(1, -(-(arm.protocol.iterations - arm.protocol.burn_in) // KEPT))

    def step_size(self, step: np.ndarray | int) -> Any:
        """ε_t of a step t, counted from 0."""
        sampler = self.arm.sampler
        return sampler.step * (sampler.delay + step) ** -sampler.decay

    def of_data(self, theta: np.ndarray, index: np.ndarray) -> np.ndarray:
        """What stands for Σ_n ∇ log L_n(θ), (P,), by a batch."""
        model, features = rows_of(self.arm, self.problem, index)
        return self.batches.factor * passes.slope(self.arm.model.code, model, features, theta)[1]

    def gradient(self, theta: np.ndarray, index: np.ndarray) -> np.ndarray:
        """∇U_t(θ), (P,), unbiased for that of the log posterior."""
        return prior_scores(self.arm, self.problem, theta) + self.of_data(theta, index)

    def move(
        self, rng: np.random.Generator, theta: np.ndarray, step: int, index: np.ndarray
    ) -> tuple[np.ndarray, int]:
        size = self.step_size(step)
        with np.errstate(over="ignore", invalid="ignore"):
            drift = 0.5 * size * self.covariance @ self.gradient(theta, index)
            moved = theta + drift + np.sqrt(size) * self.root @ rng.standard_normal(len(theta))
        if not np.abs(moved).max() < _FAR:
            raise FlyrunError(
                f"θ left all bounds at step {step:,}: sampler.step={self.arm.sampler.step:g} is too long; "
                "take a shorter one, or a larger sampler.delay"
            )
        return moved, len(index)

    def init(self, seed: int, needed: tuple[Any, ...] = ()) -> State:
        state = super().init(seed, needed)
        if self.answers == "weighted":
            moments = {name: np.zeros(self.n_params) for name in ("mean", "square")}
            kept = {"kept": np.zeros((KEPT, self.n_params)), "kept_weight": np.zeros(KEPT)}
            state |= {"weight": np.zeros(1), **moments, **kept}
        return state

    def advance(self, state: State, n: int) -> tuple[State, Records]:
        """Weighted averages in place of draws where these are asked for."""
        if self.answers != "weighted":
            return super().advance(state, n)
        new = state
        queries = np.zeros(n)
        for k in range(n):
            first = int(new["step"][0])
            new, records = super().advance(new, 1)
            queries[k] = records["queries"][0]
            if first >= self.arm.protocol.burn_in:
                new |= self._with(new, first)
        return new, {"queries": queries}

    def _with(self, state: State, step: int) -> State:
        """Averages with the position after a step besides."""
        theta, size = state["theta"], self.step_size(step)
        weight = state["weight"] + size
        share = size / weight[0]
        told = {
            "weight": weight,
            "mean": state["mean"] + share * (theta - state["mean"]),
            "square": state["square"] + share * (theta**2 - state["square"]),
        }
        place, rest = divmod(step - self.arm.protocol.burn_in, self.every)
        if rest == 0:
            told |= {"kept": state["kept"].copy(), "kept_weight": state["kept_weight"].copy()}
            told["kept"][place], told["kept_weight"][place] = theta, size
        return told

    def estimates(self, state: State) -> dict[str, np.ndarray]:
        """Before burn-in ends the position itself."""
        if self.answers != "weighted":
            return {}
        if state["weight"][0] == 0.0:
            return {"mean": state["theta"], "square": state["theta"] ** 2}
        return {"mean": state["mean"], "square": state["square"]}

    def result(self, state: State) -> dict[str, np.ndarray]:
        """Positions with the logarithms of their steps for weights."""
        if self.answers != "weighted":
            return {}
        some = state["kept_weight"] > 0
        return {"theta": state["kept"][some], "log_weight": np.log(state["kept_weight"][some])}

    def noise(self, theta: np.ndarray) -> np.ndarray:
        """N·Var_n of what a batch of one row adds, (P, P), over all rows at θ; b rows make it N/b of that."""
        return noise_of(self.arm, self.problem, theta, 0.0)

    def more(self, state: State | None) -> dict[str, Any]:
        """expected_sd_ratio: as `sd_ratio` has it at the last θ for the mean step of the last half."""
        if state is None or not state["step"][0]:
            return {}
        n_steps, theta = int(state["step"][0]), state["theta"]
        curvature = passes.look(
            self.arm.model.code, self.problem.model, self.problem.features, theta
        ).curvature + np.diag(priors_of(self.arm).penalty(self.problem.prior).ridges(theta))
        size = float(np.mean(self.step_size(np.arange(n_steps // 2, n_steps))))
        noise = self.n_data / self.batches.size * self.noise(theta)
        if self.batches.kind == "epochs":  # less than this: over an epoch noise cancels
            noise *= (self.n_data - self.batches.size) / max(1, self.n_data - 1)
        return {"expected_sd_ratio": sd_ratio(curvature, size, noise, self.covariance)}


build = Sgld


def noise_of(arm: Arm, problem: Problem, theta: np.ndarray, known: np.ndarray | float) -> np.ndarray:
    """N·Var_n(∇ log L_n(θ) − s_n ⊗ x_n), (P, P). known: s, slopes in η, (N, K), or 0. After the run: N
    queries, not charged."""
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


def sd_ratio(curvature: np.ndarray, step: float, noise: np.ndarray, covariance: np.ndarray) -> float:
    """Geometric mean over coordinates of SGLD's stationary sd by the posterior's, both Gaussian; inf where
    the step is too long. All (P, P).

    Σ = AΣAᵀ + εG + ¼ε²G·noise·G, A = I − ½εGH: noise is the variance of a batch's gradient. Along H = λ,
    G = 1 and a noise of ν the variances' ratio is (1 + εν/4)/(1 − ελ/4): for a variance off by a share δ,
    with ν = λN/b, a step of about 4δb/N, and so N/δ queries an effective draw, whatever the batch.
    """
    forward = np.eye(len(curvature)) - 0.5 * step * covariance @ curvature
    if np.abs(np.linalg.eigvals(forward)).max() >= 1.0:
        return float("inf")
    driven = step * covariance + 0.25 * step**2 * covariance @ noise @ covariance
    own = np.diag(solve_discrete_lyapunov(forward, driven))
    return float(np.exp(0.5 * np.mean(np.log(own / np.diag(np.linalg.inv(curvature))))))
