"""Streaming variational Bayes of topics (Broderick, Boyd, Wibisono, Wilson & Jordan 2013), a document once.

λ ← λ + (A(batch, λ_τ) − λ_τ), A coordinate ascent on the batch's documents alone under the prior λ_τ, which
was λ when a worker began with the batch: Algorithms 19 and 20 of the survey. Simulated workers have not seen
the last `stale` batches. Those that have seen none begin where all arms of a seed do: under the prior, where
topics are all alike, they would never differ.
"""

import numpy as np

from flyrun.experiments.samplers.method import State
from flyrun.experiments.samplers.topics.lda_svi import StochasticVariational


class StreamingVariational(StochasticVariational):
    """`made` has λ after each of the last stale + 1 batches, that of j batches at j modulo their number."""

    label, candidates = "Streaming variational Bayes", ()

    def start(self, rng: np.random.Generator) -> State:
        begin, prior = super().start(rng)["lam"], np.full(self.problem.shape, self.problem.beta)
        return {"lam": begin, "begin": begin, "made": np.stack([prior] * (self.arm.sampler.stale + 1))}

    def reads(self, t: int) -> bool:
        """After the last batch steps do nothing."""
        return t < self.batches.in_epoch

    def learn(self, rng: np.random.Generator, arrays: State, batch: np.ndarray, t: int) -> float:
        past, options, queries = arrays["made"], self.arm.sampler, 0.0
        seen = past[max(0, t - options.stale) % len(past)].copy()
        at = arrays["begin"] if t <= options.stale else seen
        for _ in range(options.inner):
            counts = np.zeros_like(at)
            queries += self.local(self.train, batch, at, counts)[1]
            at = seen + counts
        arrays["lam"][:] = past[t % len(past)] + at - seen
        past[(t + 1) % len(past)] = arrays["lam"]
        return queries


build = StreamingVariational
