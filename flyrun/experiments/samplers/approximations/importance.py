"""Importance sampling from a Gaussian near the posterior, or a t (Robert & Casella 2004, §3.3).

θ ~ q with log weight log p(θ, data) − log q(θ), weights normalised by their sum; q is any approximation's.
"""

import time
from typing import Any

import numpy as np
from scipy.special import gammaln, softmax

from flyrun.experiments.models.factors import Gaussian
from flyrun.experiments.models.problem import Problem, log_densities
from flyrun.experiments.samplers.method import Arm, Method, Records, State, near
from flyrun.experiments.samplers.on_data import OnData
from flyrun.ground.numerics.state import generator, generator_state, seeded


class Proposal:
    """A Gaussian, or the t of `freedom` degrees with its centre and shape. LinAlgError where it is none."""

    def __init__(self, q: Gaussian, freedom: float | None = None):
        self.mean, self.freedom = q.mean, freedom
        self.root = np.linalg.cholesky(np.linalg.inv(q.covariance))  # precision = root·rootᵀ
        size = self.mean.size
        self.log_peak = float(np.log(np.diag(self.root)).sum()) - 0.5 * size * np.log(2 * np.pi)
        if freedom is not None:
            half = 0.5 * (freedom + size)
            self.log_peak += gammaln(half) - gammaln(0.5 * freedom) - 0.5 * size * np.log(0.5 * freedom)

    def at(self, noise: np.ndarray, stretch: np.ndarray | float = 1.0) -> np.ndarray:
        """θ, (n, P), for standard normals (n, P), each stretched by √(ν/χ²_ν)."""
        return self.mean + np.linalg.solve(self.root.T, noise.T).T * np.reshape(stretch, (-1, 1))

    def log_density(self, theta: np.ndarray) -> np.ndarray:
        """log q(θ), (n,), of θ (n, P)."""
        square = (((theta - self.mean) @ self.root) ** 2).sum(axis=1)
        if self.freedom is None:
            return self.log_peak - 0.5 * square
        return self.log_peak - 0.5 * (self.freedom + self.mean.size) * np.log1p(square / self.freedom)

    def draw(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """n draws, (n, P), one after the other, so that it does not matter where they are cut."""
        drawn, noise, stretch = np.empty((n, self.mean.size)), np.empty((1, self.mean.size)), 1.0
        for i in range(n):
            rng.standard_normal(out=noise[0])
            if self.freedom is not None:
                stretch = np.sqrt(self.freedom / rng.chisquare(self.freedom))
            drawn[i] = self.at(noise, stretch)[0]  # alone: of many at once BLAS rounds differently
        return drawn


class Importance(OnData):
    """A step is a draw, N queries."""

    answers, unit = "weighted", "iteration"
    shown = Method.shown
    label, exact = "Importance sampling", True
    warm_up = Method.warm_up

    def __init__(self, arm: Arm, problem: Problem):
        super().__init__(arm, problem)
        started = time.perf_counter()
        inner, state, self.own_queries = near(arm.sampler.inner_arms(arm)[0], problem, arm.sampler.steps)
        self.q = inner.answer(state)
        self.proposal = Proposal(self.q, arm.sampler.freedom)
        self.own_seconds = time.perf_counter() - started

    @property
    def parts(self) -> tuple[Any, ...]:
        return tuple(self.q)

    def init(self, seed: int, needed: tuple[Any, ...] = ()) -> State:
        rng = seeded(seed, self.arm.method())
        theta = np.empty((0, self.q.mean.size))
        return {"rng": generator_state(rng), "theta": theta, "log_weight": np.empty(0)}

    def advance(self, state: State, n: int) -> tuple[State, Records]:
        rng = generator(state["rng"])
        theta = self.proposal.draw(rng, n)
        log_weight = sum(log_densities(self.arm, self.problem, theta)) - self.proposal.log_density(theta)
        new = {"theta": theta, "log_weight": log_weight}
        grown = {name: np.concatenate([state[name], values]) for name, values in new.items()}
        return grown | {"rng": generator_state(rng)}, {"queries": np.full(n, float(self.n_data))}

    def estimates(self, state: State) -> dict[str, np.ndarray]:
        weight = softmax(state["log_weight"])
        return {"mean": weight @ state["theta"], "square": weight @ state["theta"] ** 2}

    def result(self, state: State) -> dict[str, np.ndarray]:
        return {name: state[name] for name in ("theta", "log_weight")}


build = Importance
