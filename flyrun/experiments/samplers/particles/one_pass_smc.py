"""One-pass sequential Monte Carlo (Balakrishnan & Madigan 2006): every row is looked at once.

log w += log p(x_B|θ), the rows in an order drawn at random; once few particles carry the weight they are
drawn anew from Liu & West's kernel, θ ← aθ_j + (1−a)θ̄ + N(0, (1−a²)V), a = (3δ−1)/(2δ), which keeps mean
and covariance. Steps after the last row do nothing and cost nothing.
"""

from typing import Any

import numpy as np

from flyrun.experiments.samplers.batches import batches_of
from flyrun.experiments.samplers.method import Arm, Records, State
from flyrun.experiments.samplers.particles.method import Weighted
from flyrun.experiments.samplers.particles.target import Target
from flyrun.experiments.samplers.particles.weights import normalised, root_of
from flyrun.ground.numerics.resampling import effective, systematic
from flyrun.ground.numerics.state import generator, generator_state, seeded


class OnePass(Weighted):
    """A step is a batch: m·b queries, b visits."""

    update, remedy = "One-pass SMC", "take more particles or a smaller sampler.batch"

    def __init__(self, arm: Arm, target: Target):
        super().__init__(arm, target)
        self.config, self.batches = arm.sampler, batches_of(arm, target.n_data)

    def init(self, seed: int, needed: tuple[Any, ...] = ()) -> State:
        rng = seeded(seed, self.arm.method())
        key, m = rng.integers(1 << 62, size=1), self.config.particles
        return {
            "key": key,
            "step": np.zeros(1, np.int64),
            "theta": self.target.draw(rng, m),
            "log_weight": np.zeros(m),
            "rng": generator_state(rng),
        }

    def advance(self, state: State, n: int) -> tuple[State, Records]:
        """n more batches, as long as there are rows."""
        rng, m = generator(state["rng"]), self.config.particles
        theta, log_weight, first = state["theta"], state["log_weight"], int(state["step"][0])
        records = {name: np.zeros(n) for name in ("queries", "visits", "ess")}
        for i in range(n):
            step = first + i + 1
            weight = normalised(log_weight, step, self.remedy)
            if step <= self.batches.in_epoch:
                if effective(weight) < self.config.ess * m:
                    theta, log_weight = self._redrawn(rng, theta, weight), np.zeros(m)
                rows = self.batches.rows(step - 1, rng, int(state["key"][0]))
                log_weight = log_weight + self.target.log_likelihood(theta, rows)
                log_weight = log_weight - log_weight.max()
                records["queries"][i], records["visits"][i] = m * len(rows), len(rows)
                weight = normalised(log_weight, step, self.remedy)
            records["ess"][i] = effective(weight)
        moved = {"theta": theta, "log_weight": log_weight, "step": np.array([first + n])}
        return state | moved | {"rng": generator_state(rng)}, records

    def _redrawn(self, rng: np.random.Generator, theta: np.ndarray, weight: np.ndarray) -> np.ndarray:
        delta = self.config.discount
        a = (3.0 * delta - 1.0) / (2.0 * delta)
        noise = rng.standard_normal(theta.shape) @ root_of(theta, weight).T
        kept = theta[systematic(rng, weight, len(theta))]
        return a * kept + (1.0 - a) * (weight @ theta) + np.sqrt(1.0 - a * a) * noise


build = OnePass
