"""Gaussian variational inference: the N(μ, S) of least KL(q‖p) (Opper & Archambeau 2009, eqs. 16 and 17).

By natural gradients of step 1 (Khan & Lin 2017): T = E_q c and ν = E_q ℓ' + T·m, with ℓ' and c the slope of a
datum's log likelihood and minus its second derivative, m q's mean of what the datum sees.

Mean field is the Gaussian of independent coordinates of least KL(q‖p): S_d = 1/P_dd and μ = P⁻¹h,
expectations under independent coordinates, which is Newton's method for μ. Linear response (Giordano,
Broderick & Jordan 2015) is the covariance of the mean under small tilts, P⁻¹ at the end, for one inverse.
"""

import numpy as np
from scipy.special import ndtr

from flyrun.experiments.models.base_density import Penalty
from flyrun.experiments.models.factors import Factors, Gaussians, Sites, averaging
from flyrun.experiments.models.problem import Problem
from flyrun.experiments.samplers.approximations.sites import SiteMethod, Update
from flyrun.experiments.samplers.method import Arm, Method, State


class KlGaussian:
    """Sites of the average curvature, that give the average slope."""

    bound = True

    def __init__(self, points: int):
        self.points = points  # nodes of a quadrature, for each of k

    def of_rows(self, factors: Factors, at: Gaussians, old: Sites) -> Update:
        """As in `Rule`."""
        sites, averages = averaging(factors, at, self.points)
        return Update(sites, averages.value, np.zeros(len(averages.value), bool), averages.queries)

    def of_prior(self, penalty: Penalty, at: Gaussians, old: Sites) -> Update:
        """E|θ| and its derivatives are known."""
        mean, sd = at.mean[:, 0], np.sqrt(at.variance[:, 0, 0])
        density = np.exp(-0.5 * (mean / sd) ** 2) / np.sqrt(2 * np.pi) / sd
        beyond = 2 * ndtr(mean / sd) - 1
        bend = 2 * penalty.rate * density
        sites = Sites(bend[:, None, None], (bend * mean - penalty.rate * beyond)[:, None])
        expected_size = mean * beyond + 2 * sd**2 * density
        return Update(sites, -penalty.rate * expected_size, np.zeros(len(mean), bool), 0)


class MeanField(SiteMethod):
    """Expectations under independent coordinates."""

    def spread(self, state: State) -> np.ndarray:
        return np.diag(1.0 / np.diag(state["precision"]))

    def result(self, state: State) -> dict[str, np.ndarray]:
        """Mean, (P,), and covariance, (P, P), that of linear response where it is asked for."""
        whole = super().spread if self.arm.sampler.linear_response else self.spread
        return {"mean": state["mean"], "covariance": whole(state)}


def _gaussian(arm: Arm, problem: Problem) -> Method:
    return SiteMethod(arm, problem, "Gaussian variational inference", KlGaussian(arm.sampler.points))


def _mean_field(arm: Arm, problem: Problem) -> Method:
    label = "Mean field, linear response" if arm.sampler.linear_response else "Mean field"
    return MeanField(arm, problem, label, KlGaussian(arm.sampler.points))


build = {"kl_gaussian": _gaussian, "mean_field": _mean_field}
