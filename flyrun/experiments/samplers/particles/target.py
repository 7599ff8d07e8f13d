"""What a method of particles needs of a model, and models of rows seen so."""

from pathlib import Path
from typing import Protocol

import numpy as np

from flyrun.experiments.config.arm import Arm
from flyrun.experiments.models import passes
from flyrun.experiments.models.problem import Fit, bind, draw_prior, log_priors, of_positions
from flyrun.ground import mapped


class Target(Protocol):
    """A posterior of N rows. Particles are (m, P)."""

    n_data: int
    n_params: int
    coordinates: tuple[str, ...]
    fit: Fit  # scales that were held out, and what that cost

    def draw(self, rng: np.random.Generator, m: int) -> np.ndarray:
        """m draws, (m, P), from the prior."""
        ...

    def log_prior(self, theta: np.ndarray) -> np.ndarray:
        """Log prior density, (m,)."""
        ...

    def log_likelihood(self, theta: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Σ log p(x_n | θ) over some rows, (b,) indices: (m,). m·b queries, which the caller counts."""
        ...

    def expectations(self, theta: np.ndarray, weight: np.ndarray) -> dict[str, np.ndarray]:
        """E f by name, under weights (m,) of sum 1: what is handed in."""
        ...


class Rows:
    """Any model of rows with its prior: logistic, softmax, robust regression, the mixture."""

    def __init__(self, arm: Arm, folder: Path):
        self.arm, self.problem = arm, bind(arm, folder, needs_map=False)
        problem = self.problem
        self.n_data = len(problem.features.rows)
        self.coordinates = problem.coordinates
        self.n_params, self.fit = len(self.coordinates), problem.fit
        mapped.expect(problem.features.rows, random=True)

    def draw(self, rng: np.random.Generator, m: int) -> np.ndarray:
        """As in the protocol, (m, P), and so the next three."""
        return draw_prior(self.problem, rng, m)

    def log_prior(self, theta: np.ndarray) -> np.ndarray:
        """(m,)."""
        return log_priors(self.problem.prior, theta)

    def log_likelihood(self, theta: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """(m,)."""
        return passes.sums_over(self.problem.model, self.problem.features, rows, theta)

    def expectations(self, theta: np.ndarray, weight: np.ndarray) -> dict[str, np.ndarray]:
        """Of θ, θ² and the model's own, of particles (m, P) with weights (m,)."""
        return of_positions(self.arm, self.problem, theta, weight)
