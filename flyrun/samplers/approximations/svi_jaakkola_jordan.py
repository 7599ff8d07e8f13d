"""Stochastic variational inference of logistic regression with the bounds of Jaakkola & Jordan (1997).

The bounds are those that are tight where the Gaussian of the last step has each row; conditionally conjugate,
so that natural gradients are the bounds' sums (Hoffman, Blei, Wang & Paisley 2013). They are too narrow: so
is the Gaussian that they end in.
"""

import numpy as np

from flyrun.models.factors import Factors, Gaussians
from flyrun.models.problem import Problem
from flyrun.samplers.approximations.jaakkola_jordan import JaakkolaJordan
from flyrun.samplers.approximations.sites import Sites
from flyrun.samplers.approximations.stochastic import StochasticSites
from flyrun.samplers.method import Arm, Method


def build(arm: Arm, problem: Problem) -> Method:
    """The method of an arm."""
    return StochasticSites(arm, problem, "SVI, Jaakkola-Jordan", JaakkolaJordan(), bounds_at)


def bounds_at(factors: Factors, u: np.ndarray) -> Sites:
    """The bounds tight at u, (n, 1). A query of each row."""
    known = Gaussians(u, np.zeros((len(u), 1, 1)))
    return JaakkolaJordan().of_rows(factors, known, Sites(known.variance, u)).sites
