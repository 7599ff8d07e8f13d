"""What is made of a problem before any chain: curvatures and bounds. Every pass over the data counts."""

from functools import cached_property
from typing import Any

import numpy as np

from flyrun.experiments.models import local_bounds, passes
from flyrun.experiments.models.base_density import dense
from flyrun.experiments.models.collapse import collapse
from flyrun.experiments.models.factors import Gaussian
from flyrun.experiments.models.features import n_params
from flyrun.experiments.models.problem import Problem, look_at_map, posterior_curvature, prior_curvature
from flyrun.experiments.models.shard_prior import priors_of
from flyrun.experiments.samplers.chain.surrogate import taylor
from flyrun.experiments.samplers.chain.surrogate.remainder import Remainder, by_leverages, remainder
from flyrun.experiments.samplers.method import Arm, near
from flyrun.ground.errors import DensityError

EP_PASSES = 3


class Setup:
    """A problem and the queries of what was made of it: N for each pass that looks at every likelihood."""

    def __init__(self, arm: Arm, problem: Problem):
        self.arm, self.problem, self.module = arm, problem, arm.model.code
        self.n_data = len(problem.features.rows)
        self.n_params = n_params(problem.features, problem.model.n_predictors)
        self.queries = 0
        self.mass_beyond = np.nan  # of bounds of two levels: the most that lies beyond the border, if known
        self._surrogates: dict[int, taylor.Surrogate] = {}

    @cached_property
    def look(self) -> passes.Look:
        """The likelihood about the MAP, to second order."""
        self.queries += self.n_data
        return look_at_map(self.arm, self.problem)

    @cached_property
    def curvature(self) -> np.ndarray:
        """The posterior's at the MAP, (P, P)."""
        return prior_curvature(self.arm, self.problem) + self.problem.power * self.look.curvature

    @cached_property
    def lower(self) -> np.ndarray:
        """L, (P, P): LLᵀ is the curvature. Raises DensityError where there is none."""
        try:
            return np.linalg.cholesky(self.curvature)
        except np.linalg.LinAlgError:
            raise DensityError(
                "the log density does not bend down every way from where the search for the mode ended, "
                "so there is no Gaussian to shape steps by: choose sampler.metric=identity"
            ) from None

    @cached_property
    def unit(self) -> float:
        """What a round step's first guess counts in: the sd of the coordinates' mean curvature at the MAP; 1
        where there is no MAP."""
        if not self.problem.fit.theta_map.size:
            return 1.0
        mean = np.trace(self.curvature) / self.n_params
        return float(mean**-0.5) if mean > 0.0 else 1.0

    @cached_property
    def ep(self) -> Gaussian:
        """Of expectation propagation, from the MAP."""
        method, state, queries = near(self.arm.sampler.inner_arms(self.arm)[0], self.problem, EP_PASSES)
        self.queries += queries
        return method.answer(state)

    def curvature_at(self, theta: np.ndarray) -> np.ndarray:
        """The posterior's at θ, (P, P)."""
        self.queries += self.n_data
        return posterior_curvature(self.arm, self.problem, theta)

    def touching(self, theta: np.ndarray) -> Any:
        """Bounds tight at θ, (P,)."""
        self.queries += self.n_data
        return passes.touching_bound(self.module, self.problem.model, self.problem.features, theta)

    def collapse(self, bound: Any) -> Any:
        """The pseudo-prior: the prior times all bounds, those of two levels about the same centre."""
        theta_map = self.problem.fit.theta_map
        centre = theta_map if theta_map.size else np.zeros(self.n_params)
        if not hasattr(bound, "region"):
            product = self._times_prior(bound, centre)
            # without a MAP only now is it known where it peaks
            return product if theta_map.size else self._times_prior(bound, dense(product).top())
        within = self._times_prior(bound, centre)
        if priors_of(self.arm).penalty(self.problem.prior).rate == 0.0:  # Gaussian
            self.mass_beyond = local_bounds.mass_beyond(bound, dense(within).precision)
        return local_bounds.TwoLevels(within, self._times_prior(bound.beyond, centre), bound.region)

    def _times_prior(self, bound: Any, centre: np.ndarray) -> Any:
        collapsed = collapse(bound, self.problem.model, self.problem.features, centre)
        try:
            return priors_of(self.arm).pseudo_prior(self.problem.prior, collapsed)
        except np.linalg.LinAlgError:
            raise DensityError(
                "the product of the bounds is so much narrower one way than another that it has no digits; "
                "choose bound=none brightness=none"
            ) from None

    def surrogate(self, order: int) -> taylor.Surrogate:
        """The likelihood's Taylor polynomial at the MAP; for order 3 one more pass sums the cubic."""
        if order not in self._surrogates:
            problem, lower, cubic = self.problem, self.lower, None
            if order == 3:
                self.queries += self.n_data
                at = self.module, problem.model, problem.features, self._predictors
                cubic = taylor.cube(*at, taylor.coloured(lower))
            look, mean = self.look, problem.fit.theta_map
            self._surrogates[order] = taylor.surrogate(
                order, mean, lower, look.gradient, look.curvature, self._predictors, cubic
            )
        return self._surrogates[order]

    @cached_property
    def _predictors(self) -> np.ndarray:
        """η_n at the MAP, (N, K): no likelihood is looked at."""
        problem = self.problem
        return taylor.predictors_at(problem.model, problem.features, problem.fit.theta_map)

    @cached_property
    def roots_of_leverages(self) -> np.ndarray:
        """s_n, (N,): by how much a datum's predictors move at most when the whitened θ moves by 1."""
        colour = taylor.coloured(self.lower)
        return taylor.leverages(self.problem.model, self.problem.features, colour)

    def remainder(self, order: int, kind: str = "local") -> Remainder:
        """Bounds of what the surrogate leaves out.

        kind: a constant for each datum (local), one for all (global), or this one in Cornish et al.'s form,
        where they are by leverages; a model may have bounds of its own.
        """
        module, problem = self.module, self.problem
        if hasattr(module, "data_bounds"):
            at = problem.model, self.problem.fit.theta_map, order
            return remainder(*module.data_bounds(*at))
        kappa = module.remainder_constants(problem.model, self._predictors, order, kind == "local")
        return by_leverages(order, kappa, self.roots_of_leverages, kind == "cornish")
