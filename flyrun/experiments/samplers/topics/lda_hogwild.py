"""Hogwild Gibbs of topics: AD-LDA (Newman, Asuncion, Smyth & Welling 2009), documents dealt out to shards.

In a sweep every shard draws its tokens' topics as collapsed Gibbs sampling does, by its own copy of the
counts of words by topic, which at its end become what they were and the sum of all shards' differences. So
they are again the counts of all tokens. With one shard it is collapsed Gibbs sampling, and exact.
"""

from dataclasses import replace

import numpy as np

from flyrun.experiments.models.lda import Lda
from flyrun.experiments.samplers.method import Arm, Facts, Method, Records, State
from flyrun.experiments.samplers.topics.lda_gibbs import CollapsedGibbs, sweep
from flyrun.experiments.samplers.topics.search import Step
from flyrun.ground.errors import ConfigError


def build(arm: Arm, problem: Lda, step: Step | None) -> Method:
    """The method of an arm. ConfigError where there are more shards than documents."""
    shards, n = arm.sampler.shards, problem.data.train.n_documents
    if shards > n:
        raise ConfigError(
            f"sampler.shards={shards}: there are {n} documents; choose sampler.shards={n} or fewer"
        )
    return HogwildTopics(arm, problem, step)


class HogwildTopics(CollapsedGibbs):
    """Counts of words by topic are as old as the sweep, but for a shard's own tokens."""

    label = "AD-LDA"

    def __init__(self, arm: Arm, problem: Lda, step: Step | None):
        super().__init__(arm, problem, step)
        self.exact, first, shards = arm.sampler.shards == 1, self.train.first, arm.sampler.shards
        self.begins = np.arange(shards + 1) * self.n_documents // shards
        lengths = np.concatenate([[0], np.cumsum(self.train.repeats)])
        self.tokens = lengths[first[self.begins]]

    def merged(self, rng: np.random.Generator, z: np.ndarray, by_word: np.ndarray) -> np.ndarray:
        """z changed by a sweep of every shard, and the counts (V, K) after it; by_word: those before."""
        total, room = by_word.copy(), np.empty((2, self.problem.n_topics))
        alpha, beta = self.problem.alpha, self.problem.beta
        for shard in range(self.arm.sampler.shards):
            first, last = self.begins[shard : shard + 2]
            documents = self.train._replace(first=self.train.first[first : last + 1])
            mine, local = z[self.tokens[shard] : self.tokens[shard + 1]], by_word.copy()
            sweep(rng, documents, alpha, beta, mine, local, local.sum(axis=0), room)
            total += local - by_word
        return total

    def learn(self, rng: np.random.Generator, arrays: State, batch: np.ndarray, t: int) -> float:
        by_word = self.merged(rng, arrays["z"], self.counted(arrays["z"]))
        self.average(arrays, by_word, t)
        return float(len(arrays["z"]))

    def advance(self, state: State, n: int) -> tuple[State, Records]:
        """span: the tokens of the largest shard."""
        after, records = super().advance(state, n)
        return after, records | {"span": np.full(n, float(np.diff(self.tokens).max()))}

    def facts(self, state: State | None = None) -> Facts:
        """What a sweep costs besides; bytes: of the counts, to a shard and back."""
        facts, shards = super().facts(state), self.arm.sampler.shards
        counts = {
            "workers": shards,
            "updates_per_round": int(self.tokens[-1]),
            "critical_per_round": int(np.diff(self.tokens).max()),
            "bytes_per_worker": 16 * int(np.prod(self.problem.shape)) if shards > 1 else 0,
        }
        return replace(facts, more={**facts.more, **counts})
