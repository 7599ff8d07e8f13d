"""What is made of a problem before any chain: curvatures and bounds. Every pass over the data counts."""

from functools import cached_property
from typing import Any

import numpy as np

from flyrun.models import passes
from flyrun.models.problem import Problem, posterior_curvature


class Setup:
    """A problem and the queries of what was made of it: N for each pass that looks at every likelihood."""

    def __init__(self, arm: Any, problem: Problem):
        self.arm, self.problem, self.module = arm, problem, arm.model.code
        self.n_data, n_features = problem.features.rows.shape
        self.n_params = n_features * problem.model.n_predictors
        self.queries = 0

    @cached_property
    def curvature(self) -> np.ndarray:
        """The posterior's at the MAP, (P, P)."""
        return self.curvature_at(self.problem.fit.theta_map)

    def curvature_at(self, theta: np.ndarray) -> np.ndarray:
        """The posterior's at θ, (P, P)."""
        self.queries += self.n_data
        return posterior_curvature(self.arm, self.problem, theta)

    def touching(self, theta: np.ndarray) -> Any:
        """Bounds tight at θ."""
        self.queries += self.n_data
        return passes.touching_bound(self.module, self.problem.model, self.problem.features, theta)

    def collapse(self, bound: Any) -> Any:
        """The pseudo-prior: the prior times all bounds."""
        collapsed = self.module.collapse(bound, self.problem.model, self.problem.features)
        return self.arm.prior.code.pseudo_prior(self.problem.prior, collapsed)
