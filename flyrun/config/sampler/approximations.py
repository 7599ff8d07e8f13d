"""Densities in place of the posterior."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from flyrun.config.sampler.base import Sampler, with_sampler
from flyrun.config.schema import FREEDOM, SCALE, SCHEMAS, build, chosen_by, option, setting, typed_choices
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
    approximation: str = setting("laplace", "or another with a Gaussian for answer, such as ep")
    steps: int = setting(3, "of the approximation", at_least=0)
    freedom: float | None = setting(
        None, "draws from a t of so many degrees of freedom; null: from the Gaussian", **FREEDOM
    )

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
    """The Laplace approximation: a Gaussian at the MAP, in one iteration.

    Take protocol.iterations=1 protocol.burn_in=0.
    """

    paper: ClassVar[str] = "Laplace 1774; MacKay 2003, chapter 27"


@option("sampler", "importance")
class Importance(Proposing):
    """Importance sampling from a t, or a Gaussian, of an approximation; a draw costs all likelihoods."""

    paper: ClassVar[str] = "Geweke 1989"
    freedom: float | None = setting(8.0, "degrees of freedom of the t; null: a Gaussian", **FREEDOM)


@dataclass(frozen=True)
class SiteLoop(Approximation):
    """Sites in place of likelihoods, all of them renewed at every pass."""

    start: Literal["map", "prior"] = setting("map", "or prior")
    damping: float = setting(1.0, "share of the way that sites move at a pass, in (0, 1]", above=0, at_most=1)

    @property
    def at_map(self) -> bool:  # type: ignore[override]
        return self.start == "map"


@dataclass(frozen=True)
class ByQuadrature(SiteLoop):
    """Expectations over what each datum sees of the parameters."""

    points: int = setting(
        5,
        "nodes of a quadrature for each number that a datum sees of the parameters: so many queries",
        at_least=2,
        at_most=64,
    )


@option("sampler", "kl_gaussian")
class KlGaussian(ByQuadrature):
    """Gaussian variational inference: least KL(q, posterior), by natural gradients of step `damping`."""

    paper: ClassVar[str] = "Opper and Archambeau 2009; Khan and Lin 2017"


@option("sampler", "mean_field")
class MeanField(ByQuadrature):
    """Mean field: independent Gaussian coordinates, with the covariance of linear response if asked for."""

    paper: ClassVar[str] = "Opper and Archambeau 2009; linear response, Giordano, Broderick and Jordan 2015"
    linear_response: bool = setting(False, "true: the covariance of linear response at the end")


@option("sampler", "ep")
class Ep(ByQuadrature):
    """Expectation propagation: every site has the right moments, given all others.

    Sites change all at once or one by one (serial); from the prior its first pass is ADF.
    """

    paper: ClassVar[str] = "Minka 2001"
    schedule: Literal["parallel", "serial"] = setting(
        "parallel",
        ("or serial: one row after the other, in an order of the seed; from the prior its first pass is ADF"),
    )


@option("sampler", "weighted")
class Weighted(Proposing, ByQuadrature):
    """Exact weighted draws from an approximation, each for the likelihoods of a few data (ours)."""

    paper: ClassVar[str] = (
        "ours; unbiased products, Wagner 1988; second-order expansions, Cornish et al. 2019"
    )
    approximation: str = setting("ep", "or another with a Gaussian for answer")
    queries: float | None = setting(
        None, "likelihoods a draw reads on average; null: what makes an effective draw cheapest", above=0
    )
    growth: float = setting(
        3.0,
        ("power of the squared distance by which that number grows far out, lest weights have heavy tails"),
        at_least=0,
    )


class OfLogistic(Approximation):
    """One that bounds the logistic likelihood."""

    def unfit(self, arm: Any) -> str:
        """As in the base class; the bounds are those of the logistic likelihood."""
        if arm.model.name != "logistic":
            return f"sampler={self.name} and model={arm.model.name} do not fit: choose model=logistic"
        return super().unfit(arm)


@option("sampler", "jaakkola_jordan")
class JaakkolaJordan(OfLogistic, SiteLoop):
    """Variational logistic regression with Jaakkola and Jordan's bounds, all rows a pass; too narrow."""

    paper: ClassVar[str] = "Jaakkola and Jordan 1997"


@option("sampler", "cavi")
class Cavi(SiteLoop):
    """Mean field, q(θ)q(labels), by coordinate ascent: for models whose data have a hidden label each."""

    paper: ClassVar[str] = "Attias 1999; Bishop 2006, section 10.1"
    variance: float | None = setting(
        None,
        "of each coordinate before the first pass, about the start's mean; null: the start's own",
        **SCALE,
    )

    def unfit(self, arm: Any) -> str:
        """As in the base class; the model must have labels."""
        if arm.model.kind not in self.kinds or arm.model.labelled:
            return super().unfit(arm)
        fitting = typed_choices("model", lambda cls: getattr(cls, "labelled", False))
        return f"sampler={self.name} is for models of hidden labels, not {arm.model.name}: choose {fitting}"


