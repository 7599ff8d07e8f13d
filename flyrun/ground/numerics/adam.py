"""Adam (Kingma & Ba 2015, Algorithm 1): steps by running means of a noisy gradient and of its square."""

from typing import NamedTuple

import numpy as np

from flyrun.ground.errors import FlyrunError

_TINY = 1e-8


def refuse_lost(gradient: np.ndarray, step: int, label: str) -> None:
    """Raise FlyrunError where the slope of a method's bound at a step is not finite."""
    if not np.isfinite(gradient).all():
        raise FlyrunError(
            f"step {step}: {label} leads away, the slope of its bound is not finite; "
            "try a smaller sampler.rate"
        )


class Adam(NamedTuple):
    """Step t = 1, 2, … is about rate·t^(−decay) long in every coordinate; kept: of the two means, by a step.

    At constant rate it hovers about the top for ever; it settles there with a decay, 1/2 in their theorem.
    """

    rate: float
    kept: tuple[float, float] = (0.9, 0.999)
    decay: float = 0.0

    def climbed(
        self, at: np.ndarray, gradient: np.ndarray, slope: np.ndarray, square: np.ndarray, t: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Where step t leads, uphill, and the two means, of any one shape; what is given stays."""
        first, second = self.kept
        slope = first * slope + (1 - first) * gradient
        square = second * square + (1 - second) * gradient**2
        even = np.sqrt(square / (1 - second**t)) + _TINY
        return at + self.rate * t**-self.decay * slope / (1 - first**t) / even, slope, square
