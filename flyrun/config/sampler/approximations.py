"""Densities in place of the posterior."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from flyrun.config.sampler.base import Sampler, with_sampler
from flyrun.config.schema import FREEDOM, SCHEMAS, build, chosen_by, option, ranged, typed_choices
from flyrun.errors import ConfigError


class Approximation(Sampler):
    """A density in place of the posterior, or what it takes to weigh draws from one."""

    home: ClassVar[str] = "flyrun.samplers.approximations"
    family: ClassVar[str] = "flyrun.samplers.approximations.method"
    #: whether it starts from the MAP
    at_map: ClassVar[bool] = True
    #: whether its answer is a Gaussian
    gaussian: ClassVar[bool] = True


@dataclass(frozen=True)
class Proposing(Approximation):
    """Draws from the Gaussian that another approximation comes to in `steps` of its own, or a t about it.

    freedom: of the t; null for the Gaussian. Its weights make the draws the posterior's.
    """

    gaussian: ClassVar[bool] = False
    approximation: str = "laplace"
    steps: int = ranged(3, at_least=0)
    freedom: float | None = ranged(None, **FREEDOM)

    @property
    def at_map(self) -> bool:  # type: ignore[override]
        """As that of the approximation."""
        return bool(getattr(build("sampler", {"name": self.approximation}), "at_map", False))

    def inner_arms(self, arm: Any) -> tuple[Any, ...]:
        """The approximation's."""
        return (with_sampler(arm, self.approximation, self),)

    def unfit(self, arm: Any) -> str:
        """As in the base class; the approximation must have a Gaussian for answer, and go with the rest."""
        known = SCHEMAS["sampler"].get(self.approximation)
        if not getattr(known, "gaussian", False):
            fitting = chosen_by("sampler", lambda cls: getattr(cls, "gaussian", False))
            return f"sampler.approximation={self.approximation}: is no Gaussian; choose one of {fitting}"
        self.inner_arms(arm)  # raises
        return super().unfit(arm)


@option("sampler", "laplace")
class Laplace(Approximation):
    """The Laplace approximation: a Gaussian at the MAP; one iteration is all it takes."""

    paper: ClassVar[str] = "Laplace 1774; MacKay 2003, chapter 27"


@option("sampler", "importance")
class Importance(Proposing):
    """Importance sampling, all likelihoods a draw, from a t or a Gaussian of an approximation."""

    paper: ClassVar[str] = "Geweke 1989"
    freedom: float | None = ranged(8.0, **FREEDOM)


@dataclass(frozen=True)
class SiteLoop(Approximation):
    """Sites in place of likelihoods, all of them renewed at every pass."""

    start: Literal["map", "prior"] = "map"
    damping: float = ranged(1.0, above=0, at_most=1)

    @property
    def at_map(self) -> bool:  # type: ignore[override]
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


@option("sampler", "weighted")
class Weighted(Proposing, ByQuadrature):
    """Exact weighted draws from an approximation, each for the likelihoods of a few data (ours)."""

    paper: ClassVar[str] = (
        "ours; unbiased products, Wagner 1988; second-order expansions, Cornish et al. 2019"
    )
    approximation: str = "ep"
    queries: float | None = ranged(None, above=0)
    growth: float = ranged(3.0, at_least=0)


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


@option("sampler", "cavi")
class Cavi(SiteLoop):
    """Mean field, q(θ)q(labels), by coordinate ascent: for models whose data have a hidden label each."""

    paper: ClassVar[str] = "Attias 1999; Bishop 2006, section 10.1"
    variance: float | None = ranged(None, above=0)

    def unfit(self, arm: Any) -> str:
        """As in the base class; the model must have labels."""
        if arm.model.kind not in self.kinds or getattr(arm.model, "labelled", False):
            return super().unfit(arm)
        fitting = typed_choices("model", lambda cls: getattr(cls, "labelled", False))
        return f"sampler={self.name} is for models of hidden labels, not {arm.model.name}: choose {fitting}"


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
        if self.stale >= self.batches:
            raise ConfigError(
                f"sampler.stale={self.stale}: of {self.batches} batches at most {self.batches - 1} can be "
                "unseen; take less or more sampler.batches"
            )

    def unfit(self, arm: Any) -> str:
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


@dataclass(frozen=True)
class ByBatches(Streamed):
    """Steps of sizes rate·(delay + t)^(-decay), t = 0, 1, …, and averages over about the last of them."""

    batch: int = ranged(500, at_least=1)
    batches: Literal["epochs", "replacement"] = "epochs"
    rate: float | None = ranged(1.0, above=0, at_most=1)
    delay: float = ranged(1.0, at_least=1)
    decay: float = ranged(0.7, at_least=0, at_most=1)
    average: float = ranged(0.0, at_least=0, at_most=1)


