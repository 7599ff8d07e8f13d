"""Choices of prior on the coefficients."""

from typing import ClassVar, Literal

from flyrun.ground.schema import SCALE, Choice, option, setting


class Prior(Choice):
    """A prior on the coefficients."""

    home: ClassVar[str] = "flyrun.experiments.models"
    smooth: ClassVar[bool] = True


@option("prior", "gaussian")
class Gaussian(Prior):
    """Independent normal coefficients, θ ~ N(0, scale² I)."""

    kernel: ClassVar[str] = "flyrun.experiments.models.gaussian_prior"
    scale: float | Literal["held_out"] = setting(
        1.0, "a number, or held_out: the best of the grid by test log likelihood at the MAP", **SCALE
    )
    grid: tuple[float, ...] = setting(
        (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0), "scales that held_out tries", **SCALE, at_least_one=True
    )


@option("prior", "laplace")
class Laplace(Prior):
    """Independent Laplace coefficients (the lasso's), θ_d ~ exp(-|θ_d|/scale)/(2 scale)."""

    kernel: ClassVar[str] = "flyrun.experiments.models.laplace_prior"
    smooth: ClassVar[bool] = False
    scale: float | Literal["held_out"] = setting(
        1.0, "a number, or held_out: the best of the grid by test log likelihood at the MAP", **SCALE
    )
    grid: tuple[float, ...] = setting(
        (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0),
        "scales that held_out tries",
        **SCALE,
        at_least_one=True,
    )
