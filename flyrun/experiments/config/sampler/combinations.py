"""Draws of the posterior out of those of its parts on shards of the data."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from flyrun.experiments.config.protocol import Budget
from flyrun.experiments.config.sampler.base import Sampler, with_sampler
from flyrun.ground.schema import option, setting, show
from flyrun.tables.dataset_options import Rows

#: of a kernel, in variances: what is narrower leaves nothing but rounding, what is wider no shape
_WIDTH: dict[str, Any] = {"at_least": 1e-8, "at_most": 1e8}


@dataclass(frozen=True)
class Combination(Sampler):
    """A rule that makes draws of the posterior out of those of `shards` subposteriors.

    These are cells of their own, of sampler `draws_by` and the arm's bound and brightness, as long as its
    protocol says; rules share them. Seed s has the split dataset.shards_seed + s. shards=1: the draws of all
    data as they are.
    """

    kernel: ClassVar[str] = "flyrun.experiments.samplers.combinations.rules"
    family: ClassVar[str] = "flyrun.experiments.samplers.combinations.method"
    needs: ClassVar[tuple[str, ...]] = ("bound", "brightness")
    suggests: ClassVar[tuple[str, ...]] = ("bound=none",)
    #: what is raised to make subposteriors that go together by this rule
    power: ClassVar[str] = "prior"
    shards: int = setting(
        4,
        "parts of the data, a cell each, with the prior to the power 1/shards; for pie and wasp the "
        "likelihood to the power shards",
        at_least=1,
        at_most=10_000,
    )
    draws_by: Literal["hmc", "random_walk", "independence", "mala", "slice"] = setting(
        "hmc", "sampler of the shards: hmc | random_walk | independence | mala | slice"
    )

    def needed_at(self, arm: Any, seed: int) -> tuple[Any, ...]:
        """The subposteriors."""
        whole = with_sampler(replace(arm, name=self.draws_by), self.draws_by, metric="hessian")
        if self.shards == 1:
            return (whole,)
        data, parts = arm.dataset, []
        for k in range(self.shards):
            seeded = {"shards_seed": data.shards_seed + seed, "shards_power": self.power}
            shard = replace(data, shard=(k, self.shards), **seeded)
            parts.append(replace(whole, name=f"{self.draws_by}_{k}_of_{self.shards}", dataset=shard))
        return tuple(parts)

    def unfit(self, arm: Any) -> str:
        """As in the base class; the data must have shards, and scales not be chosen by each of them."""
        for group in ("prior", "model"):
            scale = getattr(getattr(arm, group), "scale", 0.0)
            if isinstance(scale, str):
                return f"{group}.scale={scale}: every shard would choose its own; give a number"
        if arm.protocol.budget != Budget():
            return (
                "protocol.budget: shards would end after unlike numbers of draws; give protocol.iterations, "
                f"and protocol.budget.{arm.protocol.budget.unit}=null"
            )
        if not isinstance(arm.dataset, Rows):
            return f"sampler={self.name} and dataset={arm.dataset.name} do not fit: it has no shards"
        if arm.dataset.shard is not None:
            return (
                f"dataset.shard={show(arm.dataset.shard)}: sampler={self.name} makes shards of whole data; "
                "choose dataset.shard=null"
            )
        return super().unfit(arm)


@option("sampler", "consensus")
class Consensus(Combination):
    """Consensus Monte Carlo: weighted averages of the shards' draws, one of each.

    weights: by the inverse of a shard's covariance (full), of its diagonal or of its trace, or even ones.
    """

    paper: ClassVar[str] = "Scott et al. 2016; Angelino, Johnson and Adams 2016, Algorithm 12"
    weights: Literal["full", "diagonal", "scalar", "uniform"] = setting(
        "full", "inverse of a shard's covariance | diagonal | scalar | uniform"
    )


@option("sampler", "variational_consensus")
class VariationalConsensus(Combination):
    """Variational consensus: averages by coordinate, with weights learnt from the posterior's slopes."""

    kernel: ClassVar[str] = "flyrun.experiments.samplers.combinations.variational_consensus"
    paper: ClassVar[str] = "Rabinovich, Angelino and Jordan 2015"
    steps: int = setting(100, "of Adam on the weights", at_least=1)
    draws: int = setting(20, "of averages a step, each a query of all rows", at_least=1)
    rate: float = setting(0.1, "of Adam, steps of rate·t^(-1/2)", above=0)


@option("sampler", "gaussian_product")
class GaussianProduct(Combination):
    """Draws of the product of the Gaussians with the moments of the shards' draws."""

    paper: ClassVar[str] = "Neiswanger, Wang and Xing 2014; Angelino, Johnson and Adams 2016, Algorithm 13"


@option("sampler", "swiss")
class Swiss(Combination):
    """SwISS: draws of all shards, stretched and moved to the Gaussian product's moments."""

    paper: ClassVar[str] = "Vyner, Nemeth and Sherlock 2023"


