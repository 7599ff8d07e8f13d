"""Inference of global and local variables."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from flyrun.experiments.config.sampler.base import Sampler
from flyrun.ground.schema import option, setting


@dataclass(frozen=True)
class OfHierarchies(Sampler):
    """What fits a density of the global variables, each local one given it, batch by batch."""

    home: ClassVar[str] = "flyrun.experiments.samplers.hierarchies"
    family: ClassVar[str] = "flyrun.experiments.samplers.hierarchies.method"
    kinds: ClassVar[tuple[str, ...]] = ("hierarchy",)
    batches: ClassVar[str] = "epochs"
    batch: int | None = setting(100, "rows a step; null: all", at_least=1)


@option("sampler", "svi")
class Svi(OfHierarchies):
    """Stochastic variational inference, by natural gradients; batch=null decay=0 is coordinate ascent."""

    paper: ClassVar[str] = "Hoffman, Blei, Wang and Paisley 2013"
    rate: float = setting(1.0, "steps are rate·(delay + t)^(-decay)", above=0, at_most=1)
    delay: float = setting(1.0, "steps by which the schedule is late", at_least=1)
    decay: float = setting(0.7, "0: all steps alike", at_least=0, at_most=1)


@option("sampler", "memoized_vi")
class MemoizedVi(OfHierarchies):
    """Memoized variational inference: what each batch says is kept and replaced, without a step size."""

    paper: ClassVar[str] = "Hughes and Sudderth 2013"


@option("sampler", "streaming_vi")
class StreamingVi(OfHierarchies):
    """Streaming variational Bayes: each batch is fitted under what those before it made, and read once."""

    paper: ClassVar[str] = "Broderick, Boyd, Wibisono, Wilson and Jordan 2013"
    batch: int | None = setting(
        500, "rows a step; null: all; after the last batch steps do nothing", at_least=1
    )
    inner: int = setting(10, "ascents of a batch under its prior", at_least=1)
    stale: int = setting(
        0,
        "batches before it that a simulated worker has not seen, as if so many more worked at once",
        at_least=0,
    )
    team: Literal["simulated", "threads", "processes", "dask"] = setting(
        "simulated",
        "or real workers that post what they find as it comes: threads, processes, dask of this machine",
    )
    workers: int = setting(1, "how many real ones work at once", at_least=1, at_most=1024)

    def unfit(self, arm: Any) -> str:
        """As in the base class; real workers are as late as they are, simulated ones as they are told."""
        if self.stale and self.team != "simulated":
            return f"sampler.stale={self.stale}: real workers are as late as they are; choose sampler.stale=0"
        if self.workers > 1 and self.team == "simulated":
            late = f"choose sampler.stale={self.workers - 1}, or sampler.team=threads"
            return f"sampler.workers={self.workers}: simulated workers are told by how late they are; {late}"
        return super().unfit(arm)


@dataclass(frozen=True)
class OfMeans(OfHierarchies):
    """What knows one mean and a variable of each row about it, and reads all rows a step."""

    models: ClassVar[tuple[str, ...]] = ("normal_means", "poisson_means")
    batch: ClassVar[int | None] = None  # type: ignore[misc]


@option("sampler", "local_bbvi")
class LocalBbvi(OfMeans):
    """Black-box variational inference with a Gaussian for each local variable and one for the global one.

    baseline: what is done about the estimate's variance; leave_one_out includes rao_blackwell.
    """

    paper: ClassVar[str] = "Ranganath, Gerrish and Blei 2014; Kingma and Ba 2015"
    draws: int = setting(10, "of all variables, a step", at_least=2)
    rate: float = setting(0.1, "of Adam, steps of rate·t^(-decay)", above=0)
    decay: float = setting(0.5, "0: all steps alike", at_least=0, at_most=1)
    baseline: Literal["none", "rao_blackwell", "leave_one_out"] = setting(
        "rao_blackwell", "none | rao_blackwell: a variable's own terms alone | leave_one_out"
    )


@option("sampler", "hierarchical_ep")
class HierarchicalEp(OfMeans):
    """Expectation propagation of shards with local variables of their own, its moments by Gibbs sampling."""

    paper: ClassVar[str] = "Gelman et al. 2014; Xu, Lakshminarayanan, Teh, Zhu and Zhang 2014"
    shards: int = setting(8, "of the rows", at_least=1)
    draws: int = setting(100, "of a shard's variables a round, a query of its rows each", at_least=2)
    damping: float = setting(0.5, "share of the way that a site moves a round", above=0, at_most=1)
