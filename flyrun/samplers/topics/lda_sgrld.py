"""Stochastic gradient Riemannian Langevin dynamics, expanded mean (Patterson & Teh 2013, §4, equation 10).

φ_kw = λ_kw/Σλ_k with λ_kw ~ Gamma(β, 1) a priori, so that φ_k ~ Dirichlet(β), and the metric diag(λ)⁻¹:
λ ← |λ + ½ε(β − λ + (D/b)(n_kw − φ_kw n_k·)) + √(ελ)·normal|, n the mean counts of a batch.
"""

import numpy as np

from flyrun.config.schema import show
from flyrun.errors import FlyrunError
from flyrun.models import lda
from flyrun.samplers.method import State
from flyrun.samplers.topics.method import Sampled

CANDIDATES = tuple((a, b, 0.6) for a in (0.01, 0.03, 0.1) for b in (100.0, 300.0, 1000.0))


class Langevin(Sampled):
    """ε_t = a(1 + t/b)^−c. Handed in is the mean of the draws of φ so far, the t-th with weight ∝ t.

    The last draw alone, as whose perplexity this method is often reported, does worse.
    """

    label = "SGRLD"

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
                f"{show(CANDIDATES[0])} for one"
            )
        arrays["mean"] += 2.0 / (t + 2.0) * (lda.topics_of(lam) - arrays["mean"])
        return queries


build = Langevin
