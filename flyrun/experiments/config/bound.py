"""Choices of the likelihoods' lower bounds: none, untuned, or tight at the MAP."""

from typing import Any, ClassVar, Literal

from flyrun.ground.schema import Choice, option, setting


class Bound(Choice):
    """Lower bounds of the likelihoods, or none."""

    home: ClassVar[str] = "flyrun.experiments.samplers.chain.bounds"
    firefly: ClassVar[bool] = True
    #: whether the MAP must be found first
    at_map: ClassVar[bool] = False

    def unfit(self, arm: Any) -> str:
        if self.firefly and not arm.model.bounds:
            return f"bound={self.name}: model={arm.model.name} has no bounds; choose bound=none"
        if arm.brightness is None or self.firefly == arm.brightness.firefly:
            return ""
        remedy = "bound=map or bound=untuned" if arm.brightness.firefly else "brightness=implicit"
        return (
            f"bound={self.name} and brightness={arm.brightness.name} do not go together: choose {remedy}, or "
            "none for both"
        )


@option("bound", "none")
class NoBound(Bound):
    """No bounds: the regular chain, which evaluates every likelihood."""

    firefly: ClassVar[bool] = False
    idle: ClassVar[bool] = True
    suggests: ClassVar[tuple[str, ...]] = ("brightness=none",)


@option("bound", "untuned")
class Untuned(Bound):
    """One bound for all data, tight at margins ±xi.

    For probit it is tight at xi, for softmax at η = xi·e_t, for Student-t noise at residuals of ±xi
    likelihood scales.
    """

    paper: ClassVar[str] = "Maclaurin and Adams 2014"
    suggests: ClassVar[tuple[str, ...]] = ("brightness=implicit", "brightness.q=0.1")
    xi: float = setting(
        1.5,
        "tight at: logistic, margins of ±xi; probit, of xi; softmax, η = xi·e_t; student_t, residuals"
        " of ±xi scales",
        at_least=0,
        at_most=1e100,
    )


@option("bound", "map")
class Map(Bound):
    """Bounds tight at the MAP, or `offset_sds` posterior sds from it in a direction of `direction_seed`.

    slack lowers each bound by slack times its expected pseudo-likelihood: (1 + slack) times as many data
    are bright, and θ moves more freely between them. 0 is the paper's; 0.3 to 0.5 serve Firefly-HMC best.
    """

    paper: ClassVar[str] = "Maclaurin and Adams 2014; slack ours"
    suggests: ClassVar[tuple[str, ...]] = ("brightness=implicit", "brightness.q=0.01")
    at_map: ClassVar[bool] = True
    slack: float = setting(
        0.0,
        ("so much lower than tight, in units of the expected pseudo-likelihood; 0.3 to 0.5 help Firefly-HMC"),
        at_least=0,
    )
    offset_sds: float = setting(
        0.0, "so many posterior sds away from it, in every direction", at_least=0, at_most=1e6
    )
    direction_seed: int = setting(0, "which draw of the directions", at_least=0)


@option("bound", "local")
class Local(Bound):
    """Bounds tight at the MAP and, where the posterior is, as tight as they can be; beyond, as bound=map.

    The posterior is where all but `mass_outside` of the Gaussian of the curvature at the MAP lies;
    nothing is cut off. The more data, the fewer are bright. slack is as for bound=map; auto means 0.5, or
    0 where less than half a datum is bright. Chains that would begin beyond are moved in.
    """

    paper: ClassVar[str] = "Maclaurin and Adams 2014; bounds that tighten with the data ours"
    suggests: ClassVar[tuple[str, ...]] = ("brightness=per_datum",)
    at_map: ClassVar[bool] = True
    offset_sds: ClassVar[float] = 0.0
    slack: float | Literal["auto"] = setting(
        "auto",
        "as for bound=map; auto: 0.5, or 0 where less than half a datum is expected bright",
        at_least=0,
    )
    mass_outside: float = setting(
        1e-4,
        "of the Gaussian at the MAP, where the bounds of bound=map serve; exact with any",
        at_least=1e-100,
        at_most=0.999,
    )

    def unfit(self, arm: Any) -> str:
        """As in the base class; for models whose likelihoods are known to bend how far."""
        if not arm.model.local_bounds:
            return f"bound={self.name}: model={arm.model.name} has no such bounds; choose bound=map"
        return super().unfit(arm)
