"""Variational inference of logistic regression by the bounds of Jaakkola & Jordan (1997), all rows a pass.

ξ_n² = E_q m_n² makes the bounds tightest on average, T_n = tanh(ξ_n/2)/(2ξ_n), ν_n = ½: coordinate ascent of
mean field for the bounds' own augmentation. Means are good; the spread is too narrow, however many the data.
"""

import numpy as np

from flyrun.models.base_density import Penalty
from flyrun.models.factors import Factors, Gaussians, Sites
from flyrun.models.logistic import tight_at
from flyrun.models.problem import Problem
from flyrun.samplers.approximations.sites import SiteMethod, Update
from flyrun.samplers.method import Arm, Method


def build(arm: Arm, problem: Problem) -> Method:
    """The method of an arm."""
    return SiteMethod(arm, problem, "Jaakkola-Jordan", JaakkolaJordan())


class JaakkolaJordan:
    """Sites that are the bounds."""

    bound = True

    def of_rows(self, factors: Factors, at: Gaussians, old: Sites) -> Update:
        """As in `Rule`."""
        square = at.mean[:, 0] ** 2 + at.variance[:, 0, 0]
        curve = tight_at(np.sqrt(square)).curve
        sites = Sites(-2.0 * curve[:, :1, None], np.full((len(curve), 1), 0.5))
        evidence = curve[:, 1] + curve[:, 0] * square + 0.5 * at.mean[:, 0]
        return Update(sites, evidence, np.zeros(len(curve), bool), len(curve))

    def of_prior(self, penalty: Penalty, at: Gaussians, old: Sites) -> Update:
        """|θ| ≤ θ²/(2b) + b/2, tightest on average for b² = E θ²."""
        size = np.sqrt(at.mean[:, 0] ** 2 + at.variance[:, 0, 0])
        sites = Sites((penalty.rate / size)[:, None, None], np.zeros((len(size), 1)))
        return Update(sites, -penalty.rate * size, np.zeros(len(size), bool), 0)
