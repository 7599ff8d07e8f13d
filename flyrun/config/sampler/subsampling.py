"""Chains of their own whose steps read batches of rows."""

from typing import Any, ClassVar, Literal

from flyrun.config.sampler.base import Sampler
from flyrun.config.schema import option, setting, typed_choices


class Subsampling(Sampler):
    """A chain of its own whose steps read batches of rows."""

    home: ClassVar[str] = "flyrun.samplers.subsampling"
    family: ClassVar[str] = "flyrun.samplers.subsampling.method"


@option("sampler", "sgld")
class Sgld(Subsampling):
    """Stochastic gradient Langevin dynamics: gradients of a batch, noise, no acceptance test; biased.

    Steps are step·(delay + t)^(-decay). metric=hessian shapes them as the posterior's curvature at the
    MAP is. average=steps weighs positions by the steps.
    """

    paper: ClassVar[str] = "Welling and Teh 2011; Angelino, Johnson and Adams 2016, Algorithm 8"
    batch: int = setting(500, "rows of a batch", at_least=1)
    batches: Literal["epochs", "replacement"] = setting(
        "epochs", "all rows dealt out in an order drawn anew; replacement: each row drawn anew"
    )
    step: float = setting(1e-4, "steps are step·(delay + t)^(-decay)", above=0)
    delay: float = setting(1.0, "steps by which the schedule is late", above=0)
    decay: float = setting(0.55, "0: all steps alike", at_least=0, at_most=1)
    metric: Literal["identity", "hessian"] = setting(
        "identity", "hessian: steps shaped by the posterior's curvature at the MAP, in units of its variance"
    )
    average: Literal["even", "steps"] = setting(
        "even", "steps: positions weighted by their steps, not draws; for decay above 0"
    )

    @property
    def at_map(self) -> bool:  # type: ignore[override]
        return self.metric == "hessian"


@option("sampler", "sgld_cv")
class SgldCv(Subsampling):
    """SGLD with control variates: a batch says by how much gradients differ from those at the MAP; biased."""

    at_map: ClassVar[bool] = True
    paper: ClassVar[str] = "Baker, Fearnhead, Fox and Nemeth 2019"
    batch: int = setting(10, "rows of a batch", at_least=1)
    batches: Literal["epochs", "replacement"] = setting(
        "replacement", "each row drawn anew; epochs: all rows dealt out in an order drawn anew"
    )
    step: float = setting(0.2, "steps are step·(delay + t)^(-decay)", above=0)
    delay: float = setting(1.0, "steps by which the schedule is late", above=0)
    decay: float = setting(0.0, "0: all steps alike", at_least=0, at_most=1)
    metric: Literal["identity", "hessian"] = setting(
        "hessian",
        "steps shaped by the posterior's curvature at the MAP, in units of its variance; identity: as"
        " they are",
    )
    average: Literal["even", "steps"] = setting(
        "even", "steps: positions weighted by their steps, not draws; for decay above 0"
    )


@option("sampler", "zigzag")
class ZigZag(Subsampling):
    """Zig-Zag with control variates at the MAP, exact: a path of straight lines.

    Order 1 is the paper's, 2 knows the curvature too. slice is the time of a step, at whose end the path
    is a draw.
    """

    paper: ClassVar[str] = "Bierkens, Fearnhead and Roberts 2019; order 2 and its bounds ours"
    order: int = setting(
        2,
        "of what the path knows without data: 1 (Bierkens et al.) | 2 (ours: the curvature too)",
        at_least=1,
        at_most=2,
    )
    bounds: Literal["local", "global"] = setting("local", "constants of each datum; global: one for all")
    slice: float = setting(0.5, "time of a step, in posterior sds at a speed of 1", above=0, at_most=1e4)

    def unfit(self, arm: Any) -> str:
        """As in the base class; it needs the MAP, one predictor with bounded derivatives, a smooth prior."""
        if 3 not in arm.model.orders:
            fitting = typed_choices("model", lambda cls: 3 in getattr(cls, "orders", ()))
            return (
                f"sampler={self.name}: model={arm.model.name} has no bound of third derivatives by one "
                f"predictor for it; choose {fitting}"
            )
        if arm.prior is not None and not arm.prior.smooth:
            return f"sampler={self.name}: its lines need a smooth prior; choose prior=gaussian"
        if arm.protocol.init != "map":
            return f"sampler={self.name}: bounds are of use near the mode; choose protocol.init=map"
        return super().unfit(arm)
