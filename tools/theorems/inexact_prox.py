"""Theorem 2 of Dai, He, Dai & Song (2016): mirror descent whose prox steps are off by ε, exactly, on a grid.

A step takes q towards q⁺ ∝ q^(1−γ)·(p·p(x_n|θ)^N)^γ, n drawn at random. Their proof uses that the q̃ taken
instead has ⟨log q̃/q⁺, q̃ − r⟩ ≤ ε for every density r: that is KL(q̃‖q⁺) + max log q⁺/q̃ ≤ ε (`off`). Here q̃ is
a bad one: q⁺ with less where the posterior is. Then

(a) E KL(q*‖q̃) ≤ (1 − γ) KL(q*‖q) + ε + ½γ² E max g², g = log q/p − N log p(x_n|θ),
(b) KL(q̄‖q*) ≤ (KL(q*‖q₁) + Σ ε_t + ½ Σ γ_t² E max g_t²)/Σ γ_t, q̄ the mean of q_t with weights γ_t.

A constant in g changes no step, so the smallest max g² counts. With KL(q̃‖q⁺) ≤ ε alone, which is the same
as to come within ε of the step's least value, (a) is wrong: q̃ may vanish where q* does not.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

POINTS, N_DATA, STEPS = 60, 8, 12
Taken = Callable[[np.ndarray, np.ndarray, float], np.ndarray]
"""q̃ (K,) from log q⁺ (K,), the posterior (K,) and ε."""


class Problem(NamedTuple):
    """Log prior (K,), and the log likelihood of each row, (N, K)."""

    log_prior: np.ndarray
    log_likelihood: np.ndarray

    @property
    def posterior(self) -> np.ndarray:
        """(K,)."""
        return normal(self.log_prior + self.log_likelihood.sum(axis=0))


def problem(seed: int) -> Problem:
    """Logistic regression with one coefficient and a normal prior."""
    rng = np.random.default_rng(seed)
    theta = np.linspace(-3.0, 3.0, POINTS)
    signed = rng.normal(0.5, 1.0, N_DATA)
    return Problem(np.log(normal(-0.5 * theta**2)), -np.logaddexp(0.0, -signed[:, None] * theta))


def normal(log: np.ndarray) -> np.ndarray:
    """exp(log), (K,), of sum 1."""
    found = np.exp(log - log.max())
    return found / found.sum()


def divergence(one: np.ndarray, other: np.ndarray) -> float:
    """KL(one ‖ other) of positive vectors of sum 1."""
    return float(one @ np.log(one / other))


def off(taken: np.ndarray, exact: np.ndarray) -> float:
    """The least ε for which the proof takes q̃ instead of q⁺."""
    return divergence(taken, exact) + float(np.log(exact / taken).max())


def lowered(log: np.ndarray, posterior: np.ndarray, eps: float) -> np.ndarray:
    """q⁺ with as much less as ε allows where 95 % of the posterior are."""
    exact, order = normal(log), np.argsort(posterior)
    inside = np.empty(len(order), bool)
    inside[order] = np.cumsum(posterior[order]) > 0.05
    if eps == 0.0:
        return exact
    depth = brentq(lambda s: off(normal(log - s * inside), exact) - eps, 0.0, 100.0)
    return normal(log - depth * inside)


def by_value(log: np.ndarray, posterior: np.ndarray, eps: float) -> np.ndarray:
    """q⁺ with next to nothing on as much of its upper tail as KL(q̃‖q⁺) ≤ ε allows."""
    exact = normal(log)
    tail = np.cumsum(exact[::-1])[::-1] < -np.expm1(-eps)
    return normal(log - 40.0 * tail)


def steps(
    case: Problem, gammas: np.ndarray, errors: np.ndarray, taken: Taken, seed: int
) -> tuple[float, float]:
    """Left side over right side of (a), the worst of a run's steps, and of (b)."""
    rng, posterior = np.random.default_rng(seed), case.posterior
    q, worst = normal(case.log_prior), 0.0
    mean, bound = np.zeros(len(q)), divergence(posterior, q)
    for gamma, eps in zip(gammas, errors, strict=True):
        slopes = np.log(q) - case.log_prior - N_DATA * case.log_likelihood  # (N, K)
        squares = float(np.mean((0.5 * np.ptp(slopes, axis=1)) ** 2))
        every = [taken(np.log(q) - gamma * slope, posterior, eps) for slope in slopes]
        left = np.mean([divergence(posterior, one) for one in every])
        worst = max(
            worst, float(left / ((1 - gamma) * divergence(posterior, q) + eps + 0.5 * gamma**2 * squares))
        )
        mean += gamma * q
        bound += eps + 0.5 * gamma**2 * squares
        q = every[rng.integers(N_DATA)]
    return worst, divergence(mean / gammas.sum(), posterior) * float(gammas.sum()) / bound


def worst(taken: Taken, runs: int = 40) -> tuple[float, float]:
    """(a) and (b) at their worst over problems, with γ = 1/(t + 1), ε_t ∝ γ² and with γ = 0.3/√t, ε_t ∝ γ."""
    t, most, kept = np.arange(1, STEPS + 1), 0.0, []
    for seed in range(runs):
        for gammas, errors in ((1 / (t + 1), 0.3 / (t + 1) ** 2), (0.3 / np.sqrt(t), 0.05 / np.sqrt(t))):
            one, average = steps(problem(seed), gammas, errors, taken, seed)
            most = max(most, one)
            kept.append(average)
    return most, float(np.max(kept))
