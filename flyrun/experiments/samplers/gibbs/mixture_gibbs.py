"""Gibbs sampling of the mixture of two normals (Diebolt & Robert 1994), a method of its own in this family.

z_n | θ, then θ | z ~ N(P⁻¹h, P⁻¹), P = I/s² + σ⁻²[[N, n₂], [n₂, n₂]], h = σ⁻²(Σx, Σ of the second's x), s the
prior's sd. With `swap` a sweep ends by trying (θ1 + θ2, −θ2), which explains the data equally well and whose
Jacobian is 1: accepted by the priors' ratio, at no query. A sweep is N queries.
"""

from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit

from flyrun.experiments.models.problem import Problem, bind, draw_prior
from flyrun.experiments.samplers.method import Arm, Method, Records, State
from flyrun.experiments.samplers.on_data import OnData
from flyrun.ground.numerics.state import generator, generator_state, seeded


def prepare(arm: Arm, folder: Path) -> Method:
    """The method of an arm; DataError or ConfigError as bind's."""
    return MixtureGibbs(arm, bind(arm, folder, needs_map=False))


class MixtureGibbs(OnData):
    """A step is a sweep. Exact, however slowly it finds the other mode."""

    unit = "sweep"
    shown = ("{queries} queries/sweep",)
    exact = True
    warm_up, trace = Method.warm_up, Method.trace

    def __init__(self, arm: Arm, problem: Problem):
        super().__init__(arm, problem)
        self.x, self.label = problem.model.target, "Gibbs and swap" if arm.sampler.swap else "Gibbs"
        self.precision, self.ridge = problem.model.scale**-2, problem.prior.scale**-2

    def init(self, seed: int, needed: tuple[Any, ...] = ()) -> State:
        """A draw from the prior, the same for every arm of a seed, or 0."""
        theta = draw_prior(self.problem, seeded(seed), 1)[0]
        if self.arm.protocol.init == "zero":
            theta = np.zeros(2)
        rng = generator_state(seeded(seed, self.arm.method()))
        return {"theta": theta, "iteration": np.zeros(1, np.int64), "rng": rng}

    def advance(self, state: State, n: int) -> tuple[State, Records]:
        rng, theta, thin = generator(state["rng"]), state["theta"], self.arm.protocol.thin
        first, kept = int(state["iteration"][0]), []
        swapped = np.zeros(n)
        for i in range(n):
            theta = self._sweep(rng, theta)
            if self.arm.sampler.swap:
                other = np.array([theta.sum(), -theta[1]])
                gain = 0.5 * self.ridge * (theta @ theta - other @ other)
                swapped[i] = np.log(rng.random()) < gain
                theta = other if swapped[i] else theta
            if (first + i + 1) % thin == 0:
                kept.append(theta)
        moved = {"theta": theta, "iteration": np.array([first + n]), "rng": generator_state(rng)}
        records = {"theta": np.reshape(kept, (-1, 2)), "queries": np.full(n, len(self.x)), "swapped": swapped}
        return moved, records

    def _sweep(self, rng: np.random.Generator, theta: np.ndarray) -> np.ndarray:
        first = self.x - theta[0]
        second = first - theta[1]
        of_second = rng.random(len(self.x)) < expit(0.5 * self.precision * (first**2 - second**2))
        n_second, scaled = of_second.sum(), self.precision * self.x
        counts = np.array([[len(self.x), n_second], [n_second, n_second]])
        precision = self.ridge * np.eye(2) + self.precision * counts
        root = np.linalg.cholesky(precision)
        mean = np.linalg.solve(precision, [scaled.sum(), scaled @ of_second])
        return mean + np.linalg.solve(root.T, rng.standard_normal(2))
