"""Stochastic variational inference of the mixture of two normals (Hoffman, Blei, Wang & Paisley 2013).

q(θ) = N(Λ⁻¹h, Λ⁻¹), q(z_n = 2) = r_n ∝ exp E log N(x_n; θ1 + θ2, σ²); the natural gradient's step of size
ρ = (t + delay)^−decay: Λ ← (1−ρ)Λ + ρ(I/s² + (N/b) σ⁻² Σ_B [[1, r], [r, r]]), h likewise with (x, r x).
"""

from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit

from flyrun.numerics.state import generator, generator_state, seeded
from flyrun.samplers.approximations.npv import gaussian_estimates
from flyrun.samplers.batches import batches_of
from flyrun.samplers.method import Facts, Method, Records, State
from flyrun.samplers.particles.target import Rows


def prepare(arm: Any, folder: Path) -> Method:
    """The method of an arm; DataError or ConfigError as bind's."""
    return MixtureSvi(arm, Rows(arm, folder))


class MixtureSvi(Method):
    """A step is a batch: b queries."""

    answers, unit, shown = "density", "step", ("{queries} queries/batch",)

    def __init__(self, arm: Any, target: Rows):
        self.arm, self.target, self.config = arm, target, arm.sampler
        self.batches = batches_of(arm, target.n_data)
        self.x, self.precision = target.problem.model.target, target.problem.model.scale**-2
        self.prior = np.eye(2) * target.problem.prior.scale**-2

    def init(self, seed: int, needed: tuple[Any, ...] = ()) -> State:
        """The prior, as all methods begin."""
        rng, linear = seeded(seed, self.arm.method()), np.zeros(2)
        key, step = rng.integers(1 << 62, size=1), np.zeros(1, np.int64)
        return {
            "precision": self.prior,
            "linear": linear,
            "key": key,
            "step": step,
            "rng": generator_state(rng),
        }

    def advance(self, state: State, n: int) -> tuple[State, Records]:
        """n more batches."""
        rng, first = generator(state["rng"]), int(state["step"][0])
        precision, linear = state["precision"], state["linear"]
        visits = np.zeros(n)
        for i in range(n):
            rows = self.batches.rows(first + i, rng, int(state["key"][0]))
            covariance, x = np.linalg.inv(precision), self.x[rows]
            mean, visits[i] = covariance @ linear, len(rows)
            # E(x − θ1)² − E(x − θ1 − θ2)²
            gain = (x - mean[0]) ** 2 + covariance[0, 0] - (x - mean.sum()) ** 2 - covariance.sum()
            share = expit(0.5 * self.precision * gain)
            rate = (first + i + self.config.delay) ** -self.config.decay
            scale = self.batches.factor * self.precision
            counts = np.array([[len(x), share.sum()], [share.sum(), share.sum()]])
            precision = (1 - rate) * precision + rate * (self.prior + scale * counts)
            linear = (1 - rate) * linear + rate * scale * np.array([x.sum(), share @ x])
        moved = {"precision": precision, "linear": linear, "step": np.array([first + n])}
        return state | moved | {"rng": generator_state(rng)}, {"queries": visits}

    def result(self, state: State) -> dict[str, np.ndarray]:
        """Mean and covariance."""
        covariance = np.linalg.inv(state["precision"])
        return {"mean": covariance @ state["linear"], "covariance": covariance}

    def estimates(self, state: State) -> dict[str, np.ndarray]:
        """Of the Gaussian."""
        found = self.result(state)
        return gaussian_estimates(
            self.target, found["mean"][None], np.linalg.cholesky(found["covariance"])[None]
        )

    def facts(self, state: State | None = None) -> Facts:
        """As in the base class."""
        n_data, queries = self.target.n_data, self.target.fit.queries
        return Facts("SVI", False, self.target.coordinates, n_data, n_params=2, setup_queries=queries)
