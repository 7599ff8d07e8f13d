"""Chains of their own whose steps read batches of rows."""

from typing import Any, ClassVar, Literal

from flyrun.config.sampler.base import Sampler
from flyrun.config.schema import option, ranged, typed_choices


class Subsampling(Sampler):
    """A chain of its own whose steps read batches of rows."""

    home: ClassVar[str] = "flyrun.samplers.subsampling"
    family: ClassVar[str] = "flyrun.samplers.subsampling.method"

    @property
    def at_map(self) -> bool:
        """Whether the MAP must be found first."""
        return False


@option("sampler", "sgld")
class Sgld(Subsampling):
    """Stochastic gradient Langevin dynamics, steps step·(delay + t)^(-decay), no acceptance test: biased.

    metric=hessian: shaped as the posterior's curvature at the MAP is.  average=steps: weighted by the steps.
    """

    paper: ClassVar[str] = "Welling and Teh 2011; Angelino, Johnson and Adams 2016, Algorithm 8"
    batch: int = ranged(500, at_least=1)
    batches: Literal["epochs", "replacement"] = "epochs"
    step: float = ranged(1e-4, above=0)
    delay: float = ranged(1.0, above=0)
    decay: float = ranged(0.55, at_least=0, at_most=1)
    metric: Literal["identity", "hessian"] = "identity"
    average: Literal["even", "steps"] = "even"

    @property
    def at_map(self) -> bool:
        return self.metric == "hessian"


@option("sampler", "sgld_cv")
class SgldCv(Subsampling):
    """SGLD with control variates: a batch says by how much gradients differ from those at the MAP; biased."""

    paper: ClassVar[str] = "Baker, Fearnhead, Fox and Nemeth 2019"
    batch: int = ranged(10, at_least=1)
    batches: Literal["epochs", "replacement"] = "replacement"
    step: float = ranged(0.2, above=0)
    delay: float = ranged(1.0, above=0)
    decay: float = ranged(0.0, at_least=0, at_most=1)
    metric: Literal["identity", "hessian"] = "hessian"
    average: Literal["even", "steps"] = "even"

    @property
    def at_map(self) -> bool:
        return True


@option("sampler", "zigzag")
class ZigZag(Subsampling):
    """Zig-Zag with control variates at the MAP, exact; order 1 is the paper's, 2 knows the curvature too.

    slice: the time of a step, at whose end the path is a draw.
    """

    paper: ClassVar[str] = "Bierkens, Fearnhead and Roberts 2019; order 2 and its bounds ours"
    order: int = ranged(2, at_least=1, at_most=2)
    bounds: Literal["local", "global"] = "local"
    slice: float = ranged(0.5, above=0)

    def unfit(self, arm: Any) -> str:
        """As in the base class; it needs the MAP, one predictor with bounded derivatives, a smooth prior."""
        if 3 not in getattr(arm.model, "orders", ()):
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
