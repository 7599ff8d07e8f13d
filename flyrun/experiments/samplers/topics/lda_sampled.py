"""Topics by Gibbs sampling of a batch's tokens, given topics: mirror descent, Langevin dynamics, SMC."""

import numpy as np

from flyrun.experiments.models import lda
from flyrun.experiments.samplers.method import State
from flyrun.experiments.samplers.topics import search
from flyrun.experiments.samplers.topics.method import Topics, first_lambda
from flyrun.ground.errors import FlyrunError
from flyrun.ground.schema import show


class Sampled(Topics):
    """Those that deal out a batch's tokens by Gibbs sampling, given topics."""

    def counts(
        self, rng: np.random.Generator, phi: np.ndarray, batch: np.ndarray
    ) -> tuple[np.ndarray, float]:
        """Words by topic of a batch, (V, K), averaged over the last sweeps, and the queries."""
        options, (n_words, n_topics) = self.arm.sampler, phi.shape
        counts, alpha = np.zeros((n_words, n_topics)), self.problem.alpha
        phi, none = np.ascontiguousarray(phi), np.empty((0, n_topics))
        sweeps = options.sweeps, options.kept
        return counts, lda.gibbs(rng, self.train, batch, phi, alpha, *sweeps, *self.room, counts, none)


class MirrorDescent(Sampled):
    """Particle mirror descent with one particle (Dai, He, Dai & Song 2016, appendix F.2).

    It is sparse stochastic inference (Mimno, Hoffman & Blei 2012): z of a batch by Gibbs sampling given the
    mean topics φ = λ/Σλ, then q(φ_k) = Dirichlet(λ_k) by a prox step, λ ← (1 − γ)λ + γ(β + (D/b)·counts).
    γ_t = a(1 + t/b)^−c; with (1, 1, 1), which is 1/t, an epoch leaves β + the counts of all documents.
    """

    label, candidates = "Particle mirror descent, one particle", search.GRID

    def learn(self, rng: np.random.Generator, arrays: State, batch: np.ndarray, t: int) -> float:
        lam, gamma = arrays["lam"], self.rate(t)
        counts, queries = self.counts(rng, lda.topics_of(lam), batch)
        lam *= 1.0 - gamma
        lam += gamma * (self.problem.beta + self.batches.factor * counts)
        return queries


class Langevin(Sampled):
    """Stochastic gradient Riemannian Langevin dynamics, expanded mean (Patterson & Teh 2013, §4, eq. 10).

    φ_kw = λ_kw/Σλ_k with λ_kw ~ Gamma(β, 1) a priori, so that φ_k ~ Dirichlet(β), and the metric diag(λ)⁻¹:
    λ ← |λ + ½ε(β − λ + (D/b)(n_kw − φ_kw n_k·)) + √(ελ)·normal|, n the mean counts of a batch, ε_t =
    a(1 + t/b)^−c. Handed in is the mean of the draws of φ so far, the t-th with weight ∝ t. The last draw
    alone, as whose perplexity this method is often reported, does worse.
    """

    label, candidates = "SGRLD", search.GRID

    def start(self, rng: np.random.Generator) -> State:
        first = super().start(rng)
        return first | {"mean": lda.topics_of(first["lam"])}

    def topics(self, state: State) -> np.ndarray:
        return state["mean"]

    def estimates(self, state: State) -> dict[str, np.ndarray]:
        """Perplexities of the mean of the draws, and of the last one."""
        last = super().estimates(state | {"mean": lda.topics_of(state["lam"])})["perplexity"]
        return super().estimates(state) | {"perplexity_last_draw": last}

    def learn(self, rng: np.random.Generator, arrays: State, batch: np.ndarray, t: int) -> float:
        lam, eps, phi = arrays["lam"], self.rate(t), lda.topics_of(arrays["lam"])
        counts, queries = self.counts(rng, phi, batch)
        drift = self.problem.beta - lam + self.batches.factor * (counts - phi * counts.sum(axis=0))
        noise = np.sqrt(eps * lam) * rng.standard_normal(lam.shape)
        np.abs(lam + 0.5 * eps * drift + noise, out=lam)
        if not np.isfinite(lam.sum()):
            raise FlyrunError(
                f"step {t}: SGRLD leads away, λ is not finite; take a smaller first number of sampler.step, "
                f"{show(self.candidates[0])} for one"
            )
        arrays["mean"] += 2.0 / (t + 2.0) * (lda.topics_of(lam) - arrays["mean"])
        return queries


class SequentialMonteCarlo(Sampled):
    """One-pass SMC, one particle, never rejuvenated (Balakrishnan & Madigan 2006); lda_filter has both.

    Every document counts as it is and once: z of a batch given the topics so far, λ ← λ + counts. λ begins at
    the prior's β; the first batch is dealt out given the start that all arms share. Once all documents were
    seen nothing changes any more and nothing is spent.
    """

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


build = {"lda_pmd": MirrorDescent, "lda_sgrld": Langevin, "lda_smc": SequentialMonteCarlo}
