"""Stochastic variational inference of logistic regression with the bounds of Jaakkola & Jordan (1997).

With ξ_n² = x_nᵀ(Σ + mmᵀ)x_n and λ(ξ) = tanh(ξ/2)/(4ξ): S = 2Σλ_n x_n x_nᵀ and l = Σ½t_n x_n. The bounds are
too narrow: so is the Gaussian that they end in.
"""

from typing import Any

import numpy as np

from flyrun.models.logistic import tight_at
from flyrun.models.problem import Problem
from flyrun.samplers.approximations.method import StochasticVariational
from flyrun.samplers.batches import rows_of
from flyrun.samplers.method import Method


def build(arm: Any, problem: Problem) -> Method:
    """The method of an arm."""
    return SviJaakkolaJordan(arm, problem)


class SviJaakkolaJordan(StochasticVariational):
    """Bounds tight where the Gaussian of the last step has each row."""

    label = "SVI, Jaakkola-Jordan"

    def statistics(
        self, mean: np.ndarray, covariance: np.ndarray, index: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """As in the base class."""
        rows = rows_of(self.arm, self.problem, index)[1].rows.astype(np.float64)  # t_n x_n
        square = (rows @ mean) ** 2 + ((rows @ covariance) * rows).sum(axis=1)
        curve = -2.0 * tight_at(np.sqrt(square)).curve[:, :1]  # 2λ
        return rows.T @ (rows * curve), 0.5 * rows.sum(axis=0)
