"""One-pass SMC for topics with rejuvenation: the particle filter of Canini, Shi & Griffiths (2009).

P particles, each an assignment z of all tokens so far, φ and θ integrated out. A token i of document d
multiplies a particle's weight by p(w_i | z, w before) = Σ_k (n_dk + α)(n_wk + β)/(n_k + Vβ), over n_d + Kα,
and z_i is drawn in proportion to the terms. Where a share of less than `ess` of the particles is effective,
they are drawn anew in proportion to their weights, and each draws z of `moves` earlier tokens anew by Gibbs
sampling. Learning begins, as there, by Gibbs sampling: after the first batch each draws all z `sweeps` times.
"""

import numpy as np

from flyrun.experiments.models import lda
from flyrun.experiments.samplers.method import State
from flyrun.experiments.samplers.topics.method import Topics
from flyrun.ground.numerics.compiled import jit, outer_jit


class ParticleFilter(Topics):
    """A document counts once. Handed in are the mean topics of the heaviest particle."""

    label = "One-pass SMC with rejuvenation"

    def start(self, rng: np.random.Generator) -> State:
        """assigned: topics of tokens, (P, tokens), −1 unseen.  seen: tokens so far, their number its last."""
        particles, tokens, (n_words, topics) = (
            self.arm.sampler.particles,
            self.train.n_tokens,
            self.problem.shape,
        )
        return {
            "assigned": np.full((particles, tokens), -1, np.int16),
            "seen": np.zeros(tokens + 1, np.int64),
            "by_word": np.zeros((particles, n_words, topics), np.int32),
            "by_document": np.zeros((particles, self.n_documents, topics), np.int32),
            "totals": np.zeros((particles, topics), np.int64),
            "weight": np.full(particles, 1.0 / particles),
            "log_evidence": np.zeros(1),
        }

    def topics(self, state: State) -> np.ndarray:
        return lda.topics_of(state["by_word"][np.argmax(state["weight"])] + self.problem.beta)

    def reads(self, t: int) -> bool:
        """In the first epoch."""
        return t < self.batches.in_epoch

    def learn(self, rng: np.random.Generator, arrays: State, batch: np.ndarray, t: int) -> float:
        options, first = self.arm.sampler, np.append(0, np.cumsum(self.train.repeats))[self.train.first]
        tokens = np.concatenate([rng.permutation(np.arange(first[d], first[d + 1])) for d in batch])
        where = np.stack(
            [np.repeat(one, self.train.repeats) for one in (self.train.document, self.train.word)]
        )
        priors = self.problem.alpha, self.problem.beta
        names = ("seen", "assigned", "by_word", "by_document", "totals")
        particles, weight = (*(arrays[name] for name in names), self.room.weights), arrays["weight"]
        rules, left = (options.ess * len(weight), options.moves), np.zeros(len(weight), np.int64)
        queries = filtered(rng, tokens, where, priors, rules, particles, weight, left, arrays["log_evidence"])
        if t == 0:
            for p in range(len(weight)):
                queries += moved(rng, p, options.sweeps * len(tokens), where, priors, particles)
        return queries


@outer_jit
def filtered(rng, tokens, where, priors, rules, particles, weight, left, log_evidence):
    """Take tokens (n,) in turn; particles and weight (P,) change in place. Returns the queries.

    left: (P,), workspace, how often each particle survives.
    """
    least, moves = rules
    seen, assigned, by_word, by_document, totals, _ = particles
    size, n_topics, queries = weight.shape[0], totals.shape[1], 0
    for token in tokens:
        earlier = by_document[0, where[0, token]].sum()
        total = 0.0
        for p in range(size):
            weight[p] *= _drawn(rng, p, token, where, priors, particles) / (earlier + n_topics * priors[0])
            total += weight[p]
        seen[seen[-1]] = token
        seen[-1] += 1
        weight /= total
        log_evidence[0] += np.log(total)
        queries += size
        if (weight * weight).sum() * least <= 1.0:
            continue
        ancestor, reached, place = 0, weight[0], rng.random() / size
        left[:] = 0
        for _ in range(size):  # systematic resampling
            while ancestor < size - 1 and reached <= place:
                ancestor += 1
                reached += weight[ancestor]
            left[ancestor] += 1
            place += 1.0 / size
        ancestor = 0
        for p in range(size):
            if left[p]:
                continue
            while left[ancestor] < 2:
                ancestor += 1
            left[ancestor] -= 1
            by_word[p], by_document[p] = by_word[ancestor], by_document[ancestor]
            assigned[p], totals[p] = assigned[ancestor], totals[ancestor]
        weight[:] = 1.0 / size
        for p in range(size):
            queries += moved(rng, p, moves, where, priors, particles)
    return queries


@jit
def moved(rng, p, moves, where, priors, particles):
    """Draw z of so many of a particle's tokens anew, each given all others. Returns the queries."""
    seen, assigned, by_word, by_document, totals, _ = particles
    for _ in range(moves):
        token = seen[int(rng.random() * seen[-1])]
        document, word, k = where[0, token], where[1, token], assigned[p, token]
        by_document[p, document, k] -= 1
        by_word[p, word, k] -= 1
        totals[p, k] -= 1
        _drawn(rng, p, token, where, priors, particles)
    return moves


@jit
def _drawn(rng, p, token, where, priors, particles):
    """Draw z of a token that a particle does not count yet, and count it. Returns Σ_k of its terms."""
    _, assigned, by_word, by_document, totals, cumulated = particles
    (alpha, beta), document, word = priors, where[0, token], where[1, token]
    total = 0.0
    for k in range(totals.shape[1]):
        share = (by_word[p, word, k] + beta) / (totals[p, k] + beta * by_word.shape[1])
        total += (by_document[p, document, k] + alpha) * share
        cumulated[k] = total
    k = lda.drawn(rng, cumulated, total)
    assigned[p, token] = k
    by_document[p, document, k] += 1
    by_word[p, word, k] += 1
    totals[p, k] += 1
    return total


build = ParticleFilter
