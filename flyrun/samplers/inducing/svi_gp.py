"""Stochastic variational inference for Gaussian processes (Hensman, Fusi & Lawrence 2013, eqs. 5 and 6).

One set of inducing inputs, fixed; natural gradient steps on q(u). It is mirror descent with one particle.
"""

from typing import Any

from flyrun.models.gaussian_process import Process
from flyrun.samplers.inducing.pmd_inducing import Descent
from flyrun.samplers.method import Arm, Method, State


def build(arm: Arm, process: Process, seconds: float) -> Method:
    """The method of an arm."""
    return Variational(arm, process, seconds, "Stochastic variational inference", 1)


class Variational(Descent):
    """Its answer is q(u)."""

    answers = "density"

    def result(self, state: State) -> dict[str, Any]:
        """points (M, D), mean (M,) and covariance (M, M) of u."""
        found = super().result(state)
        return {"points": found["theta"][0], "mean": found["mean"][0], "covariance": found["covariance"][0]}
