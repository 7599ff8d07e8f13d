"""Priors that are cut off at bounds: the number is a smooth function of a free one, which is sampled."""

import math
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from flyrun.families.prior_densities import Prior
from flyrun.ground.numerics.special import Numbers, sigmoid, softplus


@dataclass(frozen=True)
class Bounded(Prior):
    """A number's prior cut off at bounds, one of which may be infinite: up to a constant, of the free a.

    The number is lower + e^a, upper − e^a or, between both, lower + (upper − lower)·σ(a).
    """

    base: Prior
    lower: float = -math.inf
    upper: float = math.inf

    def __post_init__(self) -> None:
        """Raise ValueError where nothing is within."""
        if not self.lower < self.upper:
            raise ValueError

    @property
    def _both(self) -> bool:
        return math.isfinite(self.lower) and math.isfinite(self.upper)

    def number(self, a: Numbers) -> Numbers:
        """Of a, within the bounds."""
        if self._both:
            return self.lower + (self.upper - self.lower) * sigmoid(a)
        return self.upper - np.exp(a) if self.lower == -math.inf else self.lower + np.exp(a)

    def free(self, number: Numbers) -> Numbers:
        """The a of a number within the bounds."""
        if self._both:
            return np.log(number - self.lower) - np.log(self.upper - number)
        return np.log(self.upper - number if self.lower == -math.inf else number - self.lower)

    def changes(self, a: Numbers) -> tuple[Numbers, Numbers]:
        """The number's first and second derivative by a."""
        if self._both:
            pace = (self.upper - self.lower) * sigmoid(a) * sigmoid(np.negative(a))
            return pace, -np.tanh(0.5 * np.asarray(a)) * pace
        pace = -np.exp(a) if self.lower == -math.inf else np.exp(a)
        return pace, pace

    def log_density(self, a: Numbers) -> Numbers:
        """Of a, with the Jacobian, up to the log of the mass within the bounds."""
        log_pace = a
        if self._both:
            log_pace = math.log(self.upper - self.lower) - softplus(a) - softplus(np.negative(a))
        return self.base.log_density(self.number(a)) + log_pace

    def derivatives(self, a: Numbers) -> tuple[Numbers, Numbers]:
        """The slope and minus the second derivative by a."""
        slope, curvature = self.base.derivatives(self.number(a))
        pace, bend = self.changes(a)
        slope_of_pace: Numbers = 1.0
        curvature_of_pace: Numbers = 0.0
        if self._both:
            slope_of_pace = -np.tanh(0.5 * np.asarray(a))
            curvature_of_pace = 2.0 * sigmoid(a) * sigmoid(np.negative(a))
        return slope * pace + slope_of_pace, curvature * pace**2 - slope * bend + curvature_of_pace

    def draw(self, rng: np.random.Generator) -> float:
        """One a, by rejection."""
        while not self.lower < (number := self.base.draw(rng)) < self.upper:
            pass
        return float(self.free(number))

    def scaled(self, factor: float, shift: float = 0.0) -> Self:
        """Of shift + factor times the number."""
        lower, upper = shift + factor * self.lower, shift + factor * self.upper
        return replace(self, base=self.base.scaled(factor, shift), lower=lower, upper=upper)

    def __str__(self) -> str:
        """As people write it."""
        ends = {"lower": self.lower, "upper": self.upper}
        within = "".join(f", {key}={end:.10g}" for key, end in ends.items() if math.isfinite(end))
        return f"{str(self.base).removesuffix(')')}{within})"
