"""Particle mirror descent over inducing inputs (Dai, He, Dai & Song 2016, Algorithm 1, §F.1).

q_{t+1}(Z, u) ∝ q_t^{1−γ} (p(Z) p(u|Z) p(y_B|u, Z)^{N/b})^γ. Given particles Z from the prior the step has a
closed form: q(u|Z) stays Gaussian, its natural parameters and the log weight are mixed as the sums are.
γ = 1/t and epochs without replacement: after each epoch the weights are the evidences of DTC,
log N(y; 0, Q_nn + β⁻¹I).
"""

import numpy as np

from flyrun.models.gaussian_process import Posterior, Process, Sums
from flyrun.samplers.inducing.inducing_sets import Particles
from flyrun.samplers.method import Arm, Method


def build(arm: Arm, process: Process, seconds: float) -> Method:
    """The method of an arm."""
    made = Bounded if arm.sampler.weights == "bound" else Descent
    return made(arm, process, seconds, "Particle mirror descent", arm.sampler.particles)


class Descent(Particles):
    """γ_t = (t + delay)^(−decay)."""

    def __init__(self, arm: Arm, process: Process, seconds: float, label: str, sets: int):
        super().__init__(arm, process, seconds, sets)
        self.label = label

    def weights(self, step: int) -> tuple[float, float]:
        """(1 − γ, γN/b)."""
        gamma = (step + self.arm.sampler.delay) ** -self.arm.sampler.decay
        return 1.0 - gamma, gamma * self.batches.factor


class Bounded(Descent):
    """Ours: each set weighed by its bound on the exact evidence (Titsias 2009, eq. 9), which is that of DTC
    less what the set leaves unexplained, tr(K_nn − Q_nn)/2 noise. It is a sum over rows, so it is mixed too.
    """

    def log_weight(self, sums: Sums, posterior: Posterior) -> np.ndarray:
        unexplained = sums.number - np.trace(sums.gram, axis1=1, axis2=2)
        return posterior.log_evidence - 0.5 * unexplained / self.process.noise
