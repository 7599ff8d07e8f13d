"""Stochastic expectation propagation (Li, Hernández-Lobato & Turner 2015), by batches.

q = p₀ f^N with one site f for all rows. A row's cavity is q/f, P − (P − P₀)/N: what Algorithm 22 of Angelino,
Johnson & Adams (2016) prints, p₀ f^(1 − 1/N), has next to nothing of the other rows but for N = 1. A step of
b/N gives each row the share 1/N of f, the authors' choice; such constant steps do not converge.
"""

import numpy as np

from flyrun.models.problem import Problem
from flyrun.samplers.approximations.ep import Ep
from flyrun.samplers.approximations.sites import touching
from flyrun.samplers.approximations.stochastic import StochasticSites
from flyrun.samplers.method import Arm, Method


def build(arm: Arm, problem: Problem) -> Method:
    """The method of an arm."""
    return Sep(arm, problem, "Stochastic expectation propagation", Ep(arm.sampler.points), touching)


class Sep(StochasticSites):
    """Sites that have the moments right, given N − 1 others that are all alike."""

    def seen_under(self, precision: np.ndarray, linear: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The cavity, positive definite as P and P₀ are; the prior has no linear term."""
        n_data = self.batches.n_data
        return precision - (precision - self.prior_precision) / n_data, linear - linear / n_data
