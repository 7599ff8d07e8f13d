"""Twelve posteriors of two parameters, where samplers have gone wrong, and exact draws from them by a grid.

Their densities are formulas that share no code with the models.
"""

from functools import cached_property
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_ndtr

from flyrun.experiments.config.prior import Gaussian, Laplace
from flyrun.families.options import Logistic, Probit, StudentT
from flyrun.tables.dataset import Dataset

NODES = 801  # along each axis
DEEP = 40.0  # nats below the top: beyond lies nothing


class Posterior:
    """Rows (N, 2), a target (N,), a model and a prior, both as their options."""

    def __init__(self, name: str, rows: np.ndarray, target: np.ndarray, model: Any, prior: Any):
        self.name, self.rows, self.target = name, np.ascontiguousarray(rows), np.asarray(target, float)
        self.model, self.prior = model, prior

    def dataset(self) -> Dataset:
        """As a loader gives it."""
        none = np.empty((0, 2)), np.empty(0)
        return Dataset(self.name, self.rows, self.target, *none, ("a", "b"), self.name, task=self.model.task)

    def log_density(self, theta: np.ndarray) -> np.ndarray:
        """Up to a constant, (…,), at θ (…, 2)."""
        scaled = theta / self.prior.scale
        value = -np.abs(scaled).sum(-1) if self.prior.name == "laplace" else -0.5 * (scaled**2).sum(-1)
        for x, y in zip(self.rows, self.target, strict=True):
            eta = theta[..., 0] * x[0] + theta[..., 1] * x[1]
            if self.model.name == "student_t":
                square = ((y - eta) / self.model.scale) ** 2
                value -= 0.5 * (self.model.nu + 1.0) * np.log1p(square / self.model.nu)
            elif self.model.name == "probit":
                value += log_ndtr(y * eta)
            else:
                value -= np.logaddexp(0.0, -y * eta)
        return value

    @cached_property
    def _grid(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Centre, root and half widths of a box in which the density is, and its cumulated masses."""
        centre, root = self._about_top()
        half = np.full(2, 8.0)
        for _ in range(30):
            z = self._nodes(half, 161)
            theta = centre + z @ root.T
            log_p = self.log_density(theta)
            mass = np.exp(log_p - log_p.max())
            mass /= mass.sum()
            mean = np.tensordot(mass, z, 2)
            spread = np.einsum("ij,ijk,ijl->kl", mass, z - mean, z - mean) + np.diag((half / 80.0) ** 2 / 3.0)
            centre, new = centre + root @ mean, root @ np.linalg.cholesky(spread)
            deep = (theta - centre)[log_p > log_p.max() - DEEP] @ np.linalg.inv(new).T
            wanted = np.clip(1.05 * np.abs(deep).max(axis=0), 8.0, 400.0) if len(deep) > 9 else 2.5 * half
            settled = np.all(np.abs(wanted / half - 1.0) < 0.08) and np.allclose(spread, np.eye(2), atol=0.05)
            root, half = new, wanted
            if settled:
                break
        log_p = self.log_density(centre + self._nodes(half, NODES) @ root.T)
        mass = np.exp(log_p - log_p.max())
        edges = mass[[0, -1]].sum() + mass[:, [0, -1]].sum()
        assert edges < 1e-6 * mass.sum(), f"{self.name}: cut off"
        return centre, root, half, np.cumsum(mass)

    @staticmethod
    def _nodes(half: np.ndarray, count: int) -> np.ndarray:
        axes = (np.linspace(-one, one, count) for one in half)
        return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)

    def _about_top(self) -> tuple[np.ndarray, np.ndarray]:
        """The mode and the root of a covariance like the posterior's."""
        bend = 0.25 if self.model.name != "student_t" else self.model.scale**-2.0
        aim = self.target * (2.0 if self.model.name != "student_t" else 1.0)
        precision = bend * self.rows.T @ self.rows + np.eye(2) / self.prior.scale**2
        root = np.linalg.inv(np.linalg.cholesky(precision)).T
        start = np.linalg.solve(precision, bend * self.rows.T @ aim)
        found = minimize(lambda z: -self.log_density(start + root @ z), np.zeros(2), method="Nelder-Mead")
        return start + root @ found.x, root

    def draws(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Exact but for the cells' width, (count, 2)."""
        centre, root, half, cumulated = self._grid
        cell = np.searchsorted(cumulated, rng.random(count) * cumulated[-1])
        place = np.stack(np.divmod(cell, NODES), axis=1) + rng.random((count, 2)) - 0.5
        return centre + (half * (2.0 * place / (NODES - 1) - 1.0)) @ root.T

    @cached_property
    def scales(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and sd, (2,) each, to about a hundredth of the latter."""
        drawn = self.draws(20_000, np.random.default_rng(0))
        return drawn.mean(axis=0), drawn.std(axis=0)


def library() -> list[Posterior]:
    """The twelve."""
    rng, beta = np.random.default_rng(12), np.array([1.0, -0.5])

    def rows(count: int) -> np.ndarray:
        return np.c_[rng.normal(size=count), np.ones(count)]

    def labels(x: np.ndarray) -> np.ndarray:
        y = np.where(rng.random(len(x)) < 1.0 / (1.0 + np.exp(-x @ beta)), 1.0, -1.0)
        y[:2] = 1.0, -1.0
        return y

    def noisy(x: np.ndarray, scale: float, nu: float = 4.0) -> np.ndarray:
        return x @ beta + scale * rng.standard_t(max(nu, 2.0), len(x))

    lever = rows(10)
    lever[3, 0] = 1e3
    apart, twice, some, few = rows(8), np.repeat(rows(3), 10, axis=0), rows(40), rows(2)
    mixed = np.tile([1.0, -1.0, 1.0, 1.0, -1.0, 1.0, 1.0, 1.0, -1.0, 1.0], 3)
    outlier = np.r_[rows(40), 30.0 * rows(1)]
    contrary = labels(outlier)
    contrary[-1] = -np.sign(outlier[-1] @ beta)
    stray = noisy(some, 0.5)
    stray[:4] += 30.0
    far = some @ [2.0, 1e7] + rng.standard_t(4, 40)
    sharp = np.random.default_rng(13)
    narrow = some[:12] @ beta + 1e-8 * sharp.standard_t(4, 12)
    return [
        Posterior("leverage", lever, labels(lever), Logistic(), Gaussian(scale=1.0)),
        Posterior("two rows", few, np.array([1.0, -1.0]), Logistic(), Gaussian(scale=1.0)),
        Posterior("separable", apart, np.sign(apart[:, 0]), Logistic(), Laplace(scale=2.0)),
        Posterior("duplicates", twice, mixed, Logistic(), Laplace(scale=0.5)),
        Posterior("one class", apart, np.ones(8), Probit(), Gaussian(scale=2.0)),
        Posterior("outlier", outlier, contrary, Probit(), Gaussian(scale=1.0)),
        Posterior("duplicates, probit", twice, mixed, Probit(), Laplace(scale=0.5)),
        Posterior("far target", some, far, StudentT(scale=1.0), Gaussian(scale=1e8)),
        Posterior(
            "heavy tails",
            some[:12],
            noisy(some[:12], 0.7, 1.0),
            StudentT(nu=1.0, scale=0.7),
            Gaussian(scale=2.0),
        ),
        Posterior("tiny noise", some[:12], narrow, StudentT(scale=1e-8), Gaussian(scale=2.0)),
        Posterior("tiny noise, corners", some[:12], narrow, StudentT(scale=1e-8), Laplace(scale=1.0)),
        Posterior("outliers", some, stray, StudentT(scale=0.5), Laplace(scale=0.1)),
    ]
