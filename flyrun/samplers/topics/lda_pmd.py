"""Particle mirror descent with one particle (Dai, He, Dai & Song 2016, appendix F.2).

It is sparse stochastic inference (Mimno, Hoffman & Blei 2012): z of a batch by Gibbs sampling given the mean
topics φ = λ/Σλ, then q(φ_k) = Dirichlet(λ_k) by a prox step, λ ← (1 − γ)λ + γ(β + (D/b)·counts).
"""

import numpy as np

from flyrun.models import lda
from flyrun.samplers.method import State
from flyrun.samplers.topics import search
from flyrun.samplers.topics.method import Sampled

CANDIDATES = search.DECAYS


class MirrorDescent(Sampled):
    """γ_t = a(1 + t/b)^−c; with (1, 1, 1), which is 1/t, an epoch leaves β + the counts of all documents."""

    label = "Particle mirror descent, one particle"

    def learn(self, rng: np.random.Generator, arrays: State, batch: np.ndarray, t: int) -> float:
        lam, gamma = arrays["lam"], self.rate(t)
        counts, queries = self.counts(rng, lda.topics_of(lam), batch)
        lam *= 1.0 - gamma
        lam += gamma * (self.problem.beta + self.batches.factor * counts)
        return queries


build = MirrorDescent
