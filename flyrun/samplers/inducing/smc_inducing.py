"""One-pass sequential Monte Carlo over inducing inputs (after Balakrishnan & Madigan 2006).

log a += log p(y_B | Z, what came before), u integrated out; rows once, without N/b and without decay. Sets of
inducing inputs that moved would have to read the past again, so they stay, and as none is duplicated by
resampling, weights are carried on instead. After its pass it stands still.
"""

from flyrun.models.gaussian_process import Process
from flyrun.samplers.inducing.inducing_sets import Particles
from flyrun.samplers.method import Arm, Method


def build(arm: Arm, process: Process, seconds: float) -> Method:
    """The method of an arm."""
    return OnePass(arm, process, seconds, arm.sampler.particles)


class OnePass(Particles):
    """All weights 1 within the pass."""

    label = "One-pass SMC"

    def weights(self, step: int) -> tuple[float, float]:
        """(1, 1) while there are rows left."""
        return 1.0, float(step <= self.batches.in_epoch)
