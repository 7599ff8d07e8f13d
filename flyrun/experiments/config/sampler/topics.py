"""Inference of topics."""

from dataclasses import dataclass
from typing import ClassVar

from flyrun.experiments.config.sampler.base import Sampler
from flyrun.ground.errors import ConfigError
from flyrun.ground.schema import option, setting, show


class TopicMethod(Sampler):
    """What learns the topics of documents."""

    home: ClassVar[str] = "flyrun.experiments.samplers.topics"
    family: ClassVar[str] = "flyrun.experiments.samplers.topics.method"
    kinds: ClassVar[tuple[str, ...]] = ("documents",)


@dataclass(frozen=True)
class BatchedTopics(TopicMethod):
    """Those that learn them from a batch of documents at a time."""

    batches: ClassVar[str] = "epochs"
    batch: int = setting(100, "documents", at_least=1)


@dataclass(frozen=True)
class SteppedTopics(BatchedTopics):
    """Those with a step a·(1 + t/b)^-c; c = 0 keeps it.

    step: a, b and c; null: the best of 60 on the validation documents, after search_passes over the others
    each.
    """

    #: what the step may be at most
    most: ClassVar[float | None] = None
    step: tuple[float, float, float] | None = setting(
        None, "a, b, c of the step a·(1 + t/b)^-c, [1,1,1] is 1/t; null: searched", at_least=0
    )
    search_passes: float = setting(
        5.0, "over the documents, for each of 60 steps tried", above=0, at_most=1_000
    )

    def check(self) -> None:
        super().check()
        if self.step is not None and min(self.step[:2]) <= 0:
            raise ConfigError(
                f"sampler.step={show(self.step)}: its first two numbers must be above 0, such as [1,1,1] for "
                "1/t"
            )
        if self.step is not None and self.most is not None and self.step[0] > self.most:
            raise ConfigError(
                f"sampler.step={show(self.step)}: its first number, the first step, is a share and must be "
                f"at most {self.most:g}, such as [1,1,1] for 1/t"
            )


@dataclass(frozen=True)
class SampledTopics(BatchedTopics):
    """Those that deal out tokens by Gibbs sampling: `sweeps` over a batch, the last `kept` averaged."""

    sweeps: int = setting(10, "of Gibbs sampling over a batch", at_least=1)
    kept: int = setting(5, "of them, the last, that are averaged", at_least=1)

    def check(self) -> None:
        super().check()
        if self.kept > self.sweeps:
            raise ConfigError(f"sampler.kept={self.kept}: must be at most sampler.sweeps={self.sweeps}")


@option("sampler", "lda_pmd")
class LdaPmd(SampledTopics, SteppedTopics):
    """Topics by particle mirror descent with one particle, which is sparse stochastic inference."""

    kernel: ClassVar[str] = "flyrun.experiments.samplers.topics.lda_sampled"
    paper: ClassVar[str] = "Dai, He, Dai and Song 2016, appendix F; Mimno, Hoffman and Blei 2012"
    most: ClassVar[float | None] = 1.0


@dataclass(frozen=True)
class VariationalTopics(BatchedTopics):
    """Those that fit q(θ_d) of each document by iterations of its own."""

    most_iterations: int = setting(100, "on one document", at_least=1)
    tolerance: float = setting(1e-3, "mean change of a document's γ at which they end", above=0)


@option("sampler", "lda_svi")
class LdaSvi(SteppedTopics, VariationalTopics):
    """Topics by stochastic variational inference."""

    paper: ClassVar[str] = "Hoffman, Blei and Bach 2010; Hoffman, Blei, Wang and Paisley 2013"
    most: ClassVar[float | None] = 1.0


@option("sampler", "lda_streaming")
class LdaStreaming(VariationalTopics):
    """Topics by streaming variational Bayes: a batch of documents is fitted under what those before it made.

    Each document is read once; after the last batch steps do nothing.
    """

    paper: ClassVar[str] = "Broderick, Boyd, Wibisono, Wilson and Jordan 2013"
    batch: int = setting(1024, "documents", at_least=1)
    inner: int = setting(10, "ascents of a batch under its prior", at_least=1)
    stale: int = setting(0, "batches before it that a simulated worker has not seen", at_least=0)


@option("sampler", "lda_sgrld")
class LdaSgrld(SampledTopics, SteppedTopics):
    """Topics by stochastic gradient Riemannian Langevin dynamics, in the expanded-mean form."""

    kernel: ClassVar[str] = "flyrun.experiments.samplers.topics.lda_sampled"
    paper: ClassVar[str] = "Patterson and Teh 2013"


@option("sampler", "lda_smc")
class LdaSmc(SampledTopics):
    """Topics by one-pass sequential Monte Carlo with one particle, which is never rejuvenated."""

    kernel: ClassVar[str] = "flyrun.experiments.samplers.topics.lda_sampled"
    paper: ClassVar[str] = "Balakrishnan and Madigan 2006"


@option("sampler", "lda_filter")
class LdaFilter(BatchedTopics):
    """Topics by one-pass sequential Monte Carlo with rejuvenation: particles are redrawn, and then moved."""

    paper: ClassVar[str] = "Canini, Shi and Griffiths 2009"
    particles: int = setting(20, "how many", at_least=1)
    ess: float = setting(0.5, "share of effective particles below which they are redrawn", above=0, at_most=1)
    moves: int = setting(30, "earlier tokens whose topics each then draws anew", at_least=0)
    sweeps: int = setting(10, "of Gibbs sampling over the first batch", at_least=0)


@option("sampler", "lda_gibbs")
class LdaGibbs(TopicMethod):
    """Topics by collapsed Gibbs sampling; a step is a sweep over all documents."""

    paper: ClassVar[str] = "Griffiths and Steyvers 2004"


@option("sampler", "lda_hogwild")
class LdaHogwild(TopicMethod):
    """Topics by collapsed Gibbs sampling of shards of documents at once (AD-LDA); a step is a sweep.

    Counts are merged after each sweep, or come late.
    """

    paper: ClassVar[str] = "Newman, Asuncion, Smyth and Welling 2009; late, Asuncion, Smyth and Welling 2008"
    shards: int = setting(
        4, "of the documents, each with its own copy of the counts during a sweep", at_least=1
    )
    late: int = setting(
        0,
        "sweeps by which a shard's view of the others' counts is late at most, anew for each shard and sweep",
        at_least=0,
    )
