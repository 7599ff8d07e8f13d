"""The exact Gaussian process, on all rows (Rasmussen & Williams 2006, Algorithm 2.1): O(N³) once.

Or on some rows alone, the subset of data (Quiñonero-Candela & Rasmussen 2005, §4).
"""

from typing import Any

import numpy as np

from flyrun.experiments.models.gaussian_process import exact
from flyrun.experiments.samplers.inducing.method import Predictor, inducing_rows
from flyrun.experiments.samplers.method import Records, State


class OnAllRows(Predictor):
    """The process given the targets of some rows: read in the first step, the others do nothing."""

    answers = "density"
    label, exact = "Exact Gaussian process", True

    def rows(self, seed: int) -> np.ndarray:
        """Which, (size,)."""
        return np.arange(self.n_data)

    def init(self, seed: int, needed: tuple[Any, ...] = ()) -> State:
        """Nothing read: the prior's prediction."""
        places = len(self.process.test_target)
        blank = {"mean": np.zeros(places), "variance": np.ones(places)}
        return {"rows": self.rows(seed), "step": np.zeros(1, np.int64), **blank}

    def advance(self, state: State, n: int) -> tuple[State, Records]:
        """All rows in the first step."""
        read, state = np.zeros(n), dict(state)
        if state["step"][0] == 0:
            read[0] = self.size
            state["mean"], state["variance"] = exact(self.process, state["rows"])
        records = {"queries": read, "visits": read, "kernel_evaluations": self.size * read}
        return {**state, "step": state["step"] + n}, records

    def predictions(self, state: State) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return np.zeros(1), state["mean"][None], state["variance"][None]

    def result(self, state: State) -> dict[str, np.ndarray]:
        """mean, variance: at the test rows, (n,), in the process' scale."""
        return {name: state[name] for name in ("mean", "variance")}


class Subset(OnAllRows):
    """The rows whose inputs are the first set of inducing inputs."""

    label, exact = "Subset of data", False

    def rows(self, seed: int) -> np.ndarray:
        return inducing_rows(seed, self.n_data, 1, self.size)[0]


build = {"exact_gp": OnAllRows, "subset_of_data": Subset}
