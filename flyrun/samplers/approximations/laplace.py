"""The Laplace approximation: the Gaussian of the posterior's curvature at its mode (MacKay 2003, ch. 27)."""

import time
from typing import Any

import numpy as np

from flyrun.config.arm import Arm
from flyrun.models.problem import Problem, posterior_curvature
from flyrun.samplers.approximations import method
from flyrun.samplers.method import Facts, Records, State


class Laplace(method.GaussianAnswer):
    """N(θ_MAP, H⁻¹), there as soon as it is set up; a step does nothing and costs nothing."""

    def __init__(self, arm: Arm, problem: Problem):
        self.arm, self.problem = arm, problem
        started = time.perf_counter()
        self.covariance = np.linalg.inv(posterior_curvature(arm, problem))
        self.seconds = time.perf_counter() - started

    @property
    def parts(self) -> tuple[Any, ...]:
        return self.problem.fit.theta_map, self.covariance

    def init(self, seed: int, needed: tuple[Any, ...] = ()) -> State:
        """Nothing changes, whatever the seed."""
        return {"steps": np.zeros(1, np.int64)}

    def advance(self, state: State, n: int) -> tuple[State, Records]:
        return {"steps": state["steps"] + n}, {"queries": np.zeros(n)}

    def result(self, state: State) -> dict[str, np.ndarray]:
        """Its mean and covariance."""
        return {"mean": self.problem.fit.theta_map, "covariance": self.covariance}

    def known(self) -> Facts:
        queries = len(self.problem.features.rows)
        return method.facts(self.arm, self.problem, "Laplace", False, queries, self.seconds)


build = Laplace
