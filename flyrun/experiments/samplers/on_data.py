"""What methods of a model of rows share: data, model and prior bound, the fits' costs, and what draws say.

A package's module derives from this class at its top, and every command imports it: what a problem needs
(Numba, SciPy) is imported where it is used.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from flyrun.experiments.samplers.method import Facts, Method, State, first_step
from flyrun.ground.errors import ConfigError
from flyrun.ground.numerics.state import seeded

if TYPE_CHECKING:
    from flyrun.experiments.config.arm import Arm
    from flyrun.experiments.models.metered import Posterior
    from flyrun.experiments.models.problem import Problem


class OnData(Method):
    """Derive from it: `init`, `advance`, `label`, `exact`; `more` for facts of its own.

    own_queries, own_seconds: what setting it up cost besides the fits.
    """

    unit = "step"
    shown: tuple[str, ...] = ("{queries} queries/step",)
    label = ""
    exact = False
    own_queries, own_seconds = 0, 0.0
    warm_up = first_step

    def __init__(self, arm: Arm, problem: Problem):
        self.arm, self.problem, self.config = arm, problem, arm.sampler
        self.n_data, self.n_params = len(problem.features.rows), len(problem.coordinates)

    @functools.cached_property
    def density(self) -> Posterior:
        """The log posterior and its derivatives, which count what is read."""
        from flyrun.experiments.models.metered import Posterior  # late, as above

        return Posterior(self.arm, self.problem)

    def starting_point(self, seed: int) -> np.ndarray:
        """θ = 0, the MAP, or a draw from the prior, (P,), the same for every arm of a seed."""
        init, theta_map = self.arm.protocol.init, self.problem.fit.theta_map
        if init == "prior":
            from flyrun.experiments.models.problem import draw_prior  # late

            return draw_prior(self.problem, seeded(seed), 1)[0]
        if init == "zero":
            return np.zeros(self.n_params)
        if init == "map" and theta_map.size:
            return theta_map.copy()
        what = "fits no MAP" if init == "map" else "does not start from expectation propagation"
        name = self.arm.sampler.name
        raise ConfigError(f"protocol.init={init}: sampler={name} {what}; choose protocol.init=prior or zero")

    def trace(self, theta: np.ndarray) -> dict[str, np.ndarray]:
        """Log posterior and log likelihood at stored positions, theta (G, P). After the run: not charged."""
        from flyrun.experiments.models.problem import log_densities  # late

        prior, likelihood = log_densities(self.arm, self.problem, theta)
        return {"log_posterior": prior + likelihood, "log_likelihood": likelihood}

    def of_draws(self, theta: np.ndarray) -> dict[str, np.ndarray]:
        """θ, θ² and what the model adds, of draws (n, P)."""
        from flyrun.experiments.models.problem import of_positions  # late

        return of_positions(self.arm, self.problem, theta)

    def more(self, state: State | None) -> dict[str, Any]:
        """Facts of this method's own; with the last state, those that are known then."""
        return {}

    def facts(self, state: State | None = None) -> Facts:
        """Sizes, exactness, what setting it up cost, and `more`."""
        fit = self.problem.fit
        return Facts(
            update=self.label,
            exact=self.exact,
            coordinates=self.problem.coordinates,
            n_data=self.n_data,
            n_params=self.n_params,
            setup_queries=fit.queries + self.own_queries,
            setup_s=fit.seconds + self.own_seconds,
            more={"prior_scale": fit.scale, "map_queries": fit.queries, **self.more(state)},
        )
