"""Priors of one number, each declared once: its density, derivatives, a draw, and how people write it.

Some are of a number above 0 and some of a chance, which are sampled as a = log s or a = logit s: densities
are of a then, with the Jacobian. The others are of a itself.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from typing import ClassVar, Literal, Self

import numpy as np

from flyrun.ground.numerics.special import Numbers, sigmoid, softplus

_ROUNDED = 0.1  # scales about a corner, where its derivatives are those of a curve
_LEAST, _MOST = -700.0, 700.0  # of a log that is drawn


def shortest(value: float) -> str:
    """The shortest text that is this number."""
    return repr(float(value)).removesuffix(".0")


@dataclass(frozen=True)
class Prior(ABC):
    """Of a number. word: what people write before its parentheses; of: what a is of the number, "" itself.

    Fields are above 0, but `mean`.
    """

    word: ClassVar[str]
    of: ClassVar[Literal["", "log", "logit"]] = ""

    @abstractmethod
    def log_density(self, a: Numbers) -> Numbers:
        """Of a."""

    @abstractmethod
    def derivatives(self, a: Numbers) -> tuple[Numbers, Numbers]:
        """The slope and minus the second derivative by a."""

    @abstractmethod
    def draw(self, rng: np.random.Generator) -> float:
        """One a."""

    @abstractmethod
    def scaled(self, factor: float, shift: float = 0.0) -> Self:
        """Of shift + factor times the number; shift is 0 of one above 0, and factor 1 of a chance."""

    def __str__(self) -> str:
        """As people write it."""
        return f"{self.word}({', '.join(f'{getattr(self, field.name):.10g}' for field in fields(self))})"


@dataclass(frozen=True)
class Normal(Prior):
    """N(mean, sd²)."""

    mean: float
    sd: float
    word: ClassVar[str] = "normal"

    def log_density(self, a: Numbers) -> Numbers:
        """Of a."""
        return -0.5 * ((a - self.mean) / self.sd) ** 2 - math.log(self.sd) - 0.5 * math.log(2.0 * math.pi)

    def derivatives(self, a: Numbers) -> tuple[Numbers, Numbers]:
        """The slope and minus the second derivative by a."""
        return (self.mean - a) / self.sd**2, np.full(np.shape(a), self.sd**-2)

    def draw(self, rng: np.random.Generator) -> float:
        """One a."""
        return rng.normal(self.mean, self.sd)

    def scaled(self, factor: float, shift: float = 0.0) -> Self:
        """Of shift + factor times the number."""
        return replace(self, mean=shift + factor * self.mean, sd=factor * self.sd)


@dataclass(frozen=True)
class StudentT(Prior):
    """mean + scale·t of so many degrees of freedom."""

    dof: float
    mean: float
    scale: float
    word: ClassVar[str] = "student_t"

    def log_density(self, a: Numbers) -> Numbers:
        """Of a."""
        level = math.lgamma(0.5 * (self.dof + 1.0)) - math.lgamma(0.5 * self.dof) - math.log(self.scale)
        level -= 0.5 * math.log(self.dof * math.pi)
        return level - 0.5 * (self.dof + 1.0) * np.log1p(((a - self.mean) / self.scale) ** 2 / self.dof)

    def derivatives(self, a: Numbers) -> tuple[Numbers, Numbers]:
        """The slope and minus the second derivative by a."""
        away = a - self.mean
        whole = self.dof * self.scale**2 + away**2
        return -(self.dof + 1.0) * away / whole, (self.dof + 1.0) * (whole - 2.0 * away**2) / whole**2

    def draw(self, rng: np.random.Generator) -> float:
        """One a."""
        return self.mean + self.scale * rng.standard_t(self.dof)

    def scaled(self, factor: float, shift: float = 0.0) -> Self:
        """Of shift + factor times the number."""
        return replace(self, mean=shift + factor * self.mean, scale=factor * self.scale)

    def __str__(self) -> str:
        """As people write it."""
        return f"cauchy({self.mean:.10g}, {self.scale:.10g})" if self.dof == 1.0 else super().__str__()


@dataclass(frozen=True)
class Laplace(Prior):
    """Of density exp(−|a − mean|/scale)/(2·scale)."""

    mean: float
    scale: float
    word: ClassVar[str] = "laplace"

    def log_density(self, a: Numbers) -> Numbers:
        """Of a."""
        return -np.abs(a - self.mean) / self.scale - math.log(2.0 * self.scale)

    def derivatives(self, a: Numbers) -> tuple[Numbers, Numbers]:
        """The slope and minus the second derivative by a, whose corner is rounded."""
        away = (a - self.mean) / self.scale
        reach = np.sqrt(away**2 + _ROUNDED**2)
        return -away / reach / self.scale, _ROUNDED**2 / reach**3 / self.scale**2

    def draw(self, rng: np.random.Generator) -> float:
        """One a."""
        return rng.laplace(self.mean, self.scale)

    def scaled(self, factor: float, shift: float = 0.0) -> Self:
        """Of shift + factor times the number."""
        return replace(self, mean=shift + factor * self.mean, scale=factor * self.scale)


@dataclass(frozen=True)
class Flat(Prior):
    """Alike everywhere: a density of 1, whose integral is infinite."""

    word: ClassVar[str] = "flat"

    def log_density(self, a: Numbers) -> Numbers:
        """Of a."""
        return np.zeros(np.shape(a))

    def derivatives(self, a: Numbers) -> tuple[Numbers, Numbers]:
        """None."""
        return np.zeros(np.shape(a)), np.zeros(np.shape(a))

    def draw(self, rng: np.random.Generator) -> float:
        """There is none: raises ValueError."""
        raise ValueError("flat: a density whose integral is infinite has no draws")

    def scaled(self, factor: float, shift: float = 0.0) -> Self:
        """As it is."""
        return self

    def __str__(self) -> str:
        """As people write it."""
        return self.word


@dataclass(frozen=True)
class Constant(Prior):
    """All of the mass at one number, which is known."""

    value: float
    word: ClassVar[str] = "constant"

    def log_density(self, a: Numbers) -> Numbers:
        """0 there, −∞ elsewhere."""
        return np.where(np.equal(a, self.value), 0.0, -np.inf)

    def derivatives(self, a: Numbers) -> tuple[Numbers, Numbers]:
        """None."""
        return np.zeros(np.shape(a)), np.zeros(np.shape(a))

    def draw(self, rng: np.random.Generator) -> float:
        """The number."""
        return self.value

    def scaled(self, factor: float, shift: float = 0.0) -> Self:
        """Of shift + factor times the number."""
        return replace(self, value=shift + factor * self.value)

    def __str__(self) -> str:
        """As people write it."""
        return f"{self.word}({shortest(self.value)})"


@dataclass(frozen=True)
class LogGamma(Prior):
    """s ~ Gamma(shape, rate): of shape 1 an exponential of mean 1/rate; a = log s."""

    shape: float
    rate: float
    word: ClassVar[str] = "gamma"
    of: ClassVar[Literal["", "log", "logit"]] = "log"

    def log_density(self, a: Numbers) -> Numbers:
        """Of a, with the Jacobian of the logarithm."""
        level = self.shape * math.log(self.rate) - math.lgamma(self.shape)
        return level + self.shape * a - self.rate * np.exp(a)

    def derivatives(self, a: Numbers) -> tuple[Numbers, Numbers]:
        """The slope and minus the second derivative by a."""
        rise = self.rate * np.exp(a)
        return self.shape - rise, rise

    def draw(self, rng: np.random.Generator) -> float:
        """One a."""
        return math.log(max(rng.gamma(self.shape, 1.0 / self.rate), 1e-300))

    def scaled(self, factor: float, shift: float = 0.0) -> Self:
        """Of factor times the number."""
        return replace(self, rate=self.rate / factor)

    def __str__(self) -> str:
        """The distribution of s, as people write it."""
        return f"exponential({self.rate:g})" if self.shape == 1.0 else f"gamma({self.shape:g}, {self.rate:g})"


@dataclass(frozen=True)
class HalfNormal(Prior):
    """s = |N(0, sd²)|; a = log s."""

    sd: float
    word: ClassVar[str] = "half_normal"
    of: ClassVar[Literal["", "log", "logit"]] = "log"

    def log_density(self, a: Numbers) -> Numbers:
        """Of a, with the Jacobian of the logarithm."""
        level = 0.5 * math.log(2.0 / math.pi) - math.log(self.sd)
        return a - 0.5 * np.exp(2.0 * (a - math.log(self.sd))) + level

    def derivatives(self, a: Numbers) -> tuple[Numbers, Numbers]:
        """The slope and minus the second derivative by a."""
        square = np.exp(2.0 * (a - math.log(self.sd)))
        return 1.0 - square, 2.0 * square

    def draw(self, rng: np.random.Generator) -> float:
        """One a."""
        return math.log(max(abs(rng.normal(0.0, self.sd)), 1e-300))

    def scaled(self, factor: float, shift: float = 0.0) -> Self:
        """Of factor times the number."""
        return replace(self, sd=factor * self.sd)


@dataclass(frozen=True)
class HalfT(Prior):
    """s = |scale·t| of so many degrees of freedom; a = log s."""

    dof: float
    scale: float
    word: ClassVar[str] = "half_t"
    of: ClassVar[Literal["", "log", "logit"]] = "log"

    def log_density(self, a: Numbers) -> Numbers:
        """Of a, with the Jacobian of the logarithm."""
        return a + math.log(2.0) + StudentT(self.dof, 0.0, self.scale).log_density(np.exp(a))

    def derivatives(self, a: Numbers) -> tuple[Numbers, Numbers]:
        """The slope and minus the second derivative by a."""
        share = sigmoid(2.0 * (a - math.log(self.scale)) - math.log(self.dof))
        return 1.0 - (self.dof + 1.0) * share, 2.0 * (self.dof + 1.0) * share * (1.0 - share)

    def draw(self, rng: np.random.Generator) -> float:
        """One a."""
        return math.log(max(abs(self.scale * rng.standard_t(self.dof)), 1e-300))

    def scaled(self, factor: float, shift: float = 0.0) -> Self:
        """Of factor times the number."""
        return replace(self, scale=factor * self.scale)

    def __str__(self) -> str:
        """As people write it."""
        if self.dof == 1.0:
            return f"half_cauchy({self.scale:.10g})"
        return f"half_t({self.dof:.10g}, 0, {self.scale:.10g})"


@dataclass(frozen=True)
class InverseGamma(Prior):
    """1/s ~ Gamma(shape, rate=scale); a = log s."""

    shape: float
    scale: float
    word: ClassVar[str] = "inverse_gamma"
    of: ClassVar[Literal["", "log", "logit"]] = "log"

    def log_density(self, a: Numbers) -> Numbers:
        """Of a, with the Jacobian of the logarithm."""
        return LogGamma(self.shape, self.scale).log_density(np.negative(a))

    def derivatives(self, a: Numbers) -> tuple[Numbers, Numbers]:
        """The slope and minus the second derivative by a."""
        slope, curvature = LogGamma(self.shape, self.scale).derivatives(np.negative(a))
        return np.negative(slope), curvature

    def draw(self, rng: np.random.Generator) -> float:
        """One a."""
        return -LogGamma(self.shape, self.scale).draw(rng)

    def scaled(self, factor: float, shift: float = 0.0) -> Self:
        """Of factor times the number."""
        return replace(self, scale=factor * self.scale)


@dataclass(frozen=True)
class LogNormal(Normal):
    """log s ~ N(mean, sd²); a = log s."""

    word: ClassVar[str] = "lognormal"
    of: ClassVar[Literal["", "log", "logit"]] = "log"

    def scaled(self, factor: float, shift: float = 0.0) -> Self:
        """Of factor times the number."""
        return replace(self, mean=self.mean + math.log(factor))


@dataclass(frozen=True)
class LogitBeta(Prior):
    """s ~ Beta(a, b), a chance; a = logit s."""

    a: float
    b: float
    word: ClassVar[str] = "beta"
    of: ClassVar[Literal["", "log", "logit"]] = "logit"

    def log_density(self, a: Numbers) -> Numbers:
        """Of a, with the Jacobian of the logit."""
        level = math.lgamma(self.a + self.b) - math.lgamma(self.a) - math.lgamma(self.b)
        return level - self.a * softplus(np.negative(a)) - self.b * softplus(a)

    def derivatives(self, a: Numbers) -> tuple[Numbers, Numbers]:
        """The slope and minus the second derivative by a."""
        chance = sigmoid(a)
        return self.a - (self.a + self.b) * chance, (self.a + self.b) * chance * (1.0 - chance)

    def draw(self, rng: np.random.Generator) -> float:
        """One a."""
        return LogGamma(self.a, 1.0).draw(rng) - LogGamma(self.b, 1.0).draw(rng)

    def scaled(self, factor: float, shift: float = 0.0) -> Self:
        """As it is."""
        return self


@dataclass(frozen=True)
class Lkj(Prior):
    """Of a correlation of two, tanh a: its density is (1 − cor²)^(eta − 1), up to a constant."""

    eta: float
    word: ClassVar[str] = "lkj"

    def log_density(self, a: Numbers) -> Numbers:
        """Of a, up to a constant."""
        return -2.0 * self.eta * np.log(np.cosh(a))

    def derivatives(self, a: Numbers) -> tuple[Numbers, Numbers]:
        """By a."""
        correlation = np.tanh(a)
        return -2.0 * self.eta * correlation, 2.0 * self.eta * (1.0 - correlation**2)

    def draw(self, rng: np.random.Generator) -> float:
        """One a."""
        return float(np.arctanh(2.0 * rng.beta(self.eta, self.eta) - 1.0))

    def scaled(self, factor: float, shift: float = 0.0) -> Self:
        """A correlation has no unit."""
        return self
