"""Stochastic variational inference (Hoffman, Blei & Bach 2010; Hoffman, Blei, Wang & Paisley 2013).

q(φ_k) = Dirichlet(λ_k), q(θ_d) = Dirichlet(γ_d). For each document of a batch, until γ_d changes by less than
the tolerance in the mean: φ_dwk ∝ exp(E log θ_dk + E log φ_kw), γ_dk = α + Σ_w n_dw φ_dwk. Then
λ ← (1 − ρ)λ + ρ(β + (D/b) Σ_d n_dw φ_dwk).
"""

import numpy as np
from scipy.special import psi

from flyrun.experiments.data.documents import Corpus, Halves
from flyrun.experiments.models import lda
from flyrun.experiments.samplers.method import State
from flyrun.experiments.samplers.topics import search
from flyrun.experiments.samplers.topics.method import Topics
from flyrun.ground.numerics.compiled import jit


class StochasticVariational(Topics):
    """ρ_t = a(1 + t/b)^−c."""

    label, candidates = "SVI", search.GRID

    def learn(self, rng: np.random.Generator, arrays: State, batch: np.ndarray, t: int) -> float:
        lam, rho = arrays["lam"], self.rate(t)
        counts = np.zeros_like(lam)
        _, queries = self.local(self.train, batch, lam, counts)
        lam *= 1.0 - rho
        lam += rho * (self.problem.beta + self.batches.factor * counts)
        return queries

    def local(
        self, corpus: Corpus, documents: np.ndarray, lam: np.ndarray, counts: np.ndarray
    ) -> tuple[np.ndarray, int]:
        """γ of some documents, (documents, K), given λ (V, K), and the queries; counts gain Σ n_dw φ_dwk."""
        options, n_topics = self.arm.sampler, self.problem.n_topics
        weights = np.exp(psi(lam) - psi(lam.sum(axis=0)))
        gamma = np.ones((len(documents), n_topics))
        room = np.empty((2, n_topics))
        stop = options.most_iterations, options.tolerance
        queries = variational(corpus, documents, weights, self.problem.alpha, *stop, room, gamma, counts)
        return gamma, queries

    def shares(self, state: State, halves: Halves) -> np.ndarray:
        """By its own update of γ, (n, K)."""
        documents, none = np.arange(halves.observed.n_documents), np.empty((0, self.problem.n_topics))
        gamma, _ = self.local(halves.observed, documents, state["lam"], none)
        return gamma / gamma.sum(axis=1, keepdims=True)

    def estimates(self, state: State) -> dict[str, np.ndarray]:
        """Perplexities with θ by its own update, and with θ fitted to the observed halves as others do."""
        test = self.problem.data.test
        alike = lda.completion_perplexity(self.topics(state), super().shares(state, test), test)
        return super().estimates(state) | {"perplexity_gibbs_fold_in": np.array(alike)}


build = StochasticVariational


@jit
def variational(corpus, documents, weights, alpha, most, tolerance, room, gamma, counts):
    """γ of some documents, in place, for exp E log φ as weights (V, K); counts (V, K) gain, or are empty.

    room: (2, K), workspace. Returns the queries: distinct words × iterations.
    """
    first, word, repeats = corpus
    n_topics, queries = weights.shape[1], 0
    ours, before = room[0], room[1]
    for place in range(documents.shape[0]):
        d, of_document = documents[place], gamma[place]
        for _ in range(most):
            for k in range(n_topics):
                before[k] = of_document[k]
            _exp_mean_log(before, ours)
            for k in range(n_topics):
                of_document[k] = 0.0
            for e in range(first[d], first[d + 1]):
                share = repeats[e] / _dot(ours, weights[word[e]])
                for k in range(n_topics):
                    of_document[k] += share * weights[word[e], k]
            change = 0.0
            for k in range(n_topics):
                of_document[k] = alpha + ours[k] * of_document[k]
                change += abs(of_document[k] - before[k])
            queries += first[d + 1] - first[d]
            if change < tolerance * n_topics:
                break
        if counts.shape[0] > 0:
            _exp_mean_log(of_document, ours)
            for e in range(first[d], first[d + 1]):
                share = repeats[e] / _dot(ours, weights[word[e]])
                for k in range(n_topics):
                    counts[word[e], k] += share * ours[k] * weights[word[e], k]
            queries += first[d + 1] - first[d]
    return queries


@jit
def _dot(x, y):
    total = 1e-300
    for k in range(x.shape[0]):
        total += x[k] * y[k]
    return total


@jit
def _exp_mean_log(gamma, out):
    """exp E log θ of a Dirichlet; its constant, which cancels in every share, left out."""
    for k in range(gamma.shape[0]):
        out[k] = np.exp(digamma(gamma[k]))


@jit
def digamma(x):
    """ψ(x), x > 0, to 1e-12: recurrence up to 10, then Bernoulli's series (Abramowitz & Stegun, 6.3.18)."""
    shift = 0.0
    while x < 10.0:
        shift += 1.0 / x
        x += 1.0
    y = 1.0 / (x * x)
    series = y * (1 / 12 - y * (1 / 120 - y * (1 / 252 - y * (1 / 240 - y * (1 / 132 - y * 691 / 32760)))))
    return np.log(x) - 0.5 / x - series - shift
