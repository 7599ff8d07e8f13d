"""Streaming variational Bayes (Broderick et al. 2013) of global and local variables, by several workers.

λ ← λ + (A(batch, λ_τ) − λ_τ): A is coordinate ascent on the batch's rows under the prior λ_τ, as it was when
a worker began with the batch (Algorithms 19 and 20 of the survey; its (5.49) lacks −λ_τ). Simulated workers
have not seen the last `stale` batches; real ones post in order of arrival. Workers that have seen nothing
begin where all arms of a seed do, so that their components are the same ones.
"""

from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from functools import cached_property, partial

import numpy as np

from flyrun.experiments import data
from flyrun.experiments.config.arm import Arm
from flyrun.experiments.models.hierarchy import Hierarchy
from flyrun.experiments.samplers.hierarchies.method import OfHierarchies
from flyrun.experiments.samplers.method import Records, State
from flyrun.experiments.samplers.pools import pool
from flyrun.ground.errors import FlyrunError
from flyrun.ground.numerics.state import generator, generator_state


class StreamingVi(OfHierarchies):
    """`made` has λ after each of the last stale + 1 batches, that of j batches at j modulo their number."""

    label = "Streaming variational Bayes"
    shown = (*OfHierarchies.shown, "{late} batches not seen")

    def __init__(self, arm: Arm, model: Hierarchy):
        super().__init__(arm, model)
        self._working: dict[tuple[int, int, bytes], Future] = {}

    def more_state(self, natural: np.ndarray) -> State:
        """Of real workers, (W, 3), (W, M): the batch that each is at, how many had come before it and the
        queries on the longest path to it; and λ_τ.
        """
        config, prior = self.arm.sampler, self.model.prior
        state = {"begin": natural, "made": np.tile(prior, (config.stale + 1, 1))}
        if config.team == "simulated":
            return state
        idle, seen = np.full((config.workers, 3), -1.0), np.tile(prior, (config.workers, 1))
        return state | {"out": idle, "seen": seen, "span": np.zeros(1)}

    def rows(self, rng: np.random.Generator, key: int, t: int) -> np.ndarray:
        """Indices, (B,); none after the last batch."""
        return super().rows(rng, key, t)[: self.model.n_data if t < self.batches.in_epoch else 0]

    def learn(self, rng: np.random.Generator, state: State, index: np.ndarray, t: int) -> int:
        past, config = state["made"], self.arm.sampler
        seen = past[max(0, t - config.stale) % len(past)]
        at = fitted(self.model, seen, state["begin"] if t <= config.stale else seen, index, config.inner)
        state["natural"] = past[t % len(past)] + at - seen
        past[(t + 1) % len(past)] = state["natural"]
        return config.inner * len(index)

    def advance(self, state: State, n: int) -> tuple[State, Records]:
        """Real workers' steps are in order of arrival, which no bit of a second run repeats; who has not come
        goes on. They tell `span`, and `late`: batches that came since a worker had read λ.

        FlyrunError where a worker process dies.
        """
        if self.arm.sampler.team == "simulated":
            return super().advance(state, n)
        try:
            return self._as_they_come(state, n)
        except BrokenExecutor as error:
            self._working.clear()
            del self.pool
            raise FlyrunError("a worker died; out of memory? fewer need less: sampler.workers=1") from error

    @cached_property
    def pool(self) -> Executor:
        """The workers, started."""
        return pool(self.arm.sampler.team, self.arm.sampler.workers)

    def _as_they_come(self, state: State, n: int) -> tuple[State, Records]:
        rng, key, step = generator(state["rng"]), int(state["key"][0]), int(state["step"][0])
        out, seen, span = state["out"].copy(), state["seen"].copy(), float(state["span"][0])
        natural, end = state["natural"] if step else self.model.prior, step + n
        records = {name: np.zeros(n) for name in ("queries", "visits", "span", "late")}
        while step < end:
            for w in np.flatnonzero(out[:, 0] < 0):
                if (batch := step + np.sum(out[:, 0] >= 0)) < self.batches.in_epoch:
                    out[w], seen[w] = (batch, step, span), natural
            order = [w for w in np.argsort(out[:, 0]) if out[w, 0] >= 0]
            if not order:  # all have come
                step = end
                break
            rows = {w: self.rows(rng, key, int(out[w, 0])) for w in order}
            work = {(key, int(out[w, 0]), seen[w].tobytes()): w for w in order}
            self._working = {
                name: self._working.get(name)
                or self._begin(seen[w].copy(), state["begin"], out[w, 1], rows[w])
                for name, w in work.items()
            }
            futures = dict(zip(self._working.values(), order, strict=True))
            for future in list(wait(futures, return_when=FIRST_COMPLETED).done)[: end - step]:
                w = futures[future]
                queries = self.arm.sampler.inner * len(rows[w])
                longest = max(span, out[w, 2] + queries)
                natural = natural + future.result() - seen[w]
                row = queries, len(rows[w]), longest - span, step - out[w, 1]
                for name, value in zip(records, row, strict=True):
                    records[name][step - end] = value
                out[w], span, step = -1.0, longest, step + 1
        new = {"natural": natural, "out": out, "seen": seen, "span": np.array([span])}
        return state | new | {"step": np.array([step]), "rng": generator_state(rng)}, records

    def _begin(self, seen: np.ndarray, begin: np.ndarray, read: float, index: np.ndarray) -> Future:
        """A worker's work on rows index, (b,), with λ_τ, (M,), after `read` batches."""
        team, inner = self.arm.sampler.team, self.arm.sampler.inner
        fit = partial(fitted, self.model) if team == "threads" else partial(_fitted_there, self.arm)
        return self.pool.submit(fit, seen, seen if read else begin, index, inner)


def fitted(model: Hierarchy, seen: np.ndarray, at: np.ndarray, index: np.ndarray, inner: int) -> np.ndarray:
    """A(batch, λ_τ): `inner` ascents from `at`, (M,), on rows index, (b,), under the prior seen, (M,)."""
    for _ in range(inner):
        at = seen + model.local(at, index).statistics
    return at


_bound: dict[str, Hierarchy] = {}


def _fitted_there(arm: Arm, *given) -> np.ndarray:
    """In a worker process: the data are bound at the first call."""
    if (key := str(arm.settings())) not in _bound:
        _bound.clear()
        _bound[key] = arm.model.code.bind(arm.model, data.load(arm.dataset))
    return fitted(_bound[key], *given)


build = StreamingVi
