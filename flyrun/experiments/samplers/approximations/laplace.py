"""The Laplace approximation: the Gaussian of the posterior's curvature at its mode (MacKay 2003, ch. 27)."""

import time
from typing import Any

import numpy as np

from flyrun.experiments.models.problem import Problem, posterior_curvature
from flyrun.experiments.samplers.approximations.method import GaussianAnswer
from flyrun.experiments.samplers.method import Arm, Method, Records, State


class Laplace(GaussianAnswer):
    """N(θ_MAP, H⁻¹), there as soon as it is set up; a step does nothing and costs nothing."""

    unit, label = "iteration", "Laplace"
    shown = Method.shown
    warm_up = Method.warm_up

    def __init__(self, arm: Arm, problem: Problem):
        super().__init__(arm, problem)
        self.own_queries = self.n_data
        started = time.perf_counter()
        self.covariance = np.linalg.inv(posterior_curvature(arm, problem))
        self.own_seconds = time.perf_counter() - started

    @property
    def parts(self) -> tuple[Any, ...]:
        return self.problem.fit.theta_map, self.covariance

    def init(self, seed: int, needed: tuple[Any, ...] = ()) -> State:
        """Nothing changes, whatever the seed."""
        return {"steps": np.zeros(1, np.int64)}

    def advance(self, state: State, n: int) -> tuple[State, Records]:
        return {"steps": state["steps"] + n}, {"queries": np.zeros(n)}

    def result(self, state: State) -> dict[str, np.ndarray]:
        return {"mean": self.problem.fit.theta_map, "covariance": self.covariance}


build = Laplace
