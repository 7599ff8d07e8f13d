"""What knows the mixture of two normals: Gibbs sampling and stochastic variational inference."""

from typing import Any, ClassVar

from flyrun.experiments.config.sampler.base import Sampler
from flyrun.experiments.config.sampler.streamed import ByBatches
from flyrun.ground.schema import option, setting


class OfTheMixture(Sampler):
    """What knows the mixture of two normals."""

    def unfit(self, arm: Any) -> str:
        if arm.model.name == "mixture" and arm.prior is not None and arm.prior.name == "gaussian":
            return ""
        return f"sampler={self.name} is for the mixture alone: choose model=mixture and prior=gaussian"


@option("sampler", "mixture_gibbs")
class MixtureGibbs(OfTheMixture):
    """Gibbs sampling of the mixture of two normals: every datum's normal, then both means.

    swap tries the other mode too.
    """

    family: ClassVar[str] = "flyrun.experiments.samplers.gibbs.mixture_gibbs"
    home: ClassVar[str] = "flyrun.experiments.samplers.gibbs"
    paper: ClassVar[str] = "Diebolt and Robert 1994; the swap ours"
    swap: bool = setting(False, "true: after each sweep (θ1 + θ2, -θ2) is tried, at no query")


@option("sampler", "mixture_svi")
class MixtureSvi(OfTheMixture, ByBatches):
    """Stochastic variational inference of the mixture of two normals: one Gaussian for the means."""

    kernel: ClassVar[str] = "flyrun.experiments.samplers.approximations.stochastic"
    paper: ClassVar[str] = "Hoffman, Blei, Wang and Paisley 2013"
    batch: int = setting(10, "rows a step", at_least=1)
    decay: float = setting(0.7, "power of the schedule, rate·(delay + t)^(-decay)", at_least=0, at_most=1)