class Streamed(Approximation):
    """A density that changes batch by batch."""

    at_map: ClassVar[bool] = False


@option("sampler", "streaming_laplace")
class StreamingLaplace(Streamed):
    """Streaming Laplace: a Gaussian filter that reads every row once, in blocks of at most `batch`.

    The order is drawn for each seed.
    """

    paper: ClassVar[str] = "Opper 1998, with Laplace's approximation of each block"
    batch: int = setting(
        16_384, "rows of a block, at most; larger ones come closer to the posterior", at_least=1
    )


@option("sampler", "streaming_vb")
class StreamingVb(Streamed):
    """Streaming variational Bayes: `batches` fitted one by one, each under what the others before it made.

    Every row is read once.
    """

    paper: ClassVar[str] = "Broderick, Boyd, Wibisono, Wilson and Jordan 2013"
    rule: Literal["kl_gaussian", "ep", "laplace", "jaakkola_jordan"] = setting(
        "kl_gaussian", "how a batch is fitted: kl_gaussian, ep, laplace or jaakkola_jordan (too narrow)"
    )
    batches: int = setting(
        16, "so many; an iteration reads one, and after the last iterations do nothing", at_least=1
    )
    inner: int = setting(
        3,
        "passes over a batch from Laplace's approximation of it; jaakkola_jordan wants 30, laplace "
        "takes what it needs",
        at_least=1,
    )
    points: int = setting(
        5,
        "nodes of a quadrature: so many queries a row in a pass of kl_gaussian or ep",
        at_least=2,
        at_most=64,
    )
    stale: int = setting(
        0, "batches before it that a worker has not seen, as if so many more worked at once", at_least=0
    )
    order: Literal["shuffled", "as_given"] = setting(
        "shuffled", "as the seed has it; or as_given: as the rows lie, which is wrong where they are sorted"
    )

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
    """Expectation propagation over `shards` of the data, each under a Gaussian in place of the others.

    Workers of one machine each would do the same.
    """

    paper: ClassVar[str] = "Xu, Lakshminarayanan, Teh, Zhu and Zhang 2014; Gelman et al. 2014"
    shards: int = setting(
        8, "so many, of rows drawn by the seed; an iteration is a round over all", at_least=1
    )
    moments: Literal["sites", "control", "mcmc"] = setting(
        "sites", "of a shard: sites, by local EP; control, by draws as control variates; mcmc, by draws alone"
    )
    inner: int = setting(3, "passes of local EP over a shard in a round", at_least=1)
    points: int = setting(
        5, "nodes of its quadrature: so many queries a row in a pass", at_least=2, at_most=64
    )
    draws: int = setting(
        1_000, "of a shard in a round, each a query of all its rows; with control or mcmc", at_least=2
    )
    damping: float = setting(
        1.0, "share of the way that a shard's Gaussian moves in a round, in (0, 1]", above=0, at_most=1
    )
    stale: int = setting(
        0,
        "shards take 1 to stale + 1 rounds in turn, and see the others as old as that; 0: all in step",
        at_least=0,
    )


@dataclass(frozen=True)
class ByBatches(Streamed):
    """Steps of sizes rate·(delay + t)^(-decay), t = 0, 1, …, and averages over about the last of them."""

    batch: int = setting(500, "rows of a batch", at_least=1)
    batches: Literal["epochs", "replacement"] = setting(
        "epochs", "all rows dealt out in an order drawn anew; replacement: each row drawn anew"
    )
    rate: float | None = setting(
        1.0, "steps are rate·(delay + t)^(-decay); null: a batch's share of the rows", above=0, at_most=1
    )
    delay: float = setting(1.0, "steps by which the schedule is late", at_least=1)
    decay: float = setting(0.7, "0: all steps alike", at_least=0, at_most=1)
    average: float = setting(
        0.0,
        "share of the steps, the last, that most of the answer's weight is on; 0: the answer is the "
        "last Gaussian",
        at_least=0,
        at_most=1,
    )


@dataclass(frozen=True)
class StochasticSites(ByBatches):
    """Sites of a batch's rows stand for those of all rows."""

    start: Literal["prior", "map"] = setting(
        "prior", "or map: the Gaussian of the sites at the MAP; surer where the prior is wide"
    )
    control: bool = setting(
        False, "true: control variates, the sites at the MAP, for fitting it and a pass over the rows"
    )

    @property
    def at_map(self) -> bool:  # type: ignore[override]
        return self.control or self.start == "map"


@option("sampler", "svi_jaakkola_jordan")
class SviJaakkolaJordan(OfLogistic, StochasticSites):
    """Stochastic variational logistic regression with Jaakkola and Jordan's bounds: too narrow."""

    paper: ClassVar[str] = "Jaakkola and Jordan 1997; Hoffman, Blei, Wang and Paisley 2013"


