"""A random walk whose luck is known by iteration, so that whoever runs ahead of it finds the same steps.

Normals and the uniform of iteration t come from a counter, (key, t). The step is tuned by outcomes alone, and
so is known on every path of them: Robbins and Monro on log step, as Andrieu & Thoms (2008), Algorithm 4, with
the outcome in place of its probability.
"""

import math
from typing import NamedTuple

import numpy as np

from flyrun.ground.numerics.state import seeded

_AHEAD = 4096  # iterations whose luck is remembered


class Luck(NamedTuple):
    """What chance gives an iteration."""

    noise: np.ndarray  # (P,) standard normals
    log_u: float  # of the test of acceptance
    log_v: float  # of the test before it, by scheme=delayed


class Step(NamedTuple):
    """Logarithm of the step in use, and its mean over the second half of burn-in, which it is frozen at."""

    log: float
    average: float = 0.0


class Walk:
    """θ' = θ + step·R·noise, accepted where log u is less than the ratio's logarithm. Knows no data.

    key: (2,) uint64.  root: R, (P, P).  fixed: whether the step is kept.
    """

    def __init__(self, key: np.ndarray, root: np.ndarray, target: float, burn_in: int, fixed: bool):
        self.key, self.root = key, root
        self.target, self.burn_in, self.fixed = target, burn_in, fixed
        self._known: dict[int, Luck] = {}

    def luck(self, t: int) -> Luck:
        """Of iteration t, the same whenever and by whomever it is asked for."""
        if t not in self._known:
            if len(self._known) >= _AHEAD:
                self._known.clear()
            rng = np.random.Generator(np.random.Philox(counter=[0, 0, 0, t], key=self.key))
            noise = rng.standard_normal(len(self.root))
            self._known[t] = Luck(noise, -rng.standard_exponential(), -rng.standard_exponential())
        return self._known[t]

    def proposal(self, theta: np.ndarray, step: Step, luck: Luck) -> np.ndarray:
        """θ', (P,), from θ with an iteration's luck."""
        return theta + math.exp(step.log) * (self.root @ luck.noise)

    def tuned(self, step: Step, accepted: bool, t: int) -> Step:
        """The step after the outcome of iteration t; kept after burn-in."""
        if self.fixed or t >= self.burn_in:
            return step
        log = step.log + (t + 1.0) ** -0.6 * (accepted - self.target)
        average, half = step.average, self.burn_in // 2
        if t >= half:
            average += (log - average) / (t - half + 1)
        return Step(average if t == self.burn_in - 1 else log, average)


def key_of(seed: int, method: dict) -> np.ndarray:
    """The key of a seed's luck, (2,) uint64. method: what makes the chain, plain values."""
    return seeded(seed, method).integers(2**64, size=2, dtype=np.uint64)
