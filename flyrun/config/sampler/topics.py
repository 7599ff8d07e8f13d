"""Inference of topics."""

from dataclasses import dataclass
from typing import ClassVar

from flyrun.config.sampler.base import Sampler
from flyrun.config.schema import option, ranged, show
from flyrun.errors import ConfigError


class TopicMethod(Sampler):
    """What learns the topics of documents."""

    home: ClassVar[str] = "flyrun.samplers.topics"
    family: ClassVar[str] = "flyrun.samplers.topics.method"
    kinds: ClassVar[tuple[str, ...]] = ("documents",)


@dataclass(frozen=True)
class BatchedTopics(TopicMethod):
    """Those that learn them from a batch of documents at a time."""

    batches: ClassVar[str] = "epochs"
    batch: int = ranged(100, at_least=1)


@dataclass(frozen=True)
class SteppedTopics(BatchedTopics):
    """Those with a step a·(1 + t/b)^-c; c = 0 keeps it.

    step: a, b and c; null: the best of nine on the validation documents, after search_passes over the others
    each.
    """

    #: what the step may be at most
    most: ClassVar[float | None] = None
    step: tuple[float, float, float] | None = ranged(None, at_least=0)
    search_passes: float = ranged(5.0, above=0)

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

    sweeps: int = ranged(10, at_least=1)
    kept: int = ranged(5, at_least=1)

    def check(self) -> None:
        super().check()
        if self.kept > self.sweeps:
            raise ConfigError(f"sampler.kept={self.kept}: must be at most sampler.sweeps={self.sweeps}")


@option("sampler", "lda_pmd")
class LdaPmd(SampledTopics, SteppedTopics):
    """Particle mirror descent with one particle, which is sparse stochastic inference."""

    paper: ClassVar[str] = "Dai, He, Dai and Song 2016, appendix F; Mimno, Hoffman and Blei 2012"
    most: ClassVar[float | None] = 1.0


@option("sampler", "lda_svi")
class LdaSvi(SteppedTopics):
    """Stochastic variational inference of topics."""

    paper: ClassVar[str] = "Hoffman, Blei and Bach 2010; Hoffman, Blei, Wang and Paisley 2013"
    most: ClassVar[float | None] = 1.0
    most_iterations: int = ranged(100, at_least=1)
    tolerance: float = ranged(1e-3, above=0)


@option("sampler", "lda_sgrld")
class LdaSgrld(SampledTopics, SteppedTopics):
    """Stochastic gradient Riemannian Langevin dynamics of topics in the expanded-mean form."""

    paper: ClassVar[str] = "Patterson and Teh 2013"


@option("sampler", "lda_smc")
class LdaSmc(SampledTopics):
    """Sequential Monte Carlo with one particle, once through the documents."""

    paper: ClassVar[str] = "Canini, Shi and Griffiths 2009; Balakrishnan and Madigan 2006"


@option("sampler", "lda_gibbs")
class LdaGibbs(TopicMethod):
    """Collapsed Gibbs sampling; a step is a sweep over all documents."""

    paper: ClassVar[str] = "Griffiths and Steyvers 2004"


@option("sampler", "lda_hogwild")
class LdaHogwild(TopicMethod):
    """Collapsed Gibbs sampling of shards of documents at once, their counts merged after each sweep."""

    paper: ClassVar[str] = "Newman, Asuncion, Smyth and Welling 2009"
    shards: int = ranged(4, at_least=1)
