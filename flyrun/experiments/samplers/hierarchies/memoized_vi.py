"""Memoized variational inference (Hughes & Sudderth 2013): statistics of batches are kept and replaced.

λ = λ₀ + Σ_b S_b over fixed batches; a step works S_b out anew and puts it in the old one's place. There is no
step size, and from the second pass on the bound never falls, as in coordinate ascent.
"""

import numpy as np

from flyrun.experiments.samplers.hierarchies.method import OfHierarchies
from flyrun.experiments.samplers.method import State


class MemoizedVi(OfHierarchies):
    """In the first pass batches that were not seen add nothing."""

    label = "Memoized VI"

    def more_state(self, natural: np.ndarray) -> State:
        """sums: S_b, (B, M)."""
        return {"sums": np.zeros((self.batches.in_epoch, len(self.model.prior)))}

    def rows(self, rng: np.random.Generator, key: int, t: int) -> np.ndarray:
        """Indices, (B,), of the first epoch, whenever their batch comes."""
        return super().rows(rng, key, t % self.batches.in_epoch)

    def learn(self, rng: np.random.Generator, state: State, index: np.ndarray, t: int) -> int:
        sums = state["sums"]
        sums[t % len(sums)] = self.model.local(state["natural"], index).statistics
        state["natural"] = self.model.prior + sums.sum(axis=0)
        return len(index)


build = MemoizedVi
