"""Latent Dirichlet allocation (Blei, Ng & Jordan 2003), and how well topics complete documents.

φ_k ~ Dirichlet(β) over V words, θ_d ~ Dirichlet(α) over K topics, z_dn ~ θ_d, w_dn ~ φ_{z_dn}. Topics are
kept as (V, K), the K numbers of a word side by side.

A likelihood query is K responsibilities worked out for a word of a document: for every token in each sweep of
Gibbs sampling, for every distinct word in each iteration of the variational update.
"""

from typing import NamedTuple

import numpy as np

from flyrun.experiments.config import model as options
from flyrun.experiments.data.documents import Corpora, Corpus, Halves
from flyrun.ground.numerics.compiled import jit, outer_jit

FOLD_SWEEPS, FOLD_KEPT = 20, 15
"""Sweeps that fit θ to the observed half of a document, and how many of them, the last, are averaged."""


class Lda(NamedTuple):
    """K, α and β, and the documents."""

    n_topics: int
    alpha: float
    beta: float
    data: Corpora

    @property
    def shape(self) -> tuple[int, int]:
        """(V, K)."""
        return self.data.n_words, self.n_topics


def bind(config: options.Lda, data: Corpora) -> Lda:
    """The model of these documents."""
    return Lda(config.n_topics, config.alpha, config.beta, data)


def topics_of(lam: np.ndarray) -> np.ndarray:
    """Mean of Dirichlet(λ_k), (V, K), by topic: columns that sum to 1."""
    return lam / lam.sum(axis=0)


@outer_jit
def gibbs(rng, corpus, documents, phi, alpha, sweeps, kept, assigned, in_topics, weights, counts, shares):
    """z of some documents given topics phi (V, K), θ integrated out: p(z = k) ∝ (n_dk + α) φ_wk.

    The first of the sweeps deals out the tokens, each by those before it. counts (V, K) and shares (b, K)
    gain the means, over the last `kept` sweeps, of words by topic and of a document's tokens by topic; either
    may have no rows, and is then left out. assigned: (longest document,) int32, in_topics, weights: (K,), all
    workspace. Returns the queries: tokens × sweeps.
    """
    first, word, repeats = corpus
    n_topics, part, queries = phi.shape[1], 1.0 / kept, 0
    for place in range(documents.shape[0]):
        d = documents[place]
        for k in range(n_topics):
            in_topics[k] = alpha
        for sweep in range(sweeps):
            token = 0
            for e in range(first[d], first[d + 1]):
                w = word[e]
                for _ in range(repeats[e]):
                    if sweep > 0:
                        in_topics[assigned[token]] -= 1.0
                    total = 0.0
                    for k in range(n_topics):
                        total += in_topics[k] * phi[w, k]
                        weights[k] = total
                    k = drawn(rng, weights, total)
                    assigned[token] = k
                    in_topics[k] += 1.0
                    if sweep >= sweeps - kept and counts.shape[0] > 0:
                        counts[w, k] += part
                    token += 1
            queries += token
            if sweep >= sweeps - kept and shares.shape[0] > 0:
                for k in range(n_topics):
                    shares[place, k] += part * (in_topics[k] - alpha)
    return queries


@jit
def drawn(rng, cumulated, total):
    """A place by its share of the total, from cumulated weights."""
    at, k = rng.random() * total, 0
    while k < cumulated.shape[0] - 1 and cumulated[k] <= at:
        k += 1
    return k


class Workspace(NamedTuple):
    """Room for one document at a time."""

    assigned: np.ndarray
    in_topics: np.ndarray
    weights: np.ndarray


def workspace(corpus: Corpus, n_topics: int) -> Workspace:
    """For the longest document of a corpus."""
    longest = int(np.add.reduceat(np.append(corpus.repeats, 0), corpus.first[:-1]).max(initial=1))
    return Workspace(np.zeros(max(longest, 1), np.int32), np.zeros(n_topics), np.zeros(n_topics))


def fold_in(
    phi: np.ndarray, alpha: float, halves: Halves, sweeps: int = FOLD_SWEEPS, kept: int = FOLD_KEPT
) -> np.ndarray:
    """E[θ | the observed half, topics], (documents, K), by Gibbs sampling with random numbers of its own.

    The same at every call, so that what topics are worth depends on nothing else.
    """
    observed, n_topics = halves.observed, phi.shape[1]
    shares = np.zeros((observed.n_documents, n_topics))
    everybody, room = np.arange(observed.n_documents), workspace(observed, n_topics)
    rng = np.random.Generator(np.random.PCG64(1))
    gibbs(rng, tuple(observed), everybody, phi, alpha, sweeps, kept, *room, np.empty((0, n_topics)), shares)
    return with_prior(shares, alpha)


def with_prior(shares: np.ndarray, alpha: float) -> np.ndarray:
    """E θ, (documents, K), from tokens by topic."""
    return (shares + alpha) / (shares.sum(axis=1, keepdims=True) + alpha * shares.shape[1])


def completion_perplexity(phi: np.ndarray, theta: np.ndarray, halves: Halves) -> float:
    """exp(−Σ log Σ_k θ_dk φ_kw / tokens) over the held halves (Wallach et al. 2009, §5; Dai et al., eq. 19).

    phi: (V, K), mean topics.  theta: (documents, K), from the observed halves.
    """
    held = halves.held
    return float(np.exp(-_log_predictive(phi, theta, *held) / max(1, held.n_tokens)))


@jit
def _log_predictive(phi, theta, first, word, repeats):
    total = 0.0
    for d in range(first.shape[0] - 1):
        for e in range(first[d], first[d + 1]):
            share = 0.0
            for k in range(phi.shape[1]):
                share += theta[d, k] * phi[word[e], k]
            total += repeats[e] * np.log(share)
    return total
