"""nutpie's NUTS (Seyboldt et al.), whose mass comes from draws and gradients, given JAX's log density.

nutpie draws chains whole, and keeps no state to go on from. Here its thread hands over draw by draw
and waits until it is asked for the next. A run that is resumed draws from the beginning
again, which gives the same draws.
"""

import atexit
import time
from pathlib import Path
from queue import Empty, Queue
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import nutpie
from nutpie.compiled_pyfunc import from_pyfunc

from flyrun.experiments.models.problem import Problem, bind
from flyrun.experiments.samplers.method import Arm, Records, State
from flyrun.experiments.samplers.on_data import OnData
from flyrun.ground.errors import FlyrunError
from flyrun.ground.numerics.state import seeded
from flyrun_peers.density import whitened


def prepare(arm: Arm, folder: Path) -> "Nuts":
    """Load the data, find the MAP and its curvature."""
    return Nuts(arm, bind(arm, folder, needs_map=True))


class Nuts(OnData):
    """Step and mass are adapted during burn-in."""

    unit, shown = "iteration", ("{queries} queries/iter",)
    label, exact = "NUTS (nutpie)", True

    def __init__(self, arm: Arm, problem: Problem):
        super().__init__(arm, problem)
        started = time.perf_counter()
        self.whitened = whitened(arm, problem)
        self.own_queries = self.n_data if arm.sampler.metric == "hessian" else 0
        self.look = jax.jit(jax.value_and_grad(self.whitened.log_density))
        self.look(jnp.zeros(self.n_params))
        self.own_seconds = time.perf_counter() - started
        self.chain: Any = None

    def init(self, seed: int, needed: tuple[Any, ...] = ()) -> State:
        """A number for nutpie's generator, and the start: at the MAP or as protocol.init says."""
        number = int(seeded(seed, self.arm.method()).integers(2**31))
        start = self.whitened.white(self.starting_point(seed))
        return {"number": np.array([number]), "start": start, "iteration": np.zeros(1, np.int64)}

    def advance(self, state: State, n: int) -> tuple[State, Records]:
        """The next n; queries: N for every gradient."""
        done, thin = int(state["iteration"][0]), self.arm.protocol.thin
        begun = self.chain
        if begun is None or not begun.goes_on(state, n):
            if begun is not None:
                begun.end()
            self.chain = _Chain(self, state, max(self.arm.protocol.iterations, done + n))
            self.chain.take(done)
        w, gradients = self.chain.take(n)
        kept = np.arange(done + 1, done + n + 1) % thin == 0
        records = {"queries": self.n_data * gradients, "theta": self.whitened.theta(w[kept])}
        return {**state, "iteration": np.array([done + n])}, records


class _Chain:
    """A chain of so many draws in nutpie's own thread, which works only while it is asked for one.

    done: draws handed over.
    """

    def __init__(self, nuts: Nuts, state: State, length: int):
        self.look, self.size, self.begun, self.length = nuts.look, nuts.n_params, state, length
        self.done, self.over = 0, False
        self.gradients, self.wanted, self.made = 0, Queue[None](), Queue[Any]()
        model = from_pyfunc(
            self.size, self._log_density, self._hand_over, [np.dtype("float64")], [(1,)], ["nothing"],
            make_initial_point_fn=lambda seed: state["start"],
        )  # fmt: skip
        tune = nuts.arm.protocol.burn_in
        self.sampler = nutpie.sample(
            model, draws=length - tune, tune=tune, chains=1, cores=1, seed=int(state["number"][0]),
            target_accept=nuts.arm.sampler.target_accept, progress_bar=False, blocking=False,
        )  # fmt: skip
        atexit.register(self.end)  # else nutpie's thread outlives the interpreter that it calls

    def _log_density(self) -> Any:
        def both(w: np.ndarray) -> tuple[float, np.ndarray]:
            if self.over:
                return np.nan, w  # nutpie's abort would wait for this thread and keep it from going on
            self.gradients += 1
            value, slope = self.look(jnp.asarray(w, jnp.float32))
            return float(value), np.asarray(slope, np.float64)

        return both

    def _hand_over(self, *seeds: int) -> Any:
        def one(w: np.ndarray) -> dict[str, np.ndarray]:
            self.wanted.get()
            self.made.put((w.copy(), self.gradients))
            self.gradients = 0
            return {"nothing": np.zeros(1)}

        return one

    def goes_on(self, state: State, n: int) -> bool:
        """Whether it stands at a state and has n more draws to make."""
        same = all(np.array_equal(state[name], self.begun[name]) for name in ("number", "start"))
        return same and self.done == int(state["iteration"][0]) and self.done + n <= self.length

    def take(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        """The next n draws, whitened, (n, P), and the gradients that each took, (n,)."""
        w, gradients = np.empty((n, self.size)), np.empty(n, np.int64)
        for i in range(n):
            self.wanted.put(None)
            w[i], gradients[i] = self._next()
        self.done += n
        return w, gradients

    def _next(self) -> tuple[np.ndarray, int]:
        while True:
            try:
                return self.made.get(timeout=1.0)
            except Empty:
                if self._finished():
                    self.sampler.wait()  # raises what ended it
                    raise FlyrunError("sampler=nuts_nutpie: nutpie ended before its last draw") from None

    def end(self) -> None:
        """Let nutpie's thread come to its end."""
        atexit.unregister(self.end)
        self.over = True
        for _ in range(self.length - self.done):
            self.wanted.put(None)
        while not self._finished():
            time.sleep(0.01)

    def _finished(self) -> bool:
        try:
            return bool(self.sampler.is_finished)
        except TimeoutError:  # its thread is at work
            return False
