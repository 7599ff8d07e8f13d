"""Variational consensus (Rabinovich, Angelino & Jordan 2015): averages whose weights climb a bound.

Σ_j w_j ∘ θ_j with weights by coordinate that sum to 1. The bound is E log p(Σ w_j θ_j, y) and, for the
entropy of the average, what the entropy power inequality says of the weights: (1/J) Σ_j Σ log w_j. Weights
are softmax of numbers that Adam drives, by slopes of the whole posterior at a few draws a step.
"""

from collections.abc import Callable

import numpy as np
from scipy.special import softmax

from flyrun.experiments.config.sampler.combinations import VariationalConsensus
from flyrun.experiments.samplers.combinations.rules import Rule
from flyrun.ground.numerics.adam import Adam


def combine(
    draws: np.ndarray,
    config: VariationalConsensus,
    rng: np.random.Generator,
    scores: Callable[[np.ndarray], np.ndarray],
) -> np.ndarray:
    """(T, P) of draws (J, T, P). scores: ∇ log posterior, (S, P), at positions (S, P)."""
    at, adam = np.zeros((len(draws), draws.shape[2])), Adam(config.rate, decay=0.5)
    slope, square = np.zeros_like(at), np.zeros_like(at)
    for t in range(config.steps):
        some = draws[:, rng.integers(draws.shape[1], size=config.draws)]
        weights = softmax(at, axis=0)
        pull = np.einsum("sp,jsp->jp", scores(averages(some, weights)), some) / config.draws
        uphill = weights * (pull - (weights * pull).sum(axis=0)) + 1 / len(draws) - weights
        at, slope, square = adam.climbed(at, uphill, slope, square, t + 1)
    return averages(draws, softmax(at, axis=0))


def averages(draws: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Σ_j w_j ∘ θ_j, (T, P), of draws (J, T, P) by weights (J, P)."""
    return np.einsum("jp,jtp->tp", weights, draws)


RULES = {"variational_consensus": Rule("Variational consensus", combine, learns=True)}
