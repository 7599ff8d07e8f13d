"""Chains of their own whose steps read batches of rows."""

from typing import ClassVar, Literal

from flyrun.config.sampler.base import Sampler
from flyrun.config.schema import option, ranged


class Subsampling(Sampler):
    """A chain of its own whose steps read batches of rows."""

    home: ClassVar[str] = "flyrun.samplers.subsampling"
    family: ClassVar[str] = "flyrun.samplers.subsampling.method"


@option("sampler", "sgld")
class Sgld(Subsampling):
    """Stochastic gradient Langevin dynamics, steps step·(delay + t)^(-decay), no acceptance test: biased."""

    paper: ClassVar[str] = "Welling and Teh 2011; Angelino, Johnson and Adams 2016, Algorithm 8"
    batch: int = ranged(500, at_least=1)
    batches: Literal["epochs", "replacement"] = "epochs"
    step: float = ranged(1e-4, above=0)
    delay: float = ranged(1.0, above=0)
    decay: float = ranged(0.55, at_least=0, at_most=1)
