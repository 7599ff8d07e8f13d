"""A posterior in closed form for methods of particles, which need no more of a model than this."""

from types import SimpleNamespace

import numpy as np

from flyrun.experiments.config.sampler.particles import Pmd
from flyrun.experiments.samplers.particles import pmd


class Normal:
    """x_n ~ N(θ, I), θ ~ N(0, 1/prior I): (P,) each. grid: particles stand there, evenly."""

    coordinates = ("theta",)

    def __init__(self, x, prior=1.0, grid=None):
        self.x, self.prior, self.grid = x, prior, grid
        self.n_data, self.n_params = x.shape
        self.fit = SimpleNamespace(queries=0, seconds=0.0, scale=prior**-0.5)
        self.looked = 0

    def draw(self, rng, m):
        if self.grid is not None:
            return self.grid
        return rng.standard_normal((m, self.n_params)) / np.sqrt(self.prior)

    def log_prior(self, theta):
        constant = 0.5 * self.n_params * np.log(self.prior / (2 * np.pi))
        return constant - 0.5 * self.prior * (theta**2).sum(axis=1)

    def log_likelihood(self, theta, rows):
        self.looked += len(rows) * len(theta)
        return -0.5 * ((self.x[rows] - theta[:, None]) ** 2).sum(axis=(1, 2))

    def expectations(self, theta, weight):
        return {"mean": weight @ theta, "square": weight @ theta**2}

    @property
    def precision(self):
        return self.n_data + self.prior

    @property
    def mean(self):
        return self.x.sum(axis=0) / self.precision


def descent(target, iterations=1000, **options):
    """Mirror descent on it."""
    sampler = Pmd(**options)
    arm = SimpleNamespace(
        name="toy",
        sampler=sampler,
        protocol=SimpleNamespace(iterations=iterations, extend=False),
        method=sampler.settings,
    )
    return pmd.build(arm, target)


def same_bits(method, cuts, seed=0):
    """State and records of so many steps at once are those of the same steps cut anywhere."""
    total = sum(cuts)
    whole, told = method.advance(method.init(seed), total)
    state, parts = method.init(seed), []
    for n in cuts:
        state, records = method.advance({name: np.array(value) for name, value in state.items()}, n)
        parts.append(records)
    for name, values in whole.items():
        np.testing.assert_array_equal(state[name], values, err_msg=name)
    for name, values in told.items():
        np.testing.assert_array_equal(np.concatenate([part[name] for part in parts]), values, err_msg=name)
