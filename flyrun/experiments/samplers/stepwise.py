"""A method that is one step: what its author writes is the mathematics, and what it reads counts itself."""

from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from flyrun.experiments.config.arm import Arm
from flyrun.experiments.samplers.method import Records, State
from flyrun.experiments.samplers.on_data import OnData
from flyrun.ground.numerics.state import generator, generator_state, seeded


class Stepwise(OnData):
    """Derive from it: `label`, `exact`, `first` and `step`. A step's queries are those that `density` counts.

    records: entries of the state, a number each, that are stored of every step.  learnt: those that burn-in
    tunes, which a chain that starts elsewhere keeps.  needs_map: whether density.theta_map must be found.
    """

    unit = "iteration"
    records: ClassVar[tuple[str, ...]] = ()
    learnt: ClassVar[tuple[str, ...]] = ()
    needs_map: ClassVar[bool] = False

    @classmethod
    def prepare(cls, arm: Arm, folder: Path) -> Self:
        """The method of an arm: data loaded, and what is needed fitted or recalled from folder."""
        from flyrun.experiments.models.problem import bind  # late: Numba, as in on_data

        return cls(arm, bind(arm, folder, cls.needs_map or arm.protocol.init == "map"))

    @property
    def shown(self) -> tuple[str, ...]:  # type: ignore[override]
        """What the screen says of a chain."""
        return (*(f"{name} {{{name}:.3g}}" for name in self.records), "{queries} queries/iter")

    @abstractmethod
    def first(self, rng: np.random.Generator, theta: np.ndarray) -> State:
        """The state at θ, (P,): arrays or numbers by name, `theta` among them."""

    @abstractmethod
    def step(self, rng: np.random.Generator, state: State) -> State:
        """The state one step on; the one given stays as it is. state["iteration"] counts from 0."""

    def init(self, seed: int, needed: tuple[Any, ...] = ()) -> State:
        """Where protocol.init says; what `first` read is charged to the first step."""
        rng = seeded(seed, self.arm.method())
        return self._begun(rng, self.starting_point(seed), 0)

    def at(self, theta: np.ndarray, tuned: State, seed: int) -> State:
        """At θ, (P,), with what burn-in learnt."""
        state = self._begun(seeded(seed, self.arm.method()), theta, int(tuned["iteration"][0]))
        return state | {name: tuned[name] for name in self.learnt}

    def _begun(self, rng: np.random.Generator, theta: np.ndarray, iteration: int) -> State:
        self.density.taken()
        state = _arrays(self.first(rng, theta))
        counts = {"iteration": np.array([iteration]), "owed": np.array([self.density.taken()])}
        return state | counts | {"generator": generator_state(rng)}

    def advance(self, state: State, n: int) -> tuple[State, Records]:
        """n steps."""
        rng, done, thin = generator(state["generator"]), int(state["iteration"][0]), self.arm.protocol.thin
        theta, queries, kept = [], np.empty(n, np.int64), {name: np.empty(n) for name in self.records}
        self.density.taken()
        for i in range(n):
            state = state | _arrays(self.step(rng, state | {"iteration": np.array([done + i])}))
            queries[i] = self.density.taken()
            for name, values in kept.items():
                values[i] = state[name]
            if (done + i + 1) % thin == 0:
                theta.append(state["theta"])
        queries[:1] += state["owed"]
        end = {"iteration": np.array([done + n]), "owed": np.zeros(1, np.int64)}
        draws = np.array(theta).reshape(-1, self.n_params)
        return state | end | {"generator": generator_state(rng)}, {"theta": draws, "queries": queries, **kept}


def _arrays(state: Mapping[str, ArrayLike]) -> State:
    return {name: np.asarray(value) for name, value in state.items()}
