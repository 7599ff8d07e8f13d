"""Exact moments of small problems, for tests of approximations."""

import numpy as np

from flyrun.experiments.gold.reference import arm_of
from flyrun.experiments.models.problem import log_densities
from flyrun.experiments.samplers.method import prepare

DATA = ["dataset=toy_2d", "dataset.n_data=60", "dataset.separation=1.5"]
WORDS = [*DATA, "model=logistic", "prior=gaussian"]


def method_of(tmp_path, *more, words=WORDS):
    """The method of an arm."""
    return prepare(arm_of(words, more), tmp_path)


def after(method, n):
    """Its result after n steps."""
    return method.result(method.advance(method.init(0), n)[0])


def by_grid(tmp_path, words=WORDS):
    """Mean, covariance and log evidence of three parameters."""
    method = method_of(tmp_path, "sampler=kl_gaussian", words=words)
    found = after(method, 1)
    sd = np.sqrt(np.diag(found["covariance"]))
    axes = [c + s * np.linspace(-6, 7, 53) for c, s in zip(method.problem.fit.theta_map, sd, strict=True)]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
    log_p = sum(log_densities(method.arm, method.problem, grid))
    weight = np.exp(log_p - log_p.max())
    log_z = np.log(weight.sum() * np.prod([axis[1] - axis[0] for axis in axes])) + log_p.max()
    weight /= weight.sum()
    mean = weight @ grid
    return mean, (grid - mean).T @ ((grid - mean) * weight[:, None]), log_z
