"""Collapsed Gibbs sampling (Griffiths & Steyvers 2004): φ and θ integrated out, one z_dn at a time.

p(z_dn = k | the others) ∝ (n_dk + α)(n_kw + β)/(n_k + Vβ), counts without the token itself. A step is a sweep
over all documents.
"""

import numpy as np

from flyrun.experiments.models import lda
from flyrun.experiments.samplers.method import State
from flyrun.experiments.samplers.topics.method import Topics, first_lambda
from flyrun.ground.numerics.compiled import outer_jit


class CollapsedGibbs(Topics):
    """z keeps the posterior. Handed in is the mean of E[φ | z], the t-th sweep's with weight ∝ t."""

    unit = "sweep"
    shown = ("{queries} queries/sweep",)
    label, exact = "Collapsed Gibbs", True

    def start(self, rng: np.random.Generator) -> State:
        """Every token dealt out given the topics that all arms begin with."""
        phi, train = lda.topics_of(first_lambda(rng, self.problem)), self.train
        word = np.repeat(train.word, train.repeats)
        cumulated = np.cumsum(phi, axis=1)
        at = rng.random(len(word)) * cumulated[word, -1]
        z = np.array(
            [np.searchsorted(cumulated[w], u, "right") for w, u in zip(word, at, strict=True)], np.int32
        )
        return {"z": np.minimum(z, self.problem.n_topics - 1), "mean": phi}

    def topics(self, state: State) -> np.ndarray:
        return state["mean"]

    def learn(self, rng: np.random.Generator, arrays: State, batch: np.ndarray, t: int) -> float:
        """All documents, (B,), in their order."""
        z, problem, train = arrays["z"], self.problem, self.train
        by_word, room = self.counted(z), np.empty((2, problem.n_topics))
        sweep(rng, train, problem.alpha, problem.beta, z, by_word, by_word.sum(axis=0), room)
        self.average(arrays, by_word, t)
        return float(len(z))

    def counted(self, z: np.ndarray, tokens: slice = slice(None)) -> np.ndarray:
        """Words by topic, (V, K), of all tokens or of some."""
        by_word = np.zeros(self.problem.shape)
        np.add.at(by_word, (np.repeat(self.train.word, self.train.repeats)[tokens], z[tokens]), 1.0)
        return by_word

    def average(self, arrays: State, by_word: np.ndarray, t: int) -> None:
        """Take the t-th sweep's E[φ | z], of counts (V, K), into the mean."""
        phi = lda.topics_of(by_word + self.problem.beta)
        arrays["mean"] += 2.0 / (t + 2.0) * (phi - arrays["mean"])


build = CollapsedGibbs


@outer_jit
def sweep(rng, corpus, alpha, beta, z, by_word, by_topic, room):
    """One sweep in place. z: (tokens,); by_word (V, K), by_topic (K,): its counts; room: (2, K)."""
    first, word, repeats = corpus
    n_topics, prior = by_word.shape[1], beta * by_word.shape[0]
    in_topics, weights = room[0], room[1]
    begin = 0
    for d in range(first.shape[0] - 1):
        length = 0
        for e in range(first[d], first[d + 1]):
            length += repeats[e]
        for k in range(n_topics):
            in_topics[k] = alpha
        for token in range(begin, begin + length):
            in_topics[z[token]] += 1.0
        token = begin
        for e in range(first[d], first[d + 1]):
            w = word[e]
            for _ in range(repeats[e]):
                k = z[token]
                in_topics[k] -= 1.0
                by_word[w, k] -= 1.0
                by_topic[k] -= 1.0
                total = 0.0
                for k in range(n_topics):
                    total += in_topics[k] * (by_word[w, k] + beta) / (by_topic[k] + prior)
                    weights[k] = total
                k = lda.drawn(rng, weights, total)
                z[token] = k
                in_topics[k] += 1.0
                by_word[w, k] += 1.0
                by_topic[k] += 1.0
                token += 1
        begin += length