@option("sampler", "pie")
class Pie(Combination):
    """PIE: averages over shards of the quantiles of each coordinate.

    Each subposterior has the likelihood to the power J.
    """

    paper: ClassVar[str] = "Li, Srivastava and Dunson 2017"
    power: ClassVar[str] = "likelihood"


@option("sampler", "wasp")
class Wasp(Combination):
    """WASP: the Wasserstein barycentre, in place and scale, of the shards' posteriors.

    Each subposterior has the likelihood to the power J.
    """

    paper: ClassVar[str] = "Srivastava, Li and Dunson 2018; Álvarez-Esteban et al. 2016"
    power: ClassVar[str] = "likelihood"


@option("sampler", "median_posterior")
class MedianPosterior(Combination):
    """The geometric median of the shards' posteriors, which few shards of wrong data cannot move far.

    Each subposterior has the likelihood to the power J.
    """

    paper: ClassVar[str] = "Minsker, Srivastava, Lin and Dunson 2014"
    power: ClassVar[str] = "likelihood"


@option("sampler", "kernel_product")
class KernelProduct(Combination):
    """The product of kernel density estimates of the shards' draws, by a chain on their components."""

    kernel: ClassVar[str] = "flyrun.experiments.samplers.combinations.kernel_product"
    paper: ClassVar[str] = "Neiswanger, Wang and Xing 2014, Algorithm 1"


@option("sampler", "semiparametric")
class Semiparametric(Combination):
    """The Gaussian product of the shards' draws, corrected by kernel density estimates."""

    kernel: ClassVar[str] = "flyrun.experiments.samplers.combinations.kernel_product"
    paper: ClassVar[str] = "Neiswanger, Wang and Xing 2014, section 3.3"


@option("sampler", "partition_trees")
class PartitionTrees(Combination):
    """The product of the shards' densities, as histograms on blocks that random trees cut.

    The trees cut at common medians; each block has a Gaussian. least is the share of a shard's draws that
    a block has at least.
    """

    kernel: ClassVar[str] = "flyrun.experiments.samplers.combinations.partition_trees"
    paper: ClassVar[str] = "Wang, Guo, Heller and Dunson 2015"
    trees: int = setting(8, "of each of which an even part of the draws is", at_least=1)
    least: float = setting(0.01, "share of a shard's draws that a block has at least", above=0, at_most=0.5)


@option("sampler", "weierstrass_rejection")
class WeierstrassRejection(Combination):
    """Averages of pairs of shards' draws that are near each other, by kernels as wide as `accepted` says."""

    kernel: ClassVar[str] = "flyrun.experiments.samplers.combinations.weierstrass_rejection"
    paper: ClassVar[str] = "Wang and Dunson 2013"
    accepted: float = setting(
        0.1, "share of the pairs that is kept: less, and kernels are narrower", at_least=1e-4, at_most=0.9
    )
    keep: Literal["rejection", "importance"] = setting(
        "rejection", "or importance: of 20,000 pairs or more some are drawn again, by weights"
    )


@option("sampler", "weierstrass_gibbs")
class WeierstrassGibbs(Sampler):
    """Weierstrass Gibbs: `shards` workers, tied to a hub by kernels of `bandwidth`, in a shard's variances.

    moves are a round's. Seed s has the split dataset.shards_seed + s.
    """

    home: ClassVar[str] = "flyrun.experiments.samplers.parallel"
    family: ClassVar[str] = "flyrun.experiments.samplers.parallel.weierstrass_gibbs"
    paper: ClassVar[str] = "Wang and Dunson 2013; Angelino, Johnson and Adams 2016, Algorithm 14"
    shards: int = setting(16, "parts of the data, a worker each", at_least=1, at_most=10_000)
    bandwidth: float = setting(
        0.1,
        "variance of the kernels, in units of a shard's variances; where extrapolated, of the wider ones",
        **_WIDTH,
    )
    moves: int = setting(1, "of each worker in a round", at_least=1)


@option("sampler", "weierstrass_extrapolated")
class WeierstrassExtrapolated(WeierstrassGibbs):
    """Weierstrass Gibbs of `bandwidth` and of half of it, extrapolated linearly to kernels of no width.

    Its draws have signed weights.
    """

    family: ClassVar[str] = "flyrun.experiments.samplers.parallel.weierstrass_extrapolated"
    paper: ClassVar[str] = "after Rendell et al. 2021"

    def needed_arms(self, arm: Any) -> tuple[Any, ...]:
        """Both chains, the wider first."""
        ways = ((1.0, "wide"), (0.5, "narrow"))
        return tuple(
            replace(
                with_sampler(arm, "weierstrass_gibbs", self, bandwidth=share * self.bandwidth),
                name=f"weierstrass_{word}_{self.shards}",
            )
            for share, word in ways
        )
