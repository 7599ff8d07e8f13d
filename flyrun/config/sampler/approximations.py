"""Densities in place of the posterior."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from flyrun.config.sampler.base import Sampler
from flyrun.config.schema import option, ranged
from flyrun.errors import ConfigError


class Approximation(Sampler):
    """A density in place of the posterior, or what it takes to weigh draws from one."""

    home: ClassVar[str] = "flyrun.samplers.approximations"
    family: ClassVar[str] = "flyrun.samplers.approximations.method"
    #: whether it starts from the MAP
    at_map: ClassVar[bool] = True


@option("sampler", "laplace")
class Laplace(Approximation):
    """The Laplace approximation: a Gaussian at the MAP; one iteration is all it takes."""

    paper: ClassVar[str] = "Laplace 1774; MacKay 2003, chapter 27"


@option("sampler", "importance")
class Importance(Approximation):
    """Importance sampling from a t of `freedom` degrees at the MAP, or from a Gaussian (null).

    fixed_point: steps from the MAP towards the Gaussian that is closest to the posterior, 16 passes each.
    """

    paper: ClassVar[str] = "Geweke 1989; fixed point, Opper and Archambeau 2009"
    freedom: float | None = ranged(8.0, above=0)
    fixed_point: int = ranged(0, at_least=0)


@dataclass(frozen=True)
class SiteLoop(Approximation):
    """Sites in place of likelihoods, all of them renewed at every pass."""

    start: Literal["map", "prior"] = "map"
    damping: float = ranged(1.0, above=0, at_most=1)

    @property
    def at_map(self) -> bool:  # type: ignore[override]
        """As in the base class."""
        return self.start == "map"


@dataclass(frozen=True)
class ByQuadrature(SiteLoop):
    """Expectations over what each datum sees of the parameters."""

    points: int = ranged(5, at_least=2, at_most=64)


@option("sampler", "kl_gaussian")
class KlGaussian(ByQuadrature):
    """Gaussian variational inference, by natural gradients of step `damping`."""

    paper: ClassVar[str] = "Opper and Archambeau 2009; Khan and Lin 2017"


@option("sampler", "mean_field")
class MeanField(ByQuadrature):
    """Mean field, independent Gaussian coordinates; with the covariance of linear response if asked for."""

    paper: ClassVar[str] = "Opper and Archambeau 2009; linear response, Giordano, Broderick and Jordan 2015"
    linear_response: bool = False


@option("sampler", "ep")
class Ep(ByQuadrature):
    """Expectation propagation, all sites at once or serial: from the prior its first pass is ADF."""

    paper: ClassVar[str] = "Minka 2001"
    schedule: Literal["parallel", "serial"] = "parallel"


class OfLogistic(Approximation):
    """One that bounds the logistic likelihood."""

    def unfit(self, arm: Any) -> str:
        """As in the base class; the bounds are those of the logistic likelihood."""
        if arm.model.name != "logistic":
            return f"sampler={self.name} and model={arm.model.name} do not fit: choose model=logistic"
        return super().unfit(arm)


@option("sampler", "jaakkola_jordan")
class JaakkolaJordan(OfLogistic, SiteLoop):
    """Variational inference with Jaakkola and Jordan's bounds, all rows a pass; too narrow."""

    paper: ClassVar[str] = "Jaakkola and Jordan 1997"


class Streamed(Approximation):
    """A density that changes batch by batch."""

    at_map: ClassVar[bool] = False


@option("sampler", "streaming_laplace")
class StreamingLaplace(Streamed):
    """A Gaussian filter: blocks of `batch` rows at most, each read once, in an order drawn for each seed."""

    paper: ClassVar[str] = "Opper 1998, with Laplace's approximation of each block"
    batch: int = ranged(16_384, at_least=1)


@option("sampler", "streaming_vb")
class StreamingVb(Streamed):
    """Streaming variational Bayes: `batches` fitted one by one, each under what the others before it made."""

    paper: ClassVar[str] = "Broderick, Boyd, Wibisono, Wilson and Jordan 2013"
    rule: Literal["kl_gaussian", "ep", "laplace", "jaakkola_jordan"] = "kl_gaussian"
    batches: int = ranged(16, at_least=1)
    inner: int = ranged(3, at_least=1)
    points: int = ranged(5, at_least=2, at_most=64)
    stale: int = ranged(0, at_least=0)
    order: Literal["shuffled", "as_given"] = "shuffled"

    def check(self) -> None:
        """As in the base class."""
        if self.stale >= self.batches:
            raise ConfigError(
                f"sampler.stale={self.stale}: of {self.batches} batches at most {self.batches - 1} can be "
                "unseen; take less or more sampler.batches"
            )

    def unfit(self, arm: Any) -> str:
        """As in the base class."""
        if self.rule == "jaakkola_jordan" and arm.model.name != "logistic":
            return "sampler.rule=jaakkola_jordan: is for model=logistic; take sampler.rule=ep"
        return super().unfit(arm)


@option("sampler", "parallel_ep")
class ParallelEp(Streamed):
    """Expectation propagation over `shards` of the data, as workers of one machine each would do it."""

    paper: ClassVar[str] = "Xu, Lakshminarayanan, Teh, Zhu and Zhang 2014; Gelman et al. 2014"
    shards: int = ranged(8, at_least=1)
    moments: Literal["sites", "control", "mcmc"] = "sites"
    inner: int = ranged(3, at_least=1)
    points: int = ranged(5, at_least=2, at_most=64)
    draws: int = ranged(1_000, at_least=2)
    damping: float = ranged(1.0, above=0, at_most=1)
    stale: int = ranged(0, at_least=0)


@option("sampler", "svi_jaakkola_jordan")
class SviJaakkolaJordan(OfLogistic, Streamed):
    """Stochastic variational inference with Jaakkola and Jordan's bounds; rates (delay + t)^(-decay)."""

    paper: ClassVar[str] = "Jaakkola and Jordan 1997; Hoffman, Blei, Wang and Paisley 2013"
    batch: int = ranged(500, at_least=1)
    batches: Literal["epochs", "replacement"] = "epochs"
    delay: float = ranged(1.0, at_least=1)
    decay: float = ranged(0.7, at_least=0, at_most=1)


@option("sampler", "npv")
class Npv(Streamed):
    """Nonparametric variational inference: a mixture of `components` round Gaussians, by Adam on batches."""

    paper: ClassVar[str] = "Gershman, Hoffman and Blei 2012; Adam, Kingma and Ba 2015"
    components: int = ranged(200, at_least=1)
    batch: int = ranged(10, at_least=1)
    batches: Literal["epochs", "replacement"] = "epochs"
    rate: float = ranged(0.02, above=0)