@dataclass(frozen=True)
class StochasticSites(ByBatches):
    """Sites of a batch's rows stand for those of all rows."""

    start: Literal["prior", "map"] = "prior"
    control: bool = False

    @property
    def at_map(self) -> bool:  # type: ignore[override]
        return self.control or self.start == "map"


@option("sampler", "svi_jaakkola_jordan")
class SviJaakkolaJordan(OfLogistic, StochasticSites):
    """Stochastic variational inference with Jaakkola and Jordan's bounds: too narrow."""

    paper: ClassVar[str] = "Jaakkola and Jordan 1997; Hoffman, Blei, Wang and Paisley 2013"


@option("sampler", "stochastic_kl")
class StochasticKl(StochasticSites):
    """Gaussian variational inference by natural gradients from batches of rows."""

    paper: ClassVar[str] = "Khan and Lin 2017; control variates ours"
    average: float = ranged(0.5, at_least=0, at_most=1)
    points: int = ranged(5, at_least=2, at_most=64)


@option("sampler", "sep")
class Sep(StochasticSites):
    """Stochastic expectation propagation, by batches: one site stands for the average of all."""

    paper: ClassVar[str] = "Li, Hernández-Lobato and Turner 2015; control variates ours"
    average: float = ranged(0.5, at_least=0, at_most=1)
    points: int = ranged(5, at_least=2, at_most=64)


@option("sampler", "sga")
class Sga(ByBatches):
    """Stochastic gradient ascent to the MAP, by SVRG if asked for: a point, with no spread."""

    gaussian: ClassVar[bool] = False
    paper: ClassVar[str] = "Robbins and Monro 1951; Polyak and Juditsky 1992; SVRG, Johnson and Zhang 2013"
    average: float = ranged(0.5, at_least=0, at_most=1)
    decay: float = ranged(0.0, at_least=0, at_most=1)
    metric: Literal["smoothness", "newton"] = "smoothness"
    control: bool = False


@option("sampler", "npv")
class Npv(Streamed):
    """Nonparametric variational inference: a mixture of `components` round Gaussians, by Adam on batches."""

    gaussian: ClassVar[bool] = False
    paper: ClassVar[str] = "Gershman, Hoffman and Blei 2012; Adam, Kingma and Ba 2015"
    components: int = ranged(200, at_least=1)
    batch: int = ranged(10, at_least=1)
    batches: Literal["epochs", "replacement"] = "epochs"
    rate: float = ranged(0.02, above=0)


@dataclass(frozen=True)
class Ascended(Streamed):
    """A Gaussian that climbs noisy slopes of the variational bound by Adam, steps of rate·t^(-decay)."""

    draws: int = ranged(1, at_least=1)
    batch: int | None = ranged(None, at_least=1)
    batches: Literal["epochs", "replacement"] = "epochs"
    rate: float = ranged(0.1, above=0)
    decay: float = ranged(0.5, at_least=0, at_most=1)


@option("sampler", "bbvi")
class Bbvi(Ascended):
    """Black-box variational inference: independent Gaussian coordinates, by values of the likelihood alone.

    baseline: what is done about the estimate's variance; each includes `rao_blackwell`, but for `none`.
    """

    paper: ClassVar[str] = "Ranganath, Gerrish and Blei 2014; Adam, Kingma and Ba 2015"
    draws: int = ranged(10, at_least=1)
    baseline: Literal["none", "rao_blackwell", "control", "leave_one_out"] = "leave_one_out"

    def check(self) -> None:
        if self.draws < 2 and self.baseline in ("control", "leave_one_out"):
            raise ConfigError(
                f"sampler.draws={self.draws}: sampler.baseline={self.baseline} compares draws; take 2 or more"
            )


@option("sampler", "advi")
class Advi(Ascended):
    """Automatic differentiation variational inference: a Gaussian, by slopes of the log posterior at draws.

    whiten: in coordinates in which Laplace's approximation at the MAP is N(0, I), starting there.
    """

    paper: ClassVar[str] = "Kucukelbir, Tran, Ranganath, Gelman and Blei 2017"
    covariance: Literal["mean_field", "full_rank"] = "mean_field"
    whiten: bool = False

    @property
    def at_map(self) -> bool:  # type: ignore[override]
        return self.whiten


@option("sampler", "pathfinder")
class Pathfinder(Approximation):
    """The best Gaussian along an L-BFGS path from a draw of the prior to the mode, where steps do nothing."""

    paper: ClassVar[str] = "Zhang, Carpenter, Gelman and Vehtari 2022"
    at_map: ClassVar[bool] = False
    memory: int = ranged(6, at_least=1)
    draws: int = ranged(5, at_least=1)
