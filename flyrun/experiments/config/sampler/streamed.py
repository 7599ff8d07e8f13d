"""Approximations that read the rows in pieces: streams, teams of workers, batches."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from flyrun.experiments.config.sampler.approximations import Approximation, OfLogistic, nodes
from flyrun.ground.errors import ConfigError
from flyrun.ground.schema import option, setting


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


def _averaged(usual: float, last: str = "Gaussian") -> Any:
    """How much of the way the answer is an average of."""
    weight = "share of the steps, the last, that most of the answer's weight is on"
    return setting(usual, f"{weight}; 0: the answer is the last {last}", at_least=0, at_most=1)


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
    average: float = _averaged(0.0)


@dataclass(frozen=True)
class StochasticSites(ByBatches):
    """Sites of a batch's rows stand for those of all rows."""

    kernel: ClassVar[str] = "flyrun.experiments.samplers.approximations.stochastic"
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


@dataclass(frozen=True)
class AveragedSites(StochasticSites):
    """Sites whose expectations are taken by quadrature, and whose last Gaussians are averaged."""

    average: float = _averaged(0.5)
    points: int = nodes()


@option("sampler", "stochastic_kl")
class StochasticKl(AveragedSites):
    """Gaussian variational inference by natural gradients from batches of rows."""

    paper: ClassVar[str] = "Khan and Lin 2017; control variates ours"


@option("sampler", "sep")
class Sep(AveragedSites):
    """Stochastic expectation propagation by batches of rows: one site stands for the average of all."""

    paper: ClassVar[str] = "Li, Hernández-Lobato and Turner 2015; control variates ours"


@option("sampler", "sga")
class Sga(ByBatches):
    """Stochastic gradient ascent to the MAP, by SVRG if asked for: a point, with no spread."""

    gaussian: ClassVar[bool] = False
    paper: ClassVar[str] = "Robbins and Monro 1951; Polyak and Juditsky 1992; SVRG, Johnson and Zhang 2013"
    average: float = _averaged(0.5, "iterate")
    decay: float = setting(0.0, "0: all steps alike", at_least=0, at_most=1)
    metric: Literal["smoothness", "newton"] = setting(
        "smoothness", "all directions alike, by the largest curvature at 0; newton: steps shaped by all of it"
    )
    control: bool = setting(
        False, "true: SVRG's control variates, for a pass over the rows at the start of every epoch"
    )
    stale: int = setting(
        0, "slopes are those of so many steps before, as of Hogwild's workers", at_least=0, at_most=1_000
    )


@option("sampler", "npv")
class Npv(Streamed):
    """Nonparametric variational inference: a mixture of `components` round Gaussians, fitted to batches."""

    gaussian: ClassVar[bool] = False
    paper: ClassVar[str] = "Gershman, Hoffman and Blei 2012; Adam, Kingma and Ba 2015"
    components: int = setting(200, "how many", at_least=1)
    optimiser: Literal["adam", "lbfgs"] = setting(
        "adam", "or lbfgs, the authors': ten iterations on the means, ten on the variances, a batch"
    )
    batch: int = setting(10, "rows a step", at_least=1)
    batches: Literal["epochs", "replacement"] = setting("epochs", "or replacement: drawn anew at every step")
    rate: float = setting(0.02, "of Adam; lbfgs needs none", above=0)


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
