"""The family of particles: what its methods share, and which is asked for. A step is a batch or a stage."""

import time
from pathlib import Path
from typing import Any

import numpy as np

from flyrun.experiments.samplers.method import Arm, Facts, Method, State
from flyrun.experiments.samplers.particles.target import Rows, Target
from flyrun.experiments.samplers.particles.weights import normalised
from flyrun.ground.numerics.kernels import log_density
from flyrun.ground.numerics.resampling import effective

REMEDY = "take a smaller sampler.eta, a larger sampler.t0, or sampler.adaptive=0.5"


def prepare(arm: Arm, folder: Path) -> Method:
    """Data and model bound; DataError or ConfigError as bind's."""
    return arm.sampler.build(arm, Rows(arm, folder))


class Weighted(Method):
    """Particles `theta` (m, P) with `log_weight` (m,) in its state."""

    answers = "weighted"
    unit = "step"
    shown: tuple[str, ...] = ("{ess} effective", "{queries} queries/batch")
    update, exact, remedy = "", False, REMEDY

    def __init__(self, arm: Arm, target: Target):
        self.arm, self.target = arm, target

    @property
    def parts(self) -> tuple[Any, ...]:
        """Nothing but the data is set up."""
        return getattr(self.target, "problem", ())[1:4]

    def warm_up(self) -> float:
        """Compile for two particles and a row."""
        started = time.perf_counter()
        theta = self.target.draw(np.random.default_rng(0), 2)
        self.target.log_prior(theta)
        self.target.log_likelihood(theta, np.zeros(1, np.int64))
        self.target.expectations(theta, np.full(2, 0.5))
        log_density(theta, theta, np.full(2, np.log(0.5)), np.ones(theta.shape[1]))
        return time.perf_counter() - started

    def weights(self, state: State) -> np.ndarray:
        """(m,), of sum 1."""
        return normalised(state["log_weight"], int(state["step"][0]), self.remedy)

    def estimates(self, state: State) -> dict[str, np.ndarray]:
        """By the weights, (m,), and the effective number of particles."""
        weight = self.weights(state)
        moments = self.target.expectations(state["theta"], weight)
        return moments | {"effective": np.array(effective(weight))}

    def result(self, state: State) -> dict[str, np.ndarray]:
        return {name: state[name] for name in ("theta", "log_weight")}

    def facts(self, state: State | None = None) -> Facts:
        fit = self.target.fit
        return Facts(
            update=self.update,
            exact=self.exact,
            coordinates=self.target.coordinates,
            n_data=self.target.n_data,
            n_params=self.target.n_params,
            setup_queries=fit.queries,
            setup_s=fit.seconds,
            more={"prior_scale": fit.scale},
        )
