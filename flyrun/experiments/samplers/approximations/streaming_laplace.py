"""Streaming Laplace: a Gaussian filter that reads every row once.

Assumed-density filtering (Opper 1998) by Laplace's approximation: the running Gaussian is the prior of the
next block; Newton finds where their product is highest, and the block's curvature is added to the precision.
In the end a Gaussian about as good as Laplace's, for one reading of the data.
"""

import numpy as np

from flyrun.experiments.models import passes
from flyrun.experiments.models.problem import Problem
from flyrun.experiments.samplers.approximations.method import StreamedGaussian
from flyrun.experiments.samplers.approximations.rows_under_gaussian import climbed, log_concave
from flyrun.experiments.samplers.batches import rows_of
from flyrun.experiments.samplers.method import Arm, Method, Records, State
from flyrun.ground.numerics.batches import Batches
from flyrun.ground.numerics.state import generator


def build(arm: Arm, problem: Problem) -> Method:
    """The method of an arm."""
    log_concave(arm, f"sampler={arm.sampler.name}", "model=logistic or softmax")
    n_data = len(problem.features.rows)
    return StreamingLaplace(arm, problem, Batches(n_data, min(arm.sampler.batch, n_data), "epochs"))


class StreamingLaplace(StreamedGaussian):
    """A step reads a block, b queries for every look of Newton's; after one epoch steps do nothing."""

    label = "Streaming Laplace"

    def advance(self, state: State, n: int) -> tuple[State, Records]:
        """n more blocks, until all rows are read."""
        rng, key, first = generator(state["rng"]), int(state["key"][0]), int(state["step"][0])
        precision, linear = state["precision"], state["linear"]
        queries, visits = np.zeros(n), np.zeros(n)
        for k in range(min(n, max(0, self.batches.in_epoch - first))):
            index = self.batches.rows(first + k, rng, key)
            mean = np.linalg.solve(precision, linear)
            mean, precision, looks = self.absorbed(mean, precision, index)
            linear = precision @ mean
            queries[k], visits[k] = looks * len(index), len(index)
        new = {"precision": precision, "linear": linear, "step": state["step"] + n}
        return {**state, **new}, {"queries": queries, "visits": visits}

    def absorbed(
        self, mean: np.ndarray, precision: np.ndarray, index: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, int]:
        """Mean, (P,), precision, (P, P), and evaluations of a Gaussian times the likelihood of rows."""
        model, features = rows_of(self.arm, self.problem, index)
        return climbed(
            lambda theta: passes.look(self.arm.model.code, model, features, theta), mean, precision
        )
