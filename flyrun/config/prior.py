"""Choices of prior on the coefficients."""

from typing import ClassVar, Literal

from flyrun.config.schema import SCALE, Choice, option, ranged


class Prior(Choice):
    """A prior on the coefficients."""

    home: ClassVar[str] = "flyrun.models"
    smooth: ClassVar[bool] = True


@option("prior", "gaussian")
class Gaussian(Prior):
    """θ ~ N(0, scale² I); `held_out` takes the one of `grid` with the best test log likelihood at the MAP."""

    kernel: ClassVar[str] = "flyrun.models.gaussian_prior"
    scale: float | Literal["held_out"] = ranged(1.0, **SCALE)
    grid: tuple[float, ...] = ranged((0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0), **SCALE, at_least_one=True)


@option("prior", "laplace")
class Laplace(Prior):
    """θ_d ~ exp(-|θ_d|/scale)/(2 scale), independent; `held_out` as for the Gaussian prior."""

    kernel: ClassVar[str] = "flyrun.models.laplace_prior"
    smooth: ClassVar[bool] = False
    scale: float | Literal["held_out"] = ranged(1.0, **SCALE)
    grid: tuple[float, ...] = ranged(
        (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0), **SCALE, at_least_one=True
    )
