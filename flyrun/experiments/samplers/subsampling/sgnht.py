"""Stochastic gradient Nosé-Hoover thermostat (Ding et al. 2014, Algorithm 2).

In coordinates φ, θ = Rφ: φ ← φ + hp, p ← p + h·Rᵀ∇U_t − hξp + N(0, 2hA), ξ ← ξ + h(pᵀp/P − 1). The friction ξ
learns what heat a batch's noise brings: its mean is A + ½hV where noise V is alike in all directions, and θ's
law is then the posterior's up to the error of long steps. ξ starts at A.
"""

import numpy as np

from flyrun.experiments.samplers.method import State
from flyrun.experiments.samplers.subsampling.gradient_chain import MomentumChain


class Sgnht(MomentumChain):
    """A step reads a batch, b queries."""

    label = "SGNHT"

    def companions(self, rng: np.random.Generator) -> State:
        return super().companions(rng) | {"friction": np.array([self.arm.sampler.diffusion])}

    def move(
        self, rng: np.random.Generator, theta: np.ndarray, step: int, index: np.ndarray, beside: State
    ) -> tuple[np.ndarray, int]:
        moved = super().move(rng, theta, step, index, beside)
        heat = np.mean(beside["momentum"] ** 2) - 1.0
        beside["friction"] = beside["friction"] + self.arm.sampler.step * heat
        return moved

    def refreshed(
        self, rng: np.random.Generator, theta: np.ndarray, step: int, index: np.ndarray, beside: State
    ) -> np.ndarray:
        h = self.arm.sampler.step
        added = np.sqrt(2.0 * h * self.arm.sampler.diffusion) * rng.standard_normal(len(theta))
        return (1.0 - h * beside["friction"]) * beside["momentum"] + added


build = Sgnht
