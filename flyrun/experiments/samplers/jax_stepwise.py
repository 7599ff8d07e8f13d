"""A method that is one step in JAX: compiled once and looped over; what it reads counts itself."""

import time
from abc import abstractmethod
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from flyrun.experiments.config.arm import Arm
from flyrun.experiments.models.metered_jax import jax, jnp  # which says what to do where there is none
from flyrun.experiments.models.problem import Problem, bind
from flyrun.experiments.samplers.method import Records, State
from flyrun.experiments.samplers.on_data import OnData
from flyrun.ground.numerics.state import seeded

#: a tree of arrays, as JAX has them
Tree = Any
_AT_ONCE = 64  # steps of one call of compiled code, at most


class JaxStepwise(OnData):
    """Derive from it: `label`, `exact`, `first` and `step`. A step's queries are what `target` was asked for.

    target: the posterior for JAX, density.jax.  records, needs_map: as of Stepwise.
    """

    unit = "iteration"
    records: ClassVar[tuple[str, ...]] = ()
    needs_map: ClassVar[bool] = False

    @classmethod
    def prepare(cls, arm: Arm, folder: Path) -> Self:
        """The method of an arm: data loaded, and what is needed fitted or recalled from folder."""
        return cls(arm, bind(arm, folder, cls.needs_map or arm.protocol.init == "map"))

    @property
    def shown(self) -> tuple[str, ...]:  # type: ignore[override]
        """What the screen says of a chain."""
        return (*(f"{name} {{{name}:.3g}}" for name in self.records), "{queries} queries/iter")

    def __init__(self, arm: Arm, problem: Problem):
        super().__init__(arm, problem)
        started = time.perf_counter()
        self.density.taken()
        self.target = self.density.jax
        self.set_up()
        self.own_queries, self.own_seconds = self.density.taken(), time.perf_counter() - started
        self._tree: jax.tree_util.PyTreeDef | None = None
        self._chunk = jax.jit(self._steps)

    def set_up(self) -> None:
        """What is worked out once, such as coordinates: charged to the set-up."""

    @abstractmethod
    def first(self, key: jax.Array, theta: jax.Array) -> Tree:
        """The state at θ, (P,): a tree of arrays."""

    @abstractmethod
    def step(self, key: jax.Array, state: Tree) -> tuple[Tree, dict[str, jax.Array]]:
        """The state one step on; `theta`, (P,), and each number that `records` names. It is compiled."""

    def init(self, seed: int, needed: tuple[Any, ...] = ()) -> State:
        """Where protocol.init says; what `first` read is charged to the first step."""
        number = int(seeded(seed, self.arm.method()).integers(2**31))
        return self._begun(number, self.starting_point(seed))

    def _begun(self, number: int, theta: np.ndarray) -> State:
        key, use = jax.random.split(jax.random.PRNGKey(number))
        self.density.taken()
        tree = self.first(use, jnp.asarray(theta, jnp.result_type(float)))
        leaves, self._tree = jax.tree.flatten((key, tree))
        state = {f"leaf{i}": np.asarray(leaf) for i, leaf in enumerate(leaves)}
        return state | {"iteration": np.zeros(1, np.int64), "owed": np.array([self.density.taken()])}

    def _steps(
        self, leaves: list[jax.Array], count: int
    ) -> tuple[list[jax.Array], dict[str, jax.Array], jax.Array]:
        """`count` steps, at most _AT_ONCE, in buffers of that size."""

        def step(i, carried):
            leaves, buffers, read = carried
            key, state = jax.tree.unflatten(self._tree, leaves)
            key, use = jax.random.split(key)
            state, values = self.step(use, state)
            buffers = {name: buffers[name].at[i].set(values[name]) for name in buffers}
            return jax.tree.leaves((key, state)), buffers, read.at[i].set(self.target.read[...])

        theta = jnp.zeros((_AT_ONCE, self.n_params))
        buffers = {"theta": theta, **{name: jnp.zeros(_AT_ONCE) for name in self.records}}
        return jax.lax.fori_loop(0, count, step, (leaves, buffers, jnp.zeros((_AT_ONCE, 2), jnp.int32)))

    def advance(self, state: State, n: int) -> tuple[State, Records]:
        """n steps."""
        if self._tree is None:
            self.init(0)  # the tree that a stored state's arrays are of
        done, thin = int(state["iteration"][0]), self.arm.protocol.thin
        leaves = [jnp.asarray(state[f"leaf{i}"]) for i in range(len(state) - 2)]
        parts, reads = [], []
        self.density.taken()
        for begin in range(0, n, _AT_ONCE):
            count = min(_AT_ONCE, n - begin)
            leaves, buffers, read = self._chunk(leaves, count)
            parts.append({name: np.asarray(values, float)[:count] for name, values in buffers.items()})
            reads.append(np.diff(np.asarray(read)[:count], axis=0, prepend=np.int32(0)))
            self.density.taken()
        records = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        queries = np.concatenate(reads).astype(np.int64) @ [self.n_data, 1]
        queries[0] += state["owed"][0]
        kept = np.arange(done + 1, done + n + 1) % thin == 0
        new = {f"leaf{i}": np.asarray(leaf) for i, leaf in enumerate(leaves)}
        new |= {"iteration": np.array([done + n]), "owed": np.zeros(1, np.int64)}
        return new, {**records, "theta": self.positions(records["theta"][kept]), "queries": queries}

    def positions(self, theta: np.ndarray) -> np.ndarray:
        """θ of what `step` gives as theta, (n, P), where it works in other coordinates."""
        return theta
