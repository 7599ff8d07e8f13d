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

from flyrun.extend import FlyrunError, OnData, bind, seeded
from flyrun_peers.whitened import Coordinates


def prepare(arm: Any, folder: Path) -> "Nuts":
    """Load the data, find the mode and its curvature."""
    return Nuts(arm, bind(arm, folder, needs_map=True))


class Nuts(OnData):
    """Step and mass are adapted during burn-in."""

    unit, shown = "iteration", ("{queries} queries/iter",)
    label, exact = "NUTS (nutpie)", True

    def __init__(self, arm: Any, problem: Any):
        super().__init__(arm, problem)
        started = time.perf_counter()
        self.coordinates = Coordinates(self.density, arm.sampler.metric)
        self.own_queries = self.density.taken()
        self.evaluate = jax.jit(jax.value_and_grad(self.coordinates.log_density))
        self.evaluate(jnp.zeros(self.n_params))
        self.density.taken()  # of compiling it
        self.own_seconds = time.perf_counter() - started
        self.chain: Any = None

    def init(self, seed: int, needed: tuple = ()) -> dict:
        """A number for nutpie's generator, and the start: at the MAP or as protocol.init says."""
        number = int(seeded(seed, self.arm.method()).integers(2**31))
        start = self.coordinates.white(self.starting_point(seed))
        return {"number": np.array([number]), "start": start, "iteration": np.zeros(1, np.int64)}

    def advance(self, state: dict, n: int) -> tuple[dict, dict]:
        """The next n."""
        done, thin = int(state["iteration"][0]), self.arm.protocol.thin
        begun = self.chain
        if begun is None or not begun.goes_on(state, n):
            if begun is not None:
                begun.end()
            self.chain = _Chain(self, state, max(self.arm.protocol.iterations, done + n))
            self.chain.take(done)
        w, queries = self.chain.take(n)
        kept = np.arange(done + 1, done + n + 1) % thin == 0
        new = {**state, "iteration": np.array([done + n])}
        return new, {"queries": queries, "theta": self.coordinates.theta(w[kept])}


class _Chain:
    """A chain of so many draws in nutpie's own thread, which works only while it is asked for one.

    done: draws handed over.
    """

    def __init__(self, nuts: Nuts, state: dict, length: int):
        self.nuts, self.size, self.begun, self.length = nuts, nuts.n_params, state, length
        self.done, self.over = 0, False
        self.wanted, self.made = Queue[None](), Queue[Any]()
        model = from_pyfunc(
            self.size, self._log_density, self._hand_over, [np.dtype("float64")], [(1,)], ["nothing"],
            make_initial_point_fn=lambda seed: state["start"],
        )  # fmt: skip
        tune = nuts.arm.protocol.burn_in
        self.sampler = nutpie.sample(
            model, draws=length - tune, tune=tune, chains=1, cores=1, seed=int(state["number"][0]),
            target_accept=nuts.arm.sampler.target_accept, progress_bar=False, blocking=False,
            low_rank_modified_mass_matrix=nuts.arm.sampler.low_rank,
        )  # fmt: skip
        atexit.register(self.end)  # else nutpie's thread outlives the interpreter that it calls

    def _log_density(self) -> Any:
        def both(w: np.ndarray) -> tuple[float, np.ndarray]:
            if self.over:  # nutpie's abort waits for this thread, and an error ends in a panic: go on, free
                return -0.5 * float(w @ w), -w
            value, slope = self.nuts.evaluate(jnp.asarray(w, jnp.float32))
            return float(value), np.asarray(slope, np.float64)

        return both

    def _hand_over(self, *seeds: int) -> Any:
        def one(w: np.ndarray) -> dict[str, np.ndarray]:
            self.wanted.get()
            self.made.put((w.copy(), self.nuts.density.taken()))
            return {"nothing": np.zeros(1)}

        return one

    def goes_on(self, state: dict, n: int) -> bool:
        """Whether it stands at a state and has n more draws to make."""
        same = all(np.array_equal(state[name], self.begun[name]) for name in ("number", "start"))
        return same and self.done == int(state["iteration"][0]) and self.done + n <= self.length

    def take(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        """The next n draws, whitened, (n, P), and the queries that each took, (n,)."""
        w, queries = np.empty((n, self.size)), np.empty(n, np.int64)
        for i in range(n):
            self.wanted.put(None)
            w[i], queries[i] = self._next()
        self.done += n
        return w, queries

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
