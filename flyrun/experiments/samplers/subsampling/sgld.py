"""Stochastic gradient Langevin dynamics (Welling & Teh 2011; Angelino, Johnson & Adams 2016, Algorithm 8).

θ ← θ + ½ε_t G ∇U_t(θ) + N(0, ε_t G), U_t = log p(θ) + (N/b) Σ_batch log p(x_n|θ), without a test of
acceptance: biased for every step. Steps ε_t = step·(delay + t)^(−decay), constant for decay = 0, and never
below `floor`, the survey's ε_∞ > 0, with which a bias stays (its (3.45) wants Σε_t² < ∞). G is I or,
for metric=hessian, H⁻¹, H the posterior's curvature at the MAP: steps are then in units of its variance, as a
step in θ itself must stay far below 4 by H's largest eigenvalue.

For steps that shrink, averages weigh each position by its step (Welling & Teh 2011, eq. 12; Teh, Thiery &
Vollmer 2016, whose best decay is 1/3).
"""

from typing import Any

import numpy as np

from flyrun.experiments.models.problem import Problem
from flyrun.experiments.samplers.method import Arm, Records, State
from flyrun.experiments.samplers.subsampling.gradient_chain import GradientChain

KEPT = 2_000
"""Positions that weighted averages hand in, evenly over the steps after burn-in."""


class Sgld(GradientChain):
    """A step reads a batch, b queries."""

    label = "SGLD"

    def __init__(self, arm: Arm, problem: Problem):
        super().__init__(arm, problem)
        if arm.sampler.average == "steps":
            self.answers = "weighted"
            self.every = max(1, -(-(arm.protocol.iterations - arm.protocol.burn_in) // KEPT))

    def step_size(self, step: np.ndarray | int) -> Any:
        """ε_t of a step t, counted from 0."""
        sampler = self.arm.sampler
        return np.maximum(sampler.step * (sampler.delay + step) ** -sampler.decay, sampler.floor)

    def move(
        self, rng: np.random.Generator, theta: np.ndarray, step: int, index: np.ndarray, beside: State
    ) -> tuple[np.ndarray, int]:
        size = self.step_size(step)
        with np.errstate(over="ignore", invalid="ignore"):
            drift = 0.5 * size * self.covariance @ self.gradient(theta, index)
            moved = theta + drift + np.sqrt(size) * self.root @ rng.standard_normal(len(theta))
        return self.checked(moved, step, "take a shorter one, or a larger sampler.delay"), len(index)

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
        averages = {
            "weight": weight,
            "mean": state["mean"] + share * (theta - state["mean"]),
            "square": state["square"] + share * (theta**2 - state["square"]),
        }
        place, rest = divmod(step - self.arm.protocol.burn_in, self.every)
        if rest == 0:
            averages |= {"kept": state["kept"].copy(), "kept_weight": state["kept_weight"].copy()}
            averages["kept"][place], averages["kept_weight"][place] = theta, size
        return averages

    def estimates(self, state: State) -> dict[str, np.ndarray]:
        """Before burn-in ends the position itself, (P,)."""
        if self.answers != "weighted":
            return {}
        if state["weight"][0] == 0.0:
            return {"mean": state["theta"], "square": state["theta"] ** 2}
        return {"mean": state["mean"], "square": state["square"]}

    def result(self, state: State) -> dict[str, np.ndarray]:
        """Positions, (n, P), with the logarithms of their steps, (n,), for weights."""
        if self.answers != "weighted":
            return {}
        some = state["kept_weight"] > 0
        return {"theta": state["kept"][some], "log_weight": np.log(state["kept_weight"][some])}

    def linear(
        self, curvature: np.ndarray, noise: np.ndarray, state: State
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """For the mean step of the last half; curvature, noise: (P, P)."""
        n_steps = int(state["step"][0])
        size = float(np.mean(self.step_size(np.arange(n_steps // 2, n_steps))))
        return langevin(curvature, size, noise, self.covariance)


build = Sgld


def langevin(
    curvature: np.ndarray, step: float, noise: np.ndarray, covariance: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """A = I − ½εGH, and εG + ¼ε²G·noise·G, of a step on a Gaussian posterior, all (P, P).

    noise: the variance of a batch's gradient. Along H = λ, G = 1 and a noise of ν the ratio of the stationary
    variance to the posterior's is (1 + εν/4)/(1 − ελ/4): for a variance off by a share δ, with ν = λN/b, a
    step of about 4δb/N, and so N/δ queries an effective draw, whatever the batch.
    """
    forward = np.eye(len(curvature)) - 0.5 * step * covariance @ curvature
    return forward, step * covariance + 0.25 * step**2 * covariance @ noise @ covariance
