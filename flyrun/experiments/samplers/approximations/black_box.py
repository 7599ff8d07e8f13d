"""Black-box variational inference: Adam drives a Gaussian up a noisy gradient of the bound."""

from abc import abstractmethod
from typing import Any

import numpy as np

from flyrun.experiments.models.problem import Problem
from flyrun.experiments.models.shard_prior import priors_of
from flyrun.experiments.samplers.approximations.method import GaussianAnswer
from flyrun.experiments.samplers.batches import batches_of
from flyrun.experiments.samplers.method import Arm, Records, State
from flyrun.ground.numerics.adam import Adam, refuse_lost
from flyrun.ground.numerics.state import generator, generator_state, seeded

_NARROW = 0.1  # of the prior's sd: how wide the first Gaussian is


class BlackBox(GaussianAnswer):
    """A step is S draws of θ at a batch of b rows, or at all: S·b queries, b visits.

    Derive from it: `gradient` and `gaussian`; of the parameters, one flat array, means and log sds are first.
    """

    remedy = "a smaller sampler.rate"

    def __init__(self, arm: Arm, problem: Problem):
        super().__init__(arm, problem)
        self.n_draws = arm.sampler.draws
        self.batches = batches_of(arm, len(problem.features.rows))
        self.adam = Adam(self.config.rate, decay=self.config.decay)

    def first(self) -> np.ndarray:
        """The first parameters, (2P,): at 0, a tenth of the prior's sd wide."""
        penalty = priors_of(self.arm).penalty(self.problem.prior)
        log_sd = np.log(_NARROW) - 0.5 * np.log(penalty.ridge + 0.5 * penalty.rate**2)
        return np.concatenate([np.zeros(self.n_params), np.full(self.n_params, log_sd)])

    @abstractmethod
    def gradient(
        self, at: np.ndarray, rows: np.ndarray | None, rng: np.random.Generator
    ) -> tuple[np.ndarray, float]:
        """Noisy slope of the bound and its value, by rows (b,) that stand for all, or by all (None)."""

    @abstractmethod
    def gaussian(self, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean, (P,), and root R of the covariance RRᵀ, (P, P)."""

    def init(self, seed: int, needed: tuple[Any, ...] = ()) -> State:
        """The same Gaussian for every seed; its luck is its own."""
        rng, at = seeded(seed, self.arm.method()), self.first()
        key, step = rng.integers(1 << 62, size=1), np.zeros(1, np.int64)
        moments = {"slope": np.zeros_like(at), "square": np.zeros_like(at)}
        return {"at": at, **moments, "key": key, "step": step, "rng": generator_state(rng)}

    def advance(self, state: State, n: int) -> tuple[State, Records]:
        """n more steps. FlyrunError where the slope is not finite."""
        rng, key, first = generator(state["rng"]), int(state["key"][0]), int(state["step"][0])
        at, slope, square = (state[name] for name in ("at", "slope", "square"))
        visits, bound = np.zeros(n), np.zeros(n)
        for i in range(n):
            rows = None if self.config.batch is None else self.batches.rows(first + i, rng, key)
            gradient, bound[i] = self.gradient(at, rows, rng)
            refuse_lost(gradient, first + i + 1, self.label)
            at, slope, square = self.adam.climbed(at, gradient, slope, square, first + i + 1)
            visits[i] = self.batches.n_data if rows is None else len(rows)
        moved = {"at": at, "slope": slope, "square": square, "step": state["step"] + n}
        records = {"queries": self.n_draws * visits, "visits": visits, "elbo": bound}
        return {**state, **moved, "rng": generator_state(rng)}, records

    def result(self, state: State) -> dict[str, np.ndarray]:
        mean, root = self.gaussian(state["at"])
        return {"mean": mean, "covariance": root @ root.T}
