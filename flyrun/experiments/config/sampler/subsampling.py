"""Chains of their own whose steps read batches of rows."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from flyrun.experiments.config.sampler.base import Sampler
from flyrun.ground.schema import option, setting, typed_choices


class Subsampling(Sampler):
    """A chain of its own whose steps read batches of rows."""

    home: ClassVar[str] = "flyrun.experiments.samplers.subsampling"
    family: ClassVar[str] = "flyrun.experiments.samplers.subsampling.method"


@dataclass(frozen=True)
class ByGradients(Subsampling):
    """A chain by gradients of batches, without a test of acceptance."""

    batch: int = setting(500, "rows of a batch", at_least=1)
    batches: Literal["epochs", "replacement"] = setting(
        "replacement", "each row drawn anew; epochs: all rows dealt out in an order drawn anew"
    )


@dataclass(frozen=True)
class Shaped(ByGradients):
    """One whose steps may have the posterior's shape."""

    metric: Literal["identity", "hessian"] = setting(
        "identity", "hessian: steps shaped by the posterior's curvature at the MAP, in units of its variance"
    )

    @property
    def at_map(self) -> bool:  # type: ignore[override]
        return self.metric == "hessian"


@option("sampler", "sgld")
class Sgld(Shaped):
    """Stochastic gradient Langevin dynamics: gradients of a batch, noise, no acceptance test; biased.

    Steps are step·(delay + t)^(-decay). metric=hessian shapes them as the posterior's curvature at the
    MAP is. average=steps weighs positions by the steps.
    """

    paper: ClassVar[str] = "Welling and Teh 2011; Angelino, Johnson and Adams 2016, Algorithm 8"
    batches: Literal["epochs", "replacement"] = setting(
        "epochs", "all rows dealt out in an order drawn anew; replacement: each row drawn anew"
    )
    step: float = setting(1e-4, "steps are step·(delay + t)^(-decay)", above=0)
    delay: float = setting(1.0, "steps by which the schedule is late", above=0)
    decay: float = setting(0.55, "0: all steps alike", at_least=0, at_most=1)
    floor: float = setting(0.0, "no step is below it: the survey's limit of the steps", at_least=0)
    average: Literal["even", "steps"] = setting(
        "even", "steps: positions weighted by their steps, not draws; for decay above 0"
    )


@option("sampler", "sgld_cv")
class SgldCv(ByGradients):
    """SGLD with control variates: a batch says by how much gradients differ from those at the MAP; biased."""

    at_map: ClassVar[bool] = True
    paper: ClassVar[str] = "Baker, Fearnhead, Fox and Nemeth 2019"
    batch: int = setting(10, "rows of a batch", at_least=1)
    step: float = setting(0.2, "steps are step·(delay + t)^(-decay)", above=0)
    delay: float = setting(1.0, "steps by which the schedule is late", above=0)
    decay: float = setting(0.0, "0: all steps alike", at_least=0, at_most=1)
    floor: float = setting(0.0, "no step is below it: the survey's limit of the steps", at_least=0)
    metric: Literal["identity", "hessian"] = setting(
        "hessian",
        "steps shaped by the posterior's curvature at the MAP, in units of its variance; identity: as"
        " they are",
    )
    average: Literal["even", "steps"] = setting(
        "even", "steps: positions weighted by their steps, not draws; for decay above 0"
    )


_OF_TIME = "time of a step; with metric=hessian in posterior sds at a speed of 1"


@option("sampler", "sghmc")
class Sghmc(Shaped):
    """Stochastic gradient Hamiltonian Monte Carlo: a momentum with friction, no acceptance test; biased."""

    paper: ClassVar[str] = "Chen, Fox and Guestrin 2014"
    step: float = setting(0.01, _OF_TIME, above=0)
    friction: float = setting(2.0, "of the momentum, by time", above=0)
    noise: Literal["ignored", "estimated"] = setting(
        "ignored", "of batches; estimated: taken off what is added, from the rows' own gradients"
    )


@option("sampler", "sgnht")
class Sgnht(Shaped):
    """Stochastic gradient Nosé-Hoover thermostat: friction learns the noise of batches; biased."""

    paper: ClassVar[str] = "Ding, Fang, Babbush, Chen, Skeel and Neven 2014"
    step: float = setting(0.01, _OF_TIME, above=0)
    diffusion: float = setting(2.0, "noise that is added, and the first friction", above=0)


@option("sampler", "sgfs")
class Sgfs(ByGradients):
    """Stochastic gradient Fisher scoring: steps by the scores' covariance, noise by batches; biased."""

    paper: ClassVar[str] = "Ahn, Korattikara and Welling 2012"
    batch: int = setting(500, "rows of a batch", at_least=2)
    step: float = setting(1.0, "ε: the noise that is added is 4/ε of the batches' and more", above=0)

    def unfit(self, arm: Any) -> str:
        """As in the base class; the prior's curvature makes its metric positive definite."""
        if arm.prior is not None and not arm.prior.smooth:
            return f"sampler={self.name}: its metric needs a smooth prior; choose prior=gaussian"
        return super().unfit(arm)


@option("sampler", "constant_sgd")
class ConstantSgd(ByGradients):
    """Stochastic gradient descent with a constant step as a sampler: batches make all its noise; biased."""

    at_map: ClassVar[bool] = True
    paper: ClassVar[str] = "Mandt, Hoffman and Blei 2017"
    step: float = setting(1.0, "in units of the step of least KL", above=0)
    preconditioner: Literal["scalar", "diagonal", "full"] = setting(
        "full", "of least KL: the inverse of the gradient noise at the MAP; scalar: one step for all"
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
