"""Mean field: the Gaussian of independent coordinates of least KL(q‖p), and its linear response.

S_d = 1/P_dd and μ = P⁻¹h of the loop of Gaussian variational inference, whose expectations are then under
independent coordinates: Newton's method for μ. Linear response (Giordano, Broderick & Jordan 2015): the
covariance of the mean under small tilts, P⁻¹ at the end, for one inverse.
"""

import numpy as np

from flyrun.models.problem import Problem
from flyrun.samplers.approximations.kl_gaussian import KlGaussian
from flyrun.samplers.approximations.sites import SiteMethod
from flyrun.samplers.method import Arm, Method, State


def build(arm: Arm, problem: Problem) -> Method:
    """The method of an arm."""
    response = arm.sampler.linear_response
    return MeanField(
        arm,
        problem,
        "Mean field, linear response" if response else "Mean field",
        KlGaussian(arm.sampler.points),
    )


class MeanField(SiteMethod):
    """Expectations under independent coordinates."""

    def spread(self, state: State) -> np.ndarray:
        return np.diag(1.0 / np.diag(state["precision"]))

    def result(self, state: State) -> dict[str, np.ndarray]:
        """The covariance of linear response where it is asked for."""
        whole = super().spread if self.arm.sampler.linear_response else self.spread
        return {"mean": state["mean"], "covariance": whole(state)}
