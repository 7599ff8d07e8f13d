"""Gaussian variational inference from batches of rows: natural gradients of KL(q‖p) (Khan & Lin 2017)."""

from flyrun.models.problem import Problem
from flyrun.samplers.approximations.kl_gaussian import KlGaussian
from flyrun.samplers.approximations.sites import touching
from flyrun.samplers.approximations.stochastic import StochasticSites
from flyrun.samplers.method import Arm, Method


def build(arm: Arm, problem: Problem) -> Method:
    """The method of an arm."""
    label = "Stochastic Gaussian variational inference"
    return StochasticSites(arm, problem, label, KlGaussian(arm.sampler.points), touching)
