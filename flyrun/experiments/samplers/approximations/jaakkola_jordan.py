"""Variational inference of logistic regression by the bounds of Jaakkola & Jordan (1997), all rows a pass.

ξ_n² = E_q m_n² makes the bounds tightest on average, T_n = tanh(ξ_n/2)/(2ξ_n), ν_n = ½: coordinate ascent of
mean field for the bounds' own augmentation. Means are good; the spread is too narrow, however many the data.

Coordinate ascent of mean field, q(θ)q(z), for models with a hidden label z_n of each datum, is the same loop.
Given the labels the model is Gaussian, so that the best q(θ) under a Gaussian prior is one too: a pass takes
the best q(z) for q(θ) as it is, then the best q(θ) for that (Attias 1999; Bishop 2006, §10.1). The bound
rises with every pass; where it ends depends on where it began.
"""

import numpy as np

from flyrun.experiments.models.base_density import Penalty
from flyrun.experiments.models.factors import Factors, Gaussians, Sites
from flyrun.experiments.models.logistic import tight_at
from flyrun.experiments.models.problem import Problem
from flyrun.experiments.samplers.approximations.sites import SiteMethod, Update
from flyrun.experiments.samplers.method import Arm, Method, State


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


class Labels(JaakkolaJordan):
    """Sites that the best q(z) makes; the model's module gives them, as `augmented`.

    A Laplace prior's own labels are those of Jaakkola & Jordan's rule: a Gaussian's variances.
    """

    def of_rows(self, factors: Factors, at: Gaussians, old: Sites) -> Update:
        """An update of a datum's label is a query of it."""
        precision, linear, value = factors.module.augmented(factors.part, *at)
        return Update(Sites(precision, linear), value, np.zeros(len(value), bool), len(value))


class Cavi(SiteMethod):
    """A step is a pass."""

    def _first(self) -> State:
        state = super()._first()
        if self.arm.sampler.variance is None:
            return state
        return {**state, "precision": np.eye(self.n_params) / self.arm.sampler.variance}


def _bounds(arm: Arm, problem: Problem) -> Method:
    return SiteMethod(arm, problem, "Jaakkola-Jordan", JaakkolaJordan())


def _labels(arm: Arm, problem: Problem) -> Method:
    return Cavi(arm, problem, "Mean field with labels", Labels())


build = {"jaakkola_jordan": _bounds, "cavi": _labels}
