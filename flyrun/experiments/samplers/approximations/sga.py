"""Stochastic gradient ascent to the MAP (Robbins & Monro 1951): a point, which has no spread.

θ ← θ + ρ_t G (∇log prior + (N/b) Σ ∇log L_n) over a batch of b rows, from θ = 0. G is 1/L, L the largest
curvature at 0, or the inverse of the curvature there; averages are those of Polyak & Juditsky (1992).
With control variates (SVRG, Johnson & Zhang 2013) the batch says only how much its gradient differs from that
at a centre where all rows were looked at, anew at the start of every epoch. Hogwild (Niu, Recht, Ré & Wright
2011), as if stale + 1 workers climbed at once: slopes are those at θ of `stale` steps before.
"""

import time
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from flyrun.experiments.models import passes
from flyrun.experiments.models.problem import Problem
from flyrun.experiments.samplers.approximations import method
from flyrun.experiments.samplers.approximations.stochastic import averaged, size_of
from flyrun.experiments.samplers.batches import batches_of, rows_of
from flyrun.experiments.samplers.method import Arm, Records, State
from flyrun.experiments.samplers.on_data import OnData
from flyrun.ground.errors import FlyrunError
from flyrun.ground.numerics.state import generator, generator_state, seeded


class StochasticAscent(OnData):
    """A step is a batch: b queries, with control variates 2b, and N more once an epoch."""

    answers = "density"
    label = "Stochastic gradient ascent"

    def __init__(self, arm: Arm, problem: Problem):
        super().__init__(arm, problem)
        self.batches, self.ridge = batches_of(arm, self.n_data), method.ridge_of(arm, problem)
        started = time.perf_counter()
        self.gain = self._gain()
        self.own_queries, self.own_seconds = self.n_data, time.perf_counter() - started

    def _gain(self) -> np.ndarray:
        size = len(self.problem.coordinates)
        bend = self._look(np.zeros(size)).curvature + self.ridge * np.eye(size)
        if self.arm.sampler.metric == "smoothness":
            return np.eye(size) / np.abs(np.linalg.eigvalsh(bend)).max()
        try:
            return cho_solve(cho_factor(bend), np.eye(size))
        except LinAlgError:
            raise FlyrunError(
                "sampler.metric=newton: the posterior's curvature at 0 is not positive definite; take "
                "sampler.metric=smoothness"
            ) from None

    @property
    def parts(self) -> tuple[Any, ...]:
        return (self.gain,)

    def init(self, seed: int, needed: tuple[Any, ...] = ()) -> State:
        """θ = 0, and the key of the batches."""
        rng, zero = seeded(seed, self.arm.method()), np.zeros(len(self.gain))
        places = dict.fromkeys(("theta", "average", "centre", "slope"), zero)
        key = rng.integers(2**63, size=1)
        past = np.zeros((self.arm.sampler.stale + 1, len(zero)))  # θ after step t at t modulo their number
        return {
            **places,
            "past": past,
            "step": np.zeros(1, np.int64),
            "key": key,
            "rng": generator_state(rng),
        }

    def advance(self, state: State, n: int) -> tuple[State, Records]:
        """n more batches. FlyrunError where θ is lost."""
        rng, key, first = generator(state["rng"]), int(state["key"][0]), int(state["step"][0])
        theta, average, centre, slope = (state[name] for name in ("theta", "average", "centre", "slope"))
        past = state["past"].copy()
        options, records = self.arm.sampler, {name: np.zeros(n) for name in ("queries", "visits")}
        for k in range(n):
            step = first + k
            if options.control and step % self.batches.in_epoch == 0:
                centre, slope = theta, self._slope(theta)
                records["queries"][k], records["visits"][k] = self.n_data, self.n_data
            index = self.batches.rows(step, rng, key)
            records["queries"][k] += (1 + options.control) * len(index)
            records["visits"][k] += len(index)
            seen = past[max(0, step - options.stale) % len(past)]
            gradient = self._slope(seen, index) - (self._slope(centre, index) if options.control else 0.0)
            ascent = slope + self.batches.factor * gradient - self.ridge * seen
            theta = theta + size_of(options, self.batches, step) * (self.gain @ ascent)
            if not np.isfinite(theta).all():
                raise FlyrunError(f"sampler=sga: θ is lost at step {step + 1}; try a smaller sampler.rate")
            past[(step + 1) % len(past)] = theta
            average = averaged(average, theta, step + 1, options.average) if options.average else theta
        new = {"theta": theta, "average": average, "centre": centre, "slope": slope, "past": past}
        return {**state, **new, "step": state["step"] + n, "rng": generator_state(rng)}, records

    def _slope(self, theta: np.ndarray, index: np.ndarray | None = None) -> np.ndarray:
        """∇ Σ log L_n, (P,), over the rows index, or all."""
        model, features = self.problem.model, self.problem.features
        if index is not None:
            model, features = rows_of(self.arm, self.problem, index)
        return passes.slope(self.arm.model.code, model, features, theta)[1]

    def _look(self, theta: np.ndarray) -> passes.Look:
        return passes.look(self.arm.model.code, self.problem.model, self.problem.features, theta)

    def estimates(self, state: State) -> dict[str, np.ndarray]:
        """Where it is, or the average, (P,); a point says nothing of squares."""
        return {"mean": state["average"]}

    def result(self, state: State) -> dict[str, np.ndarray]:
        return self.estimates(state)

    def more(self, state: State | None) -> dict[str, Any]:
        """off_map: about how far the MAP is, root mean square in posterior sds, by Newton's step from the
        answer, a pass that is not charged.
        """
        if state is None:
            return {}
        look, theta = self._look(state["average"]), state["average"]
        try:
            factor = cho_factor(look.curvature + self.ridge * np.eye(len(theta)))
        except LinAlgError:
            return {}
        step = cho_solve(factor, look.gradient - self.ridge * theta)
        variance = np.diag(cho_solve(factor, np.eye(len(theta))))
        return {"off_map": float(np.sqrt(np.mean(step**2 / variance)))}


build = StochasticAscent
