"""The posterior as a thing that counts: log densities and derivatives, metered wherever a row is read.

One likelihood query is one L_n(θ), alone or with its derivatives. What comes from here need not be counted by
who asks, and cannot be miscounted.
"""

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from flyrun.experiments.config.arm import Arm
from flyrun.experiments.models import passes
from flyrun.experiments.models import problem as problems
from flyrun.experiments.models.features import predicted, pulled
from flyrun.experiments.models.problem import Problem

#: which rows: indices, or all
Rows = Sequence[int] | np.ndarray | None

if TYPE_CHECKING:
    from flyrun.experiments.models.metered_jax import JaxPosterior


class Posterior:
    """log p(θ | data) up to a constant, θ (P,) or θs (G, P) in coordinates without bounds; P parameters.

    names: of the coordinates, (P,).  n_data: N rows.  setup_queries: what fits of scales and MAP cost before.
    """

    def __init__(self, arm: Arm, problem: Problem):
        self.arm, self._problem = arm, problem.metered or problem
        self.names, self.n_data = problem.coordinates, len(problem.features.rows)
        self.n_params, self.setup_queries = len(self.names), problem.fit.queries
        self._queries = 0
        self._taken = 0

    @property
    def queries(self) -> int:
        """Likelihood queries until now, by NumPy's functions and JAX's."""
        if "jax" in vars(self):
            self._queries += self.jax.drain()
        return self._queries

    def taken(self) -> int:
        """Queries since this was last asked."""
        before, self._taken = self._taken, self.queries
        return self._taken - before

    @property
    def theta_map(self) -> np.ndarray:
        """The mode, (P,); empty where none was looked for, as `needs_map` says."""
        return self._problem.fit.theta_map

    def log_prior(self, theta: np.ndarray) -> np.ndarray:
        """Log prior at θ (…, P): (…). No query."""
        return self._each(lambda thetas: problems.log_priors(self._problem.prior, thetas), theta)

    def log_density(self, theta: np.ndarray) -> np.ndarray:
        """Log posterior at θ (…, P): (…). N queries a position."""

        def densities(thetas: np.ndarray) -> np.ndarray:
            prior, likelihood = problems.log_densities(self.arm, self._problem, thetas)
            return prior + likelihood

        return self._each(densities, theta, self.n_data)

    def gradient(self, theta: np.ndarray) -> np.ndarray:
        """∇ log posterior at θ (…, P): (…, P). N queries a position."""
        return self._each(lambda thetas: problems.scores(self.arm, self._problem, thetas), theta, self.n_data)

    def value_and_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Log posterior at θ (P,) and its gradient (P,). N queries."""
        self._queries += self.n_data
        return problems.value_and_score(self.arm, self._problem, np.ascontiguousarray(theta, float))

    def curvature(self, theta: np.ndarray) -> np.ndarray:
        """Minus the Hessian at θ (P,): (P, P). N queries."""
        self._queries += self.n_data
        return problems.posterior_curvature(self.arm, self._problem, np.asarray(theta, float))

    def hessian_times(self, theta: np.ndarray, vector: np.ndarray) -> np.ndarray:
        """The Hessian at θ (P,) times a vector (P,): (P,). N queries, memory for a few blocks of rows."""
        problem, code = self._problem, self.arm.model.code
        theta, vector = np.ascontiguousarray(theta, float), np.asarray(vector, float)
        self._queries += self.n_data

        def work(block: slice) -> tuple[np.ndarray]:
            eta = passes.block_predictors(problem.model, problem.features, theta, block)
            rows = problem.features.rows[block].astype(float)
            along = predicted(problem.features, rows, vector)
            curved = code.curvature(code.part(problem.model, block), eta)
            return (pulled(problem.features, rows, np.einsum("nkm,nm->nk", curved, along)),)

        (total,) = passes.added(passes.over_blocks(self.n_data, work))
        of_prior = problems.prior_curvature(self.arm, problem, theta)
        return -problem.power * total - of_prior @ vector

    def log_likelihoods(self, theta: np.ndarray, rows: Rows = None) -> np.ndarray:
        """log L_n at θ (P,) of rows, indices (n,) or all: (n,). n queries."""
        return self._of_rows(theta, rows)[0]

    def likelihood_gradient(self, theta: np.ndarray, rows: Rows = None) -> np.ndarray:
        """Σ ∇ log L_n at θ (P,) over rows, indices (n,) or all: (P,). n queries."""
        _, slopes, index = self._of_rows(theta, rows)
        features = self._problem.features
        return self._problem.power * pulled(features, features.rows[index].astype(float), slopes)

    def prior_gradient(self, theta: np.ndarray) -> np.ndarray:
        """∇ log prior at θ (…, P): (…, P). No query."""
        return self._each(lambda thetas: problems.prior_scores(self.arm, self._problem, thetas), theta)

    def draw_prior(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """n draws from the prior, (n, P)."""
        return problems.draw_prior(self._problem, rng, n)

    @functools.cached_property
    def jax(self) -> "JaxPosterior":
        """The same for JAX: functions that may be compiled, and are counted as they run. Extra `jax`."""
        from flyrun.experiments.models.metered_jax import JaxPosterior  # late: JAX takes a second

        return JaxPosterior(self.arm, self._problem)

    def _of_rows(self, theta: np.ndarray, rows: Rows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """log L_n, (n,), without the power that shards raise them to; slopes by η, (n, K); the rows."""
        index = np.arange(self.n_data) if rows is None else np.ascontiguousarray(rows, np.int64)
        self._queries += len(index)
        problem = self._problem
        values, slopes = passes.of_rows(problem.model, problem.features, index, np.asarray(theta, float))
        return problem.power * values, slopes, index

    def _each(
        self, work: Callable[[np.ndarray], np.ndarray], theta: np.ndarray, queries: int = 0
    ) -> np.ndarray:
        """work of θs (G, P), for θ of any shape (…, P)."""
        theta = np.asarray(theta, float)
        thetas = np.ascontiguousarray(theta.reshape(-1, theta.shape[-1]))
        self._queries += queries * len(thetas)
        values = work(thetas)
        return values.reshape((*theta.shape[:-1], *values.shape[1:]))[()]
