"""Stochastic variational inference (Hoffman, Blei, Wang & Paisley 2013): Algorithm 17 of the survey.

λ ← (1 − ρ)λ + ρ(λ₀ + (N/b) Σ E t(z_n, x_n)), each q(z_n) of the batch the best one. With all rows a step and
steps of 1 (decay 0) it is coordinate ascent.
"""

import numpy as np

from flyrun.experiments.samplers.approximations.stochastic import size_of
from flyrun.experiments.samplers.hierarchies.method import OfHierarchies
from flyrun.experiments.samplers.method import State


class Svi(OfHierarchies):
    """ρ_t = rate·(delay + t)^−decay."""

    label = "SVI"

    def learn(self, rng: np.random.Generator, state: State, index: np.ndarray, t: int) -> int:
        rho = size_of(self.arm.sampler, self.batches, t)
        statistics = self.model.local(state["natural"], index).statistics
        state["natural"] += rho * (self.model.prior + self.batches.factor * statistics - state["natural"])
        return len(index)


build = Svi