@option("sampler", "stochastic_kl")
class StochasticKl(StochasticSites):
    """Gaussian variational inference by natural gradients from batches of rows."""

    paper: ClassVar[str] = "Khan and Lin 2017; control variates ours"
    average: float = setting(
        0.5,
        "share of the steps, the last, that most of the answer's weight is on; 0: the answer is the "
        "last Gaussian",
        at_least=0,
        at_most=1,
    )
    points: int = setting(
        5,
        "nodes of a quadrature for each number that a datum sees of the parameters: so many queries",
        at_least=2,
        at_most=64,
    )


@option("sampler", "sep")
class Sep(StochasticSites):
    """Stochastic expectation propagation by batches of rows: one site stands for the average of all."""

    paper: ClassVar[str] = "Li, Hernández-Lobato and Turner 2015; control variates ours"
    average: float = setting(
        0.5,
        "share of the steps, the last, that most of the answer's weight is on; 0: the answer is the "
        "last Gaussian",
        at_least=0,
        at_most=1,
    )
    points: int = setting(
        5,
        "nodes of a quadrature for each number that a datum sees of the parameters: so many queries",
        at_least=2,
        at_most=64,
    )


@option("sampler", "sga")
class Sga(ByBatches):
    """Stochastic gradient ascent to the MAP, by SVRG if asked for: a point, with no spread."""

    gaussian: ClassVar[bool] = False
    paper: ClassVar[str] = "Robbins and Monro 1951; Polyak and Juditsky 1992; SVRG, Johnson and Zhang 2013"
    average: float = setting(
        0.5,
        "share of the steps, the last, that most of the answer's weight is on; 0: the answer is the "
        "last iterate",
        at_least=0,
        at_most=1,
    )
    decay: float = setting(0.0, "0: all steps alike", at_least=0, at_most=1)
    metric: Literal["smoothness", "newton"] = setting(
        "smoothness", "all directions alike, by the largest curvature at 0; newton: steps shaped by all of it"
    )
    control: bool = setting(
        False, "true: SVRG's control variates, for a pass over the rows at the start of every epoch"
    )


@option("sampler", "npv")
class Npv(Streamed):
    """Nonparametric variational inference: a mixture of `components` round Gaussians, by Adam on batches."""

    gaussian: ClassVar[bool] = False
    paper: ClassVar[str] = "Gershman, Hoffman and Blei 2012; Adam, Kingma and Ba 2015"
    components: int = setting(200, "how many", at_least=1)
    batch: int = setting(10, "rows a step", at_least=1)
    batches: Literal["epochs", "replacement"] = setting("epochs", "or replacement: drawn anew at every step")
    rate: float = setting(0.02, "of Adam", above=0)


@dataclass(frozen=True)
class Ascended(Streamed):
    """A Gaussian that climbs noisy slopes of the variational bound by Adam, steps of rate·t^(-decay)."""

    draws: int = setting(1, "of the parameters, a step", at_least=1)
    batch: int | None = setting(None, "rows a step; null: all", at_least=1)
    batches: Literal["epochs", "replacement"] = setting("epochs", "or replacement: drawn anew at every step")
    rate: float = setting(0.1, "of Adam", above=0)
    decay: float = setting(
        0.5,
        "of the rate with step t: rate·t^-decay; 0: hovers about the end by its length",
        at_least=0,
        at_most=1,
    )


@option("sampler", "bbvi")
class Bbvi(Ascended):
    """Black-box variational inference: independent Gaussian coordinates, by values of the likelihood alone.

    baseline: what is done about the estimate's variance; each includes `rao_blackwell`, but for `none`.
    """

    paper: ClassVar[str] = "Ranganath, Gerrish and Blei 2014; Adam, Kingma and Ba 2015"
    draws: int = setting(10, "of the parameters, a step", at_least=1)
    baseline: Literal["none", "rao_blackwell", "control", "leave_one_out"] = setting(
        "leave_one_out", "none | rao_blackwell | control (biased, O(1/draws)) | leave_one_out"
    )

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
    covariance: Literal["mean_field", "full_rank"] = setting("mean_field", "or full_rank")
    whiten: bool = setting(
        False, "true: in the coordinates of Laplace's approximation at the MAP, and from there"
    )

    @property
    def at_map(self) -> bool:  # type: ignore[override]
        return self.whiten


@option("sampler", "pathfinder")
class Pathfinder(Approximation):
    """Pathfinder: the best Gaussian along an L-BFGS path from a draw of the prior to the mode.

    Further steps do nothing.
    """

    paper: ClassVar[str] = "Zhang, Carpenter, Gelman and Vehtari 2022"
    at_map: ClassVar[bool] = False
    memory: int = setting(6, "steps of the path that its curvature is known by", at_least=1)
    draws: int = setting(5, "for the bound at every step", at_least=1)
