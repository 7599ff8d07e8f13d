"""Choices of how brightness variables are resampled."""

from typing import Any, ClassVar, Literal

from flyrun.ground.errors import ConfigError
from flyrun.ground.schema import Choice, option, setting


class Brightness(Choice):
    """An update of the brightness variables, or none."""

    home: ClassVar[str] = "flyrun.experiments.samplers.chain.brightness"
    firefly: ClassVar[bool] = True
    q: float | str | None = None

    @property
    def expects_tight(self) -> str:
        """How it is said that rates are made from the E L̃_n of bounds tight at the MAP; "" where not."""
        return ""

    def unfit(self, arm: Any) -> str:
        if not self.expects_tight or getattr(arm.bound, "offset_sds", 1) == 0:
            return ""
        return (
            f"{self.expects_tight} and bound={arm.bound.name} do not go together: its rates hold where "
            "bounds are tight at the MAP; choose bound=map, bound.offset_sds=0"
        )


@option("brightness", "none")
class NoBrightness(Brightness):
    """No auxiliary variables: the full-data target, which goes with bound=none."""

    firefly: ClassVar[bool] = False
    idle: ClassVar[bool] = True


@option("brightness", "implicit")
class Implicit(Brightness):
    """Algorithm 2: dark data proposed to brighten with probability q, by geometric skips.

    q=auto proposes as many as are expected to be bright: q = Σ E L̃_n/N, for bounds tight at the MAP.
    """

    paper: ClassVar[str] = "Maclaurin and Adams 2014, Algorithm 2"
    q: float | Literal["auto"] = setting(
        0.01,
        "probability that a dark datum is proposed to brighten; auto (for bound=map): as many as are "
        "expected bright",
        at_least=1e-12,
        at_most=1,
    )
    darken: float = setting(
        1.0, "probability that a bright datum is proposed to darken, at least q", at_least=1e-12, at_most=1
    )

    def check(self) -> None:
        super().check()
        if isinstance(self.q, float) and self.q > self.darken:
            raise ConfigError(
                f"brightness.darken={self.darken:g}: is below brightness.q={self.q:g}; choose at least that"
            )

    @property
    def expects_tight(self) -> str:
        return "brightness.q=auto" if self.q == "auto" else ""


@option("brightness", "per_datum")
class PerDatum(Brightness):
    """Algorithm 2 with a rate for each datum, factor times its expected L̃_n; needs bound=map or local.

    The bounds must be tight at the MAP.
    """

    paper: ClassVar[str] = "Maclaurin and Adams 2014, Algorithm 2; a rate for each datum ours"
    factor: float = setting(2.0, "q_n = factor · E L̃_n", above=0)

    @property
    def expects_tight(self) -> str:
        return "brightness=per_datum"


@option("brightness", "explicit")
class Explicit(Brightness):
    """Algorithm 1: a fraction of all z_n drawn anew each iteration, in one of three orders."""

    paper: ClassVar[str] = "Maclaurin and Adams 2014, Algorithm 1"
    fraction: float = setting(0.1, "of the data looked at in an iteration", above=0, at_most=1)
    order: Literal["with_replacement", "without_replacement", "sequential"] = setting(
        "with_replacement", "or without_replacement, sequential"
    )
