"""Densities in place of the posterior."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from flyrun.experiments.config.sampler.base import Sampler, with_sampler
from flyrun.ground.schema import FREEDOM, SCALE, SCHEMAS, build, chosen_by, option, setting, typed_choices


class Approximation(Sampler):
    """A density in place of the posterior, or what it takes to weigh draws from one."""

    home: ClassVar[str] = "flyrun.experiments.samplers.approximations"
    family: ClassVar[str] = "flyrun.experiments.samplers.approximations.method"
    at_map: ClassVar[bool] = True
    #: whether its answer is a Gaussian
    gaussian: ClassVar[bool] = True


@dataclass(frozen=True)
class Proposing(Approximation):
    """Draws from the Gaussian that another approximation comes to in `steps` of its own, or a t about it.

    freedom: of the t; null for the Gaussian. Its weights make the draws the posterior's.
    """

    auxiliary: ClassVar[bool] = True
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

    auxiliary: ClassVar[bool] = True
    paper: ClassVar[str] = "Laplace 1774; MacKay 2003, chapter 27"


@option("sampler", "importance")
class Importance(Proposing):
    """Importance sampling from a t, or a Gaussian, of an approximation; a draw costs all likelihoods."""

    paper: ClassVar[str] = "Geweke 1989"
    freedom: float | None = setting(8.0, "degrees of freedom of the t; null: a Gaussian", **FREEDOM)


def nodes() -> Any:
    """Of the quadrature that sites are made by."""
    what = "nodes of a quadrature for each number that a datum sees of the parameters: so many queries"
    return setting(5, what, at_least=2, at_most=64)


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

    auxiliary: ClassVar[bool] = True
    points: int = nodes()


@option("sampler", "kl_gaussian")
class KlGaussian(ByQuadrature):
    """Gaussian variational inference: least KL(q, posterior), by natural gradients of step `damping`."""

    paper: ClassVar[str] = "Opper and Archambeau 2009; Khan and Lin 2017"


@option("sampler", "mean_field")
class MeanField(ByQuadrature):
    """Mean field: independent Gaussian coordinates, with the covariance of linear response if asked for."""

    kernel: ClassVar[str] = "flyrun.experiments.samplers.approximations.kl_gaussian"
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
    adapt: bool = setting(True, "halve the damping where passes go round; false: never")


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

    kernel: ClassVar[str] = "flyrun.experiments.samplers.approximations.jaakkola_jordan"
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


@option("sampler", "pathfinder")
class Pathfinder(Approximation):
    """Pathfinder: the best Gaussian along an L-BFGS path from a draw of the prior to the mode.

    Further steps do nothing.
    """

    paper: ClassVar[str] = "Zhang, Carpenter, Gelman and Vehtari 2022"
    at_map: ClassVar[bool] = False
    memory: int = setting(6, "steps of the path that its curvature is known by", at_least=1)
    draws: int = setting(5, "for the bound at every step", at_least=1)
