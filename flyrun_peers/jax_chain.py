"""What chains of JAX's libraries share: a step compiled once, a state of arrays, draws in θ."""

import time
from abc import abstractmethod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from flyrun.experiments.models.problem import Problem
from flyrun.experiments.samplers.method import Arm, Records, State
from flyrun.experiments.samplers.on_data import OnData
from flyrun.ground.numerics.state import seeded
from flyrun_peers.density import whitened

_AT_ONCE = 64  # steps of one call of compiled code, at most


class JaxChain(OnData):
    """Derive from it: `first` and `step`, and `exact` where that is not so."""

    unit, shown = "iteration", ("accepted {accepted:.2f}", "{queries} queries/iter")
    exact = True

    def __init__(self, arm: Arm, problem: Problem):
        super().__init__(arm, problem)
        started = time.perf_counter()
        self.whitened = whitened(arm, problem)
        self.own_queries = self.n_data if arm.sampler.metric == "hessian" else 0
        self.own_seconds = time.perf_counter() - started
        self._tree: Any = None
        self._chunk = jax.jit(self._steps)

    @abstractmethod
    def first(self, key: Any, w: Any) -> tuple[Any, int]:
        """The library's state at w, (P,), as a tree of arrays, and how many gradients it took."""

    @abstractmethod
    def step(self, state: Any) -> tuple[Any, Any, Any, Any]:
        """A state, whitened position (P,), gradients taken and acceptance, one step on."""

    def init(self, seed: int, needed: tuple[Any, ...] = ()) -> State:
        """At the MAP or as protocol.init says; what it took is charged to the first step."""
        theta = self.starting_point(seed)
        number = int(seeded(seed, self.arm.method()).integers(2**31))
        tree, gradients = self.first(
            jax.random.PRNGKey(number), jnp.asarray(self.whitened.white(theta), jnp.float32)
        )
        leaves, self._tree = jax.tree.flatten(tree)
        state = {f"leaf{i}": np.asarray(leaf) for i, leaf in enumerate(leaves)}
        return state | {"iteration": np.zeros(1, np.int64), "owed": np.array([gradients], np.int64)}

    def _steps(self, leaves: list[Any], count: Any) -> tuple[list[Any], Any, Any, Any]:
        """`count` steps, at most _AT_ONCE, in buffers of that size."""

        def one(i, carried):
            leaves, w, gradients, accepted = carried
            state, at, taken, acceptance = self.step(jax.tree.unflatten(self._tree, leaves))
            return (
                jax.tree.leaves(state),
                w.at[i].set(at),
                gradients.at[i].set(taken),
                accepted.at[i].set(acceptance),
            )

        empty = (jnp.zeros((_AT_ONCE, self.n_params)), jnp.zeros(_AT_ONCE, jnp.int32), jnp.zeros(_AT_ONCE))
        return jax.lax.fori_loop(0, count, one, (leaves, *empty))

    def advance(self, state: State, n: int) -> tuple[State, Records]:
        """n steps; queries: N for every gradient."""
        if self._tree is None:
            self.init(0)  # the tree that a stored state's arrays are of
        protocol, done = self.arm.protocol, int(state["iteration"][0])
        leaves = [jnp.asarray(state[f"leaf{i}"]) for i in range(len(state) - 2)]
        parts = []
        for begin in range(0, n, _AT_ONCE):
            count = min(_AT_ONCE, n - begin)
            leaves, *told = self._chunk(leaves, count)
            parts.append([np.asarray(part)[:count] for part in told])
        w, gradients, accepted = (np.concatenate(part) for part in zip(*parts, strict=True))
        gradients = gradients.astype(np.int64)
        gradients[0] += state["owed"][0]
        kept = np.arange(done + 1, done + n + 1) % protocol.thin == 0
        new = {f"leaf{i}": np.asarray(leaf) for i, leaf in enumerate(leaves)}
        new |= {"iteration": np.array([done + n]), "owed": np.zeros(1, np.int64)}
        records = {"queries": self.n_data * gradients, "theta": self.whitened.theta(w[kept])}
        return new, records | {"accepted": accepted.astype(float)}
