"""Coordinate ascent of mean field, q(θ)q(z), for models with a hidden label z_n of each datum.

Given the labels the model is Gaussian, so that the best q(θ) under a Gaussian prior is one too: a pass takes
the best q(z) for q(θ) as it is, then the best q(θ) for that (Attias 1999; Bishop 2006, §10.1). The bound
rises with every pass; where it ends depends on where it began.
"""

import numpy as np

from flyrun.models.factors import Factors, Gaussians
from flyrun.models.problem import Problem
from flyrun.samplers.approximations.jaakkola_jordan import JaakkolaJordan
from flyrun.samplers.approximations.sites import SiteMethod, Sites, Update
from flyrun.samplers.method import Arm, Method, State


def build(arm: Arm, problem: Problem) -> Method:
    """The method of an arm."""
    return Cavi(arm, problem, "Mean field with labels", Labels())


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
