"""Stochastic variational inference of the mixture of two normals (Hoffman, Blei, Wang & Paisley 2013).

q(z_n = 2) = r_n ∝ exp E log N(x_n; θ1 + θ2, σ²): S = σ⁻² Σ [[1, r], [r, r]], l = σ⁻² Σ (x, r x).
"""

from typing import Any

import numpy as np
from scipy.special import expit

from flyrun.models.problem import Problem
from flyrun.samplers.approximations.stochastic import StochasticVariational, Sums
from flyrun.samplers.method import Method


def build(arm: Any, problem: Problem) -> Method:
    """The method of an arm."""
    return MixtureSvi(arm, problem)


class MixtureSvi(StochasticVariational):
    """One Gaussian for both means."""

    label = "SVI"

    def of_batch(self, precision: np.ndarray, linear: np.ndarray, index: np.ndarray) -> Sums:
        """As in the base class."""
        covariance = np.linalg.inv(precision)
        x, tau, mean = self.problem.model.target[index], self.problem.model.scale**-2, covariance @ linear
        # E(x − θ1)² − E(x − θ1 − θ2)²
        gain = (x - mean[0]) ** 2 + covariance[0, 0] - (x - mean.sum()) ** 2 - covariance.sum()
        share = expit(0.5 * tau * gain)
        counts = np.array([[len(x), share.sum()], [share.sum(), share.sum()]])
        return Sums(tau * counts, tau * np.array([x.sum(), share @ x]), len(x))
