"""Streaming variational Bayes (Broderick et al. 2013) of global and local variables, with stale workers.

λ ← λ + (A(batch, λ_τ) − λ_τ): A is coordinate ascent on the batch's rows under the prior λ_τ, which the
batches before the last `stale` have made (Algorithms 19 and 20 of the survey; its (5.49) lacks −λ_τ). Workers
that have seen nothing begin where all arms of a seed do, so that their components are the same ones.
"""

import numpy as np

from flyrun.samplers.hierarchies.method import OfHierarchies
from flyrun.samplers.method import State


class StreamingVi(OfHierarchies):
    """`made` has λ after each of the last stale + 1 batches, that of j batches at j modulo their number."""

    label = "Streaming variational Bayes"

    def more_state(self, natural: np.ndarray) -> State:
        return {"begin": natural, "made": np.tile(self.model.prior, (self.arm.sampler.stale + 1, 1))}

    def rows(self, rng: np.random.Generator, key: int, t: int) -> np.ndarray:
        """None after the last batch."""
        return super().rows(rng, key, t)[: self.model.n_data if t < self.batches.in_epoch else 0]

    def learn(self, rng: np.random.Generator, state: State, index: np.ndarray, t: int) -> int:
        made, stale = state["made"], self.arm.sampler.stale
        seen = made[max(0, t - stale) % len(made)]
        at = state["begin"] if t <= stale else seen
        for _ in range(self.arm.sampler.inner):
            at = seen + self.model.local(at, index).statistics
        state["natural"] = made[t % len(made)] + at - seen
        made[(t + 1) % len(made)] = state["natural"]
        return self.arm.sampler.inner * len(index)


build = StreamingVi
