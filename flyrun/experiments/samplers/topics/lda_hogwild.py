"""Hogwild Gibbs of topics: AD-LDA (Newman, Asuncion, Smyth & Welling 2009), documents dealt out to shards.

In a sweep every shard draws its tokens' topics as collapsed Gibbs sampling does, by its own copy of the
counts of words by topic, which at its end become what they were and the sum of all shards' differences. So
they are again the counts of all tokens. With one shard it is collapsed Gibbs sampling, and exact.

Without that barrier (Asuncion, Smyth & Welling 2008) a shard has its own counts as they are, and those of the
others as they were some sweeps ago, `late` at most: each shard draws how many, anew in every sweep.
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

    def start(self, rng: np.random.Generator) -> State:
        """past: z after each of the last late + 1 sweeps, that of t sweeps at t modulo their number."""
        state, late = super().start(rng), self.arm.sampler.late
        return state | ({"past": np.stack([state["z"]] * (late + 1))} if late else {})

    def merged(
        self, rng: np.random.Generator, z: np.ndarray, by_word: np.ndarray, seen: list[np.ndarray]
    ) -> np.ndarray:
        """z changed by a sweep of every shard, and the counts (V, K) after it; by_word: those before; seen:
        those that each shard has.
        """
        total, room = by_word.copy(), np.empty((2, self.problem.n_topics))
        alpha, beta = self.problem.alpha, self.problem.beta
        for shard, counts in enumerate(seen):
            first, last = self.begins[shard : shard + 2]
            documents = self.train._replace(first=self.train.first[first : last + 1])
            mine, local = z[self.tokens[shard] : self.tokens[shard + 1]], counts.copy()
            sweep(rng, documents, alpha, beta, mine, local, local.sum(axis=0), room)
            total += local - counts
        return total

    def learn(self, rng: np.random.Generator, arrays: State, batch: np.ndarray, t: int) -> float:
        z, late = arrays["z"], self.arm.sampler.late
        by_word = self.counted(z)
        seen = self.late(rng, arrays, t) if late else [by_word] * self.arm.sampler.shards
        by_word = self.merged(rng, z, by_word, seen)
        if late:
            arrays["past"][(t + 1) % (late + 1)] = z
        self.average(arrays, by_word, t)
        return float(len(z))

    def late(self, rng: np.random.Generator, arrays: State, t: int) -> list[np.ndarray]:
        """The counts (V, K) that a shard has in sweep t: its own of now, the others' of some sweeps ago."""
        z, past = arrays["z"], arrays["past"]
        before = [past[(t - k) % len(past)] for k in range(min(t + 1, len(past)))]
        counts = [self.counted(labels) for labels in before]
        seen = []
        for shard, ago in enumerate(rng.integers(len(before), size=self.arm.sampler.shards)):
            shard_tokens = slice(*self.tokens[shard : shard + 2])
            seen.append(counts[ago] - self.counted(before[ago], shard_tokens) + self.counted(z, shard_tokens))
        return seen

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
