"""Stochastic gradient Hamiltonian Monte Carlo (Chen, Fox & Guestrin 2014, eq. 13 and Algorithm 2).

In coordinates φ, θ = Rφ: φ ← φ + hp, then p ← p + h·Rᵀ∇U_t − hCp + N(0, 2h(C − B̂)), M = I; p is never drawn
anew. B̂ = ½hV̂, V̂ the variance of a batch's gradient: 0 for noise=ignored, or the mean so far of what the rows
of a batch say. Where friction C is below B̂ nothing is added. Along curvature λ of a Gaussian posterior, with
noise V, the variances' ratio is (1 + h(V − V̂)/(2C))/(1 − h²λ/(4 − 2hC)).
"""

import numpy as np

from flyrun.experiments.samplers.method import State
from flyrun.experiments.samplers.subsampling.gradient_chain import MomentumChain


class Sghmc(MomentumChain):
    """A step reads a batch, b queries."""

    label = "SGHMC"

    def companions(self, rng: np.random.Generator) -> State:
        return super().companions(rng) | {"noise": np.zeros((self.n_params, self.n_params))}

    def refreshed(
        self, rng: np.random.Generator, theta: np.ndarray, step: int, index: np.ndarray, beside: State
    ) -> np.ndarray:
        h, friction = self.arm.sampler.step, self.arm.sampler.friction
        if self.arm.sampler.noise == "estimated":
            each = self.by_row(theta, index) @ self.root
            noise = self.n_data**2 / len(index) * np.cov(each, rowvar=False).reshape(beside["noise"].shape)
            beside["noise"] = beside["noise"] + (noise - beside["noise"]) / (step + 1)
        added = self._added(beside["noise"]) @ rng.standard_normal(len(theta))
        return (1.0 - h * friction) * beside["momentum"] + added

    def _added(self, noise: np.ndarray) -> np.ndarray:
        """A square root of 2h(C − ½h·noise), or of its positive part, (P, P)."""
        h, friction = self.arm.sampler.step, self.arm.sampler.friction
        if self.arm.sampler.noise == "ignored":
            return np.sqrt(2.0 * h * friction) * np.eye(len(noise))
        values, vectors = np.linalg.eigh(2.0 * h * friction * np.eye(len(noise)) - h**2 * noise)
        return vectors * np.sqrt(np.maximum(values, 0.0))

    def linear(
        self, curvature: np.ndarray, noise: np.ndarray, state: State
    ) -> tuple[np.ndarray, np.ndarray] | None:
        h, friction = self.arm.sampler.step, self.arm.sampler.friction
        identity, nothing = np.eye(len(curvature)), np.zeros_like(curvature)
        pull, added = h * self.root.T @ curvature, self._added(state["noise"])
        forward = [[identity, h * self.root], [-pull, (1.0 - h * friction) * identity - h * pull @ self.root]]
        driven = added @ added.T + h**2 * self.root.T @ noise @ self.root
        return np.block(forward), np.block([[nothing, nothing], [nothing, driven]])


build = Sghmc
