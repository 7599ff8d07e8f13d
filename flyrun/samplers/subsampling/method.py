"""The family of chains that read few rows in steps of their own: what they share, and which is asked for."""

from abc import abstractmethod
from pathlib import Path
from typing import Any

import numpy as np

from flyrun.config.arm import Arm
from flyrun.models.problem import Problem, bind, draw_prior, log_densities, of_positions
from flyrun.numerics.state import generator, generator_state, seeded
from flyrun.samplers.batches import batches_of
from flyrun.samplers.method import Facts, Method, Records, State, first_step


def prepare(arm: Arm, folder: Path) -> Method:
    """Data and model bound, the MAP fitted or recalled where one is asked for; errors as bind's."""
    needs_map = arm.protocol.init == "map" or arm.sampler.at_map
    return arm.sampler.code.build(arm, bind(arm, folder, needs_map))


class OwnChain(Method):
    """θ moved in a way of its own. Derive from it: `init`, `advance`, `label`, `exact`."""

    unit = "step"
    shown = ("{queries} queries/step",)
    label, exact = "", False

    def __init__(self, arm: Arm, problem: Problem):
        self.arm, self.problem = arm, problem
        self.n_data, self.n_params = len(problem.features.rows), len(problem.coordinates)
        self.own_queries, self.own_seconds = 0, 0.0  # of set-up, beside the fit's

    def warm_up(self) -> float:
        return first_step(self)

    def trace(self, theta: np.ndarray) -> dict[str, np.ndarray]:
        """Log posterior and log likelihood at stored positions, theta (G, P). After the run: not charged."""
        prior, likelihood = log_densities(self.arm, self.problem, theta)
        return {"log_posterior": prior + likelihood, "log_likelihood": likelihood}

    def of_draws(self, theta: np.ndarray) -> dict[str, np.ndarray]:
        """As in the base class, and what the model adds."""
        return of_positions(self.arm, self.problem, theta)

    def more(self, state: State | None) -> dict[str, Any]:
        """Facts of this method's own."""
        return {}

    def facts(self, state: State | None = None) -> Facts:
        fit = self.problem.fit
        return Facts(
            update=self.label,
            exact=self.exact,
            coordinates=self.problem.coordinates,
            n_data=self.n_data,
            n_params=self.n_params,
            setup_queries=fit.queries + self.own_queries,
            setup_s=fit.seconds + self.own_seconds,
            more={"prior_scale": fit.scale, **self.more(state)},
        )


class SubsetChain(OwnChain):
    """Moved step by step, each with the rows of one batch. Derive from it: `move`, `label`, `exact`."""

    def __init__(self, arm: Arm, problem: Problem):
        super().__init__(arm, problem)
        self.batches = batches_of(arm, self.n_data)

    @abstractmethod
    def move(
        self, rng: np.random.Generator, theta: np.ndarray, step: int, index: np.ndarray
    ) -> tuple[np.ndarray, int]:
        """The next θ, (P,), from this one and rows `index`, and the likelihood queries that it took."""

    def init(self, seed: int, needed: tuple[Any, ...] = ()) -> State:
        """θ = 0, the MAP, or a draw from the prior, the same for every arm of a seed."""
        theta = np.zeros(self.n_params)
        if self.arm.protocol.init == "map":
            theta = self.problem.fit.theta_map.copy()
        elif self.arm.protocol.init == "prior":
            (theta,) = draw_prior(self.problem, seeded(seed), 1)
        rng = seeded(seed, self.arm.method())
        key = rng.integers(2**63, size=1)
        return {"theta": theta, "step": np.zeros(1, np.int64), "key": key, "rng": generator_state(rng)}

    def advance(self, state: State, n: int) -> tuple[State, Records]:
        """n more steps. Draws: theta (n // thin, P); by step queries, (n,)."""
        rng, theta = generator(state["rng"]), state["theta"]
        first, key, thin = int(state["step"][0]), int(state["key"][0]), self.arm.protocol.thin
        queries, kept = np.zeros(n), []
        for k in range(n):
            index = self.batches.rows(first + k, rng, key)
            theta, queries[k] = self.move(rng, theta, first + k, index)
            if (first + k + 1) % thin == 0:
                kept.append(theta)
        draws = np.array(kept).reshape(-1, self.n_params)
        new = {"theta": theta.copy(), "step": state["step"] + n, "rng": generator_state(rng)}
        return {**state, **new}, {"theta": draws, "queries": queries}
