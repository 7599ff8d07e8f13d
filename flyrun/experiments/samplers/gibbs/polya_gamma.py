"""Gibbs sampling of logistic regression by Pólya-Gamma variables (Polson, Scott & Windle 2013, §3.1).

ω_n | θ ~ PG(1, η_n), η_n the margin, then θ | ω ~ N(B⁻¹h, B⁻¹), B = XᵀΩX + Λ, h = ½ Σ x_n t_n, Λ the prior's
precision; a row of X is t_n x_n. Nothing is tuned. A sweep is N queries, and O(NP²) operations for B.

Of K processors each has a share of the rows, whose ω are independent given θ, and a block of θ, which it
draws given the other blocks of the last sweep: Hogwild Gibbs (survey, Algorithm 15), which is biased.
"""

from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg import cho_solve, solve_triangular

from flyrun.experiments.models import passes
from flyrun.experiments.models.problem import Problem, bind, prior_curvature
from flyrun.experiments.samplers.hogwild.loop import blocks
from flyrun.experiments.samplers.method import Arm, Method, Records, State
from flyrun.experiments.samplers.on_data import OnData
from flyrun.ground.errors import ConfigError
from flyrun.ground.numerics.compiled import outer_jit
from flyrun.ground.numerics.polya_gamma_draw import draw
from flyrun.ground.numerics.state import generator, generator_state, seeded


def prepare(arm: Arm, folder: Path) -> Method:
    """The method of an arm; ConfigError for a likelihood that is raised to a power, others as bind's."""
    problem = bind(arm, folder, needs_map=arm.protocol.init == "map")
    if problem.power != 1.0:
        raise ConfigError("sampler=polya_gamma: is not for likelihoods raised to a power; choose sampler=hmc")
    if arm.sampler.processors > (most := len(problem.coordinates)):
        raise ConfigError(
            f"sampler.processors={arm.sampler.processors}: there are {most} coefficients, each of one "
            f"processor; choose sampler.processors={most} or fewer"
        )
    return PolyaGamma(arm, problem)


@outer_jit
def draw_all(rng, eta, omega):
    """omega[n] ~ PG(1, eta[n]), (N,) each."""
    for n in range(eta.shape[0]):
        omega[n] = draw(rng, eta[n])


class PolyaGamma(OnData):
    """A step is a sweep: all ω, then θ. Exact where one processor draws all of θ."""

    unit = "sweep"
    shown = ("{queries} queries/sweep",)
    label, exact = "Pólya-Gamma Gibbs", True

    def __init__(self, arm: Arm, problem: Problem):
        super().__init__(arm, problem)
        self.prior = prior_curvature(arm, problem, np.zeros(self.n_params))
        self.workers, owner = self.config.processors, blocks(self.n_params, self.config.processors)
        self.own = np.equal.outer(owner, owner)
        if self.workers > 1:
            self.label, self.exact = "Hogwild Gibbs, Pólya-Gamma", False

    def init(self, seed: int, needed: tuple[Any, ...] = ()) -> State:
        rng = generator_state(seeded(seed, self.arm.method()))
        return {"theta": self.starting_point(seed), "step": np.zeros(1, np.int64), "rng": rng}

    def at(self, theta: np.ndarray, tuned: State, seed: int) -> State:
        return {**self.init(seed), "theta": theta}

    def advance(self, state: State, n: int) -> tuple[State, Records]:
        """n more sweeps. Draws: theta (n // thin, P); by sweep queries and span, (n,)."""
        rng, theta, thin = generator(state["rng"]), state["theta"], self.arm.protocol.thin
        first, kept = int(state["step"][0]), []
        for k in range(n):
            theta = self.sweep(rng, theta)
            if (first + k + 1) % thin == 0:
                kept.append(theta)
        new = {"theta": theta, "step": state["step"] + n, "rng": generator_state(rng)}
        draws = np.array(kept).reshape(-1, self.n_params)
        queries = np.full(n, float(self.n_data))
        return new, {"theta": draws, "queries": queries, "span": np.ceil(queries / self.workers)}

    def sweep(self, rng: np.random.Generator, theta: np.ndarray) -> np.ndarray:
        """The next θ, (P,)."""
        features = self.problem.features

        def work(block: slice) -> tuple[np.ndarray]:
            return (passes.block_predictors(self.problem.model, features, theta, block)[:, 0],)

        eta = np.concatenate([parts[0] for parts in passes.over_blocks(self.n_data, work)])
        omega = self.auxiliary(rng, eta)

        def sums(block: slice) -> tuple[np.ndarray, np.ndarray]:
            rows = features.rows[block].astype(np.float64)
            return rows.T @ (omega[block, None] * rows), 0.5 * rows.sum(axis=0)

        bend, score = passes.added(passes.over_blocks(self.n_data, sums))
        bend += self.prior
        score -= np.where(self.own, 0.0, bend) @ theta
        root = np.linalg.cholesky(np.where(self.own, bend, 0.0))
        noise = solve_triangular(root, rng.standard_normal(len(theta)), lower=True, trans="T")
        return np.asarray(cho_solve((root, True), score) + noise)

    def more(self, state: State | None) -> dict[str, Any]:
        """θ goes to every worker and its rows' part of B and h comes back, in two rounds of a sweep."""
        if state is None:
            return {"workers": self.workers}
        sweeps, numbers = int(state["step"][0]), self.n_params * (self.n_params + 2)
        rounds = 2 * sweeps if self.workers > 1 else 0
        return {"workers": self.workers, "rounds": rounds, "bytes": 4 * rounds * self.workers * numbers}

    def auxiliary(self, rng: np.random.Generator, eta: np.ndarray) -> np.ndarray:
        """ω, (N,), given the margins."""
        omega = np.empty(len(eta))
        draw_all(rng, eta, omega)
        return omega
