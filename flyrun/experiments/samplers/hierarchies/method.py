"""The family of methods for global and local variables: q(φ) in natural parameters, changed by batches.

A step is a batch. A query is the local variable of one row worked out once. Handed in are functionals:
`free_energy`, −ELBO a row at the best q(z), `excess_free_energy`, what that is above the least, where it is
known, and what the model tells (models/hierarchy.py).
"""

import time
from abc import abstractmethod
from pathlib import Path
from typing import Any

import numpy as np

from flyrun.experiments import data
from flyrun.experiments.models.hierarchy import Hierarchy, free_energy
from flyrun.experiments.samplers.batches import batches_of
from flyrun.experiments.samplers.method import Arm, Facts, Method, Records, State, first_step
from flyrun.ground.numerics.state import generator, generator_state, seeded


def prepare(arm: Arm, folder: Path) -> Method:
    """Data loaded and bound. DataError or ConfigError, one line each."""
    started = time.perf_counter()
    model = arm.model.code.bind(arm.model, data.load(arm.dataset))
    method: OfHierarchies = arm.sampler.build(arm, model)
    method.setup_s = time.perf_counter() - started
    return method


class OfHierarchies(Method):
    """Derive from it: `learn`, and `more_state` where it keeps more than q(φ)."""

    answers = "density"
    unit = "step"
    shown: tuple[str, ...] = ("{queries} queries/step",)
    label, exact, setup_s = "", False, 0.0
    warm_up = first_step

    def __init__(self, arm: Arm, model: Hierarchy):
        self.arm, self.model = arm, model
        self.batches = batches_of(arm, model.n_data)

    @abstractmethod
    def learn(self, rng: np.random.Generator, state: State, index: np.ndarray, t: int) -> int:
        """Take the t-th batch (from 0), rows index (b,), and change the state in place; the queries."""

    def more_state(self, natural: np.ndarray) -> State:
        """What a seed begins with besides q(φ), of these natural parameters."""
        return {}

    def init(self, seed: int, needed: tuple[Any, ...] = ()) -> State:
        """Arms of one seed begin with the same q(φ) and have luck of their own."""
        rng = seeded(seed, self.arm.method())
        key, step = rng.integers(1 << 62, size=1), np.zeros(1, np.int64)
        natural = self.model.start(seeded(seed))
        return {
            "natural": natural,
            **self.more_state(natural),
            "rng": generator_state(rng),
            "key": key,
            "step": step,
        }

    def advance(self, state: State, n: int) -> tuple[State, Records]:
        rng, key = generator(state["rng"]), int(state["key"][0])
        state = {name: array.copy() for name, array in state.items()}
        records = {name: np.zeros(n) for name in ("queries", "visits")}
        for k in range(n):
            t = int(state["step"][0])
            index = self.rows(rng, key, t)
            records["queries"][k], records["visits"][k] = self.learn(rng, state, index, t), len(index)
            state["step"] += 1
        return state | {"rng": generator_state(rng)}, records

    def rows(self, rng: np.random.Generator, key: int, t: int) -> np.ndarray:
        """Indices, (B,), of the t-th batch."""
        return self.batches.rows(t, rng, key)

    def estimates(self, state: State) -> dict[str, np.ndarray]:
        natural = state["natural"]
        energy, least = free_energy(self.model, natural), self.model.least_free_energy
        values = {"free_energy": energy / self.model.n_data}
        if least is not None:
            values["excess_free_energy"] = max(energy - least, 0.0) / self.model.n_data
        return {name: np.array(value) for name, value in (values | self.model.estimates(natural)).items()}

    def result(self, state: State) -> dict[str, np.ndarray]:
        """natural: parameters of q(φ), (M,)."""
        return {"natural": state["natural"]}

    def facts(self, state: State | None = None) -> Facts:
        return Facts(
            self.label,
            exact=self.exact,
            n_data=self.model.n_data,
            n_params=len(self.model.prior),
            setup_s=self.setup_s,
        )
