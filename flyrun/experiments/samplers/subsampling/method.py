"""The family of chains that read few rows in steps of their own: what they share, and which is asked for."""

from abc import abstractmethod
from pathlib import Path
from typing import Any

import numpy as np

from flyrun.experiments.models.problem import Problem, bind
from flyrun.experiments.samplers.batches import batches_of
from flyrun.experiments.samplers.method import Arm, Method, Records, State
from flyrun.experiments.samplers.on_data import OnData
from flyrun.ground.numerics.state import generator, generator_state, seeded


def prepare(arm: Arm, folder: Path) -> Method:
    """Data and model bound, the MAP fitted or recalled where one is asked for; errors as bind's."""
    needs_map = arm.protocol.init == "map" or arm.sampler.at_map
    return arm.sampler.build(arm, bind(arm, folder, needs_map))


class SubsetChain(OnData):
    """Moved step by step, each with the rows of one batch. Derive from it: `move`, `label`, `exact`."""

    def __init__(self, arm: Arm, problem: Problem):
        super().__init__(arm, problem)
        self.batches = batches_of(arm, self.n_data)

    @abstractmethod
    def move(
        self, rng: np.random.Generator, theta: np.ndarray, step: int, index: np.ndarray, beside: State
    ) -> tuple[np.ndarray, int]:
        """The next θ, (P,), from this one and rows `index`, and the likelihood queries that it took.

        beside: what else moves, as `companions` began it; put new arrays in, leave the old ones as they are.
        """

    def companions(self, rng: np.random.Generator) -> State:
        """Arrays that move beside θ, such as a momentum, at the start."""
        return {}

    def init(self, seed: int, needed: tuple[Any, ...] = ()) -> State:
        """The starting point, and the key of the batches."""
        rng = seeded(seed, self.arm.method())
        key = rng.integers(2**63, size=1)
        counters = {"step": np.zeros(1, np.int64), "key": key, "rng": generator_state(rng)}
        return {"theta": self.starting_point(seed), **self.companions(rng), **counters}

    def advance(self, state: State, n: int) -> tuple[State, Records]:
        """n more steps. Draws: theta (n // thin, P); by step queries, (n,)."""
        rng, theta = generator(state["rng"]), state["theta"]
        first, key, thin = int(state["step"][0]), int(state["key"][0]), self.arm.protocol.thin
        queries, kept, beside = np.zeros(n), [], dict(state)
        for k in range(n):
            index = self.batches.rows(first + k, rng, key)
            theta, queries[k] = self.move(rng, theta, first + k, index, beside)
            if (first + k + 1) % thin == 0:
                kept.append(theta)
        draws = np.array(kept).reshape(-1, self.n_params)
        new = {"theta": theta.copy(), "step": state["step"] + n, "rng": generator_state(rng)}
        return {**beside, **new}, {"theta": draws, "queries": queries}
