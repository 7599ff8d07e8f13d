"""Posteriors on which samplers are compared: logistic regression, every coefficient N(0, scale²)."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from flyrun.config.dataset.row_data import Mnist7v9, Tall
from flyrun.config.prior import Gaussian
from flyrun.data import load


@dataclass(frozen=True)
class Fit:
    """Posterior mode (D,), a root of the inverse curvature there (D, D), and what finding them took."""

    mode: np.ndarray
    root: np.ndarray
    seconds: float
    evaluations: float


@dataclass(frozen=True, eq=False)
class Problem:
    """rows (N, D), t·x, the constant's column included; what flyrun is given for the same."""

    name: str
    dataset: Any
    prior: Any
    rows: np.ndarray

    @cached_property
    def fit(self) -> Fit:
        """By Newton's method, from zero; in the rows' precision."""
        begin, precision = time.perf_counter(), 1.0 / self.prior.scale**2
        n_data, size = self.rows.shape
        theta = np.zeros(size)
        evaluations = 0.0
        for _ in range(50):
            evaluations += n_data
            share = 1.0 / (1.0 + np.exp(self.rows @ theta.astype(self.rows.dtype)))
            slope = share @ self.rows - precision * theta
            curvature = (self.rows.T * (share * (1.0 - share))) @ self.rows + precision * np.eye(size)
            move = np.linalg.solve(curvature, slope)
            theta += move
            if np.abs(move).max() < 1e-4:
                break
        root = np.linalg.inv(np.linalg.cholesky(curvature)).T
        return Fit(theta, root, time.perf_counter() - begin, evaluations)

    def start(self, seed: int) -> np.ndarray:
        """A draw of the Gaussian of the posterior's curvature at its mode, (D,): where every chain begins."""
        away = np.random.default_rng(seed).standard_normal(len(self.fit.mode))
        return self.fit.mode + self.fit.root @ away


def problem(name: str) -> Problem:
    """By name: mnist, tall_1e4, tall_1e5, …"""
    of_size = name.removeprefix("tall_")
    dataset = Mnist7v9() if name == "mnist" else Tall(n_data=int(float(of_size)))
    data = load(dataset)
    # folded rows are t·x already
    rows = np.asarray(data.features) if data.folded else data.features * data.target[:, None]
    return Problem(name, dataset, Gaussian(scale=1.0), rows)
