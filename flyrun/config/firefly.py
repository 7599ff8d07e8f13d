"""Choices of Firefly Monte Carlo: the likelihoods' lower bounds, and how brightness is resampled."""

from typing import Any, ClassVar, Literal

from flyrun.config.schema import Choice, option, ranged


class Bound(Choice):
    """Lower bounds of the likelihoods, or none."""

    home: ClassVar[str] = "flyrun.samplers.chain.bounds"
    firefly: ClassVar[bool] = True
    #: whether the MAP must be found first
    at_map: ClassVar[bool] = False

    def unfit(self, arm: Any) -> str:
        """As in the base class."""
        if arm.brightness is None or self.firefly == arm.brightness.firefly:
            return ""
        remedy = "bound=map or bound=untuned" if arm.brightness.firefly else "brightness=implicit"
        return (
            f"bound={self.name} and brightness={arm.brightness.name} do not go together: choose {remedy}, or "
            "none for both"
        )


@option("bound", "none")
class NoBound(Bound):
    """No lower bounds: every update looks at all data."""

    firefly: ClassVar[bool] = False
    idle: ClassVar[bool] = True
    suggests: ClassVar[tuple[str, ...]] = ("brightness=none",)


@option("bound", "untuned")
class Untuned(Bound):
    """The same bound for every datum: tight at margins ±xi, for softmax at η = xi·e_t, for Student-t noise at
    residuals of ±xi likelihood scales."""

    suggests: ClassVar[tuple[str, ...]] = ("brightness=implicit", "brightness.q=0.1")
    xi: float = ranged(1.5, at_least=0)


@option("bound", "map")
class Map(Bound):
    """Each datum's bound tight at the MAP, or `offset_sds` posterior sds from it by draw `direction_seed`.

    slack puts it lower, by slack times its expected pseudo-likelihood: (1 + slack) times as many data are
    bright, and θ moves more freely between them. 0 as in the paper; 0.3 to 0.5 serve Firefly-HMC best.
    """

    suggests: ClassVar[tuple[str, ...]] = ("brightness=implicit", "brightness.q=0.01")
    at_map: ClassVar[bool] = True
    slack: float = ranged(0.0, at_least=0)
    offset_sds: float = ranged(0.0, at_least=0)
    direction_seed: int = ranged(0, at_least=0)


class Brightness(Choice):
    """An update of the brightness variables, or none."""

    home: ClassVar[str] = "flyrun.samplers.chain.brightness"
    firefly: ClassVar[bool] = True

    @property
    def expects_tight(self) -> str:
        """How it is said that rates are made from the E L̃_n of bounds tight at the MAP; "" where not."""
        return ""

    def unfit(self, arm: Any) -> str:
        """As in the base class."""
        if not self.expects_tight or getattr(arm.bound, "offset_sds", 1) == 0:
            return ""
        return (
            f"{self.expects_tight} and bound={arm.bound.name} do not go together: its rates hold where "
            "bounds are tight at the MAP; choose bound=map, bound.offset_sds=0"
        )


@option("brightness", "none")
class NoBrightness(Brightness):
    """No auxiliary variables: the full-data target."""

    firefly: ClassVar[bool] = False
    idle: ClassVar[bool] = True


@option("brightness", "implicit")
class Implicit(Brightness):
    """Algorithm 2: dark data proposed to brighten with probability q, by geometric skips.

    q=auto proposes as many as are expected to be bright: q = Σ E L̃_n/N, for bounds tight at the MAP.
    """

    q: float | Literal["auto"] = ranged(0.01, at_least=1e-12, at_most=1)

    @property
    def expects_tight(self) -> str:
        """As in the base class."""
        return "brightness.q=auto" if self.q == "auto" else ""


@option("brightness", "per_datum")
class PerDatum(Brightness):
    """Algorithm 2 with q_n = factor times the expected L̃_n, for bounds tight at the MAP."""

    factor: float = ranged(2.0, above=0)

    @property
    def expects_tight(self) -> str:
        """As in the base class."""
        return "brightness=per_datum"


@option("brightness", "explicit")
class Explicit(Brightness):
    """Algorithm 1: a fraction of all z_n drawn anew each iteration, in one of three orders."""

    fraction: float = ranged(0.1, above=0, at_most=1)
    order: Literal["with_replacement", "without_replacement", "sequential"] = "with_replacement"
