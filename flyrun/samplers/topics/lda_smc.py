"""One-pass sequential Monte Carlo, one particle (Canini, Shi & Griffiths 2009; Balakrishnan & Madigan 2006).

Every document counts as it is and once: z of a batch given the topics so far, λ ← λ + counts. Once all
documents were seen nothing changes any more and nothing is spent.
"""

import numpy as np

from flyrun.models import lda
from flyrun.samplers.method import State
from flyrun.samplers.topics.method import Sampled, first_lambda


class SequentialMonteCarlo(Sampled):
    """λ begins at the prior's β; the first batch is dealt out given the start that all arms share."""

    label = "One-pass SMC, one particle"

    def start(self, rng: np.random.Generator) -> State:
        first = first_lambda(rng, self.problem)
        return {"lam": np.full_like(first, self.problem.beta), "first": first}

    def reads(self, t: int) -> bool:
        """In the first epoch."""
        return t < self.batches.in_epoch

    def learn(self, rng: np.random.Generator, arrays: State, batch: np.ndarray, t: int) -> float:
        phi = lda.topics_of(arrays["lam" if t else "first"])
        counts, queries = self.counts(rng, phi, batch)
        arrays["lam"] += counts
        return queries


build = SequentialMonteCarlo
