"""Updates of graphs, a variable at a time."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from flyrun.experiments.config.sampler.base import Sampler
from flyrun.ground.schema import option, setting

Estimator = Literal["auto", "faithful", "superposed"]


@dataclass(frozen=True)
class SiteUpdate(Sampler):
    """An update of one variable of a graph at a time."""

    home: ClassVar[str] = "flyrun.experiments.samplers.gibbs"
    family: ClassVar[str] = "flyrun.experiments.samplers.gibbs.method"
    kinds: ClassVar[tuple[str, ...]] = ("weights", "tables", "pairs")
    scan: Literal["random", "systematic", "permutation"] = setting(
        "random", "variables drawn evenly; systematic: all in their order; permutation: in a new one a sweep"
    )


@option("sampler", "gibbs")
class Gibbs(SiteUpdate):
    """Gibbs sampling, one variable at a time; scan=systematic is the survey's Algorithm 2."""

    paper: ClassVar[str] = "Geman and Geman 1984; Angelino, Johnson and Adams 2016, Algorithm 2"


class Minibatched(SiteUpdate):
    """One by minibatches of factors."""

    paper: ClassVar[str] = "De Sa, Chen and Wong 2018, Minibatch Gibbs Sampling on Large Graphical Models"


@option("sampler", "min_gibbs")
class MinGibbs(Minibatched):
    """MIN-Gibbs (Algorithm 2); mean batch λ = batch·Ψ²."""

    batch: float = setting(1.0, "mean batch in units of Ψ²", above=0)
    estimator: Literal["auto", "faithful", "superposed", "biased", "subset"] = setting(
        "auto",
        "faithful | superposed | auto: superposed where it can | biased: a mean of factors by their size | "
        "subset: of different factors, each as likely",
    )


@option("sampler", "local_minibatch")
class LocalMinibatch(Minibatched):
    """Local Minibatch Gibbs (Algorithm 3), biased: `batch` of a variable's factors stand for all."""

    batch: int = setting(40, "factors of the variable that stand for all", at_least=1)
    batches: Literal["fixed", "poisson"] = setting(
        "fixed",
        "poisson: each factor as often as a Poisson number says, by its size; so many on average at most",
    )


@option("sampler", "mgpmh")
class Mgpmh(Minibatched):
    """MGPMH (Algorithm 4); mean batch λ = batch·L²."""

    batch: float = setting(1.0, "mean batch in units of L²", above=0)
    estimator: Estimator = setting("auto", "faithful | superposed | auto: faithful, the faster one")


@option("sampler", "double_min")
class DoubleMin(Minibatched):
    """DoubleMIN-Gibbs (Algorithm 5); mean batches λ₁ = batch·L² (faithful) and λ₂ = second_batch·Ψ²."""

    batch: float = setting(1.0, "mean first batch in units of L², always faithful", above=0)
    second_batch: float = setting(1.0, "mean second batch in units of Ψ²", above=0)
    estimator: Estimator = setting(
        "auto", "of the second batch: faithful | superposed | auto: superposed where it can"
    )


@option("sampler", "poisson_gibbs")
class PoissonGibbs(SiteUpdate):
    """Zhang and De Sa's Gibbs sampler without rejections (2019); λ = batch·L²."""

    paper: ClassVar[str] = (
        "Zhang and De Sa 2019, Poisson-Minibatching for Gibbs Sampling with Convergence Rates"
    )
    batch: float = setting(1.0, "λ in units of L²", above=0)


@option("sampler", "polya_gamma")
class PolyaGamma(Sampler):
    """Gibbs sampling of logistic regression by Pólya-Gamma variables, one a row; exact, nothing to tune.

    Several processors draw their own coefficients at once, given the others' last: Hogwild Gibbs, biased.
    """

    family: ClassVar[str] = "flyrun.experiments.samplers.gibbs.polya_gamma"
    paper: ClassVar[str] = (
        "Polson, Scott and Windle 2013; by several processors Angelino, Johnson and Adams 2016, Algorithm 15"
    )
    processors: int = setting(1, "that share rows, and each draws a run of the coefficients", at_least=1)

    def unfit(self, arm: Any) -> str:
        if arm.model.name != "logistic":
            return f"sampler={self.name} and model={arm.model.name} do not fit: choose model=logistic"
        if arm.prior is not None and arm.prior.name != "gaussian":
            return f"sampler={self.name}: θ is Gaussian given its variables; choose prior=gaussian"
        return super().unfit(arm)
