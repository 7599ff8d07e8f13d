"""What is foreseen of a test of acceptance: by its past, by partial sums, by a quadratic at the MAP."""

import math

import numpy as np

from flyrun.experiments.samplers.parallel.tree import Node, Point, log_ratio

_REMEMBERED = 200.0  # tests
_PRIOR_BLOCKS = 4.0  # as good as so many blocks is what earlier tests tell of blocks' differences


class Memory:
    """Of the last tests, forgetting: how many accept, log ratios' mean and mean square, blocks' variance.

    values: (5,): these, and how many tests there were.
    """

    def __init__(self, values: np.ndarray):
        self.rate, self.mean, self.square, self.spread, self.tests = values.tolist()

    def values(self) -> np.ndarray:
        """What it is made anew from, (5,)."""
        return np.array([self.rate, self.mean, self.square, self.spread, self.tests])

    def learn(self, node: Node, accepted: bool) -> None:
        """A test more."""
        self.tests += 1.0
        weight, ratio = max(1.0 / self.tests, 1.0 / _REMEMBERED), log_ratio(node)
        differences = np.subtract(node.proposal.sums, node.current.sums)
        self.rate += weight * (accepted - self.rate)
        self.mean += weight * (ratio - self.mean)
        self.square += weight * (ratio**2 - self.square)
        if len(differences) > 1:
            self.spread += weight * (float(differences.var(ddof=1)) - self.spread)

    def chance(self, node: Node, n_blocks: int) -> float:
        """P(accept) of a node that is not decided: Φ((Δ̂ − log u)/σ̂).

        Δ̂, σ̂: what earlier log ratios tell, N(mean, variance), and the sum of the k blocks that both points
        have, Δ_k·B/k with variance B²s²/k·(1 − k/B) (Angelino et al. 2014; k of B drawn without replacement),
        weighed by their precisions. s² is pooled with that of earlier tests.
        """
        if not self.tests:
            return 0.5
        precision = 1.0 / max(self.square - self.mean**2, 1e-12)
        total = precision * self.mean
        known = min(len(node.proposal.sums), len(node.current.sums))
        if known:
            parts = [node.proposal.sums[b] - node.current.sums[b] for b in range(known)]
            mean = math.fsum(parts) / known
            squares = math.fsum((part - mean) ** 2 for part in parts)
            spread = (_PRIOR_BLOCKS * self.spread + squares) / (_PRIOR_BLOCKS + known - 1)
            variance = n_blocks**2 * spread / known * (1.0 - known / n_blocks)
            seen = 1.0 / max(variance, 1e-12)
            total += seen * (n_blocks * mean + node.proposal.log_prior - node.current.log_prior)
            precision += seen
        away = (total / precision - node.log_u) * math.sqrt(precision)
        return 0.5 * math.erfc(-away / math.sqrt(2.0))


class Quadratic:
    """log posterior about the MAP, the likelihood's part to second order, the prior's as it is."""

    def __init__(self, centre: np.ndarray, gradient: np.ndarray, curvature: np.ndarray):
        self.centre, self.gradient, self.curvature = centre, gradient, curvature

    def log_likelihood(self, theta: np.ndarray) -> float:
        """Up to a constant, at θ, (P,)."""
        away = theta - self.centre
        return float(away @ (self.gradient - 0.5 * (self.curvature @ away)))

    def log_ratio(self, new: Point, old: Point) -> float:
        """Logarithm of the ratio of posterior densities, as it foretells it."""
        ratio = self.log_likelihood(new.theta) - self.log_likelihood(old.theta)
        return ratio + new.log_prior - old.log_prior
