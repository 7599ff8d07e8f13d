"""Updates of θ in chains."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from flyrun.experiments.config.sampler.base import Sampler, with_sampler
from flyrun.ground.schema import FREEDOM, option, setting, typed_choices


class ThetaUpdate(Sampler):
    """An update of θ in a chain, on all data or under Firefly Monte Carlo."""

    home: ClassVar[str] = "flyrun.experiments.samplers.chain"
    family: ClassVar[str] = "flyrun.experiments.samplers.chain.method"
    needs: ClassVar[tuple[str, ...]] = ("bound", "brightness")
    suggests: ClassVar[tuple[str, ...]] = ("bound=none",)
    auxiliary: ClassVar[bool] = True
    of_bound: ClassVar[bool] = True
    #: the shape of its steps, and how many a move takes, where it has such settings
    metric = "identity"
    n_steps: int | str | None = None
    #: whether its averages, as it is set, converge to others than the posterior's
    biased = False

    def inner_arms(self, arm: Any) -> tuple[Any, ...]:
        """EP's, where its Gaussian shapes steps or is where chains start."""
        wanted = "ep" in (self.metric, arm.protocol.init)
        return (with_sampler(arm, "ep"),) if wanted else ()


class Proposer(ThetaUpdate):
    """An update whose proposals any rule can accept: they are made without a look at the data."""

    needs: ClassVar[tuple[str, ...]] = (*ThetaUpdate.needs, "acceptance")
    suggests: ClassVar[tuple[str, ...]] = (*ThetaUpdate.suggests, "acceptance=exact")


@dataclass(frozen=True)
class Stepping(Proposer):
    """An update by steps from where the chain is."""

    metric: Literal["identity", "bound", "hessian", "ep"] = setting(
        "identity",
        "shape of the steps: identity | bound (their collapsed Gaussian) | hessian (at the MAP) | ep",
    )
    target_accept: float = 0.0
    step: float | None = setting(None, "a number fixes the step", above=0)


@option("sampler", "random_walk")
class RandomWalk(Stepping):
    """Random-walk Metropolis; burn-in tunes a step of null to `target_accept`, a number is kept.

    metric shapes the steps: round, or as the bounds' collapsed Gaussian, the posterior's curvature or
    EP's Gaussian is.
    """

    paper: ClassVar[str] = "Metropolis et al. 1953; step scaled to accept 0.234, Roberts et al. 1997"
    target_accept: float = setting(0.234, "what burn-in tunes the step to", above=0, at_most=1)


@option("sampler", "adaptive_metropolis")
class AdaptiveMetropolis(Proposer):
    """A random walk shaped by the running covariance of its own draws, which vanishing gains adapt.

    Averages converge to the posterior's for decay above 1/2; adapts=burn_in makes a plain walk of it then.
    """

    paper: ClassVar[str] = (
        "Haario, Saksman and Tamminen 2001; Andrieu and Thoms 2008; Angelino, Johnson and Adams 2016, "
        "section 3.6"
    )
    decay: float = setting(
        1.0,
        "gains are (t + 1)^(-decay), exact in the limit above 1/2; 1 weighs all draws alike",
        at_least=0,
        at_most=1,
    )
    adapts: Literal["throughout", "burn_in"] = setting(
        "throughout", "burn_in: the shape is fixed when burn-in ends"
    )
    target_accept: float = setting(0.234, "what burn-in tunes the step to", above=0, at_most=1)
    step: float | None = setting(None, "a number fixes the step, in sds of the shape", above=0)

    @property
    def biased(self) -> bool:  # type: ignore[override]
        return self.adapts == "throughout" and self.decay <= 0.5


@option("sampler", "mala")
class Mala(Stepping):
    """Metropolis-adjusted Langevin; burn-in tunes a step of null to `target_accept`, a number is kept.

    metric is as for the random walk. Under a rule that expands the likelihood the drift is the
    expansion's.
    """

    paper: ClassVar[str] = "Roberts and Tweedie 1996; accepts 0.57, Roberts and Rosenthal 1998"
    target_accept: float = setting(0.57, "what burn-in tunes the step to", above=0, at_most=1)

    def unfit(self, arm: Any) -> str:
        """As in the base class; the gradient at a proposal is asked for before the rule."""
        if arm.acceptance is not None and not arm.acceptance.settles:
            fitting = typed_choices("acceptance", lambda cls: getattr(cls, "settles", False))
            return f"acceptance={arm.acceptance.name}: does not serve sampler=mala; choose {fitting}"
        return super().unfit(arm)


@option("sampler", "sgld_tested")
class SgldTested(Stepping):
    """SGLD's proposals, a gradient by a batch and noise, which a rule accepts or refuses.

    The way back has the same batch: exact with acceptance=exact, SGLD "fixed up" with acceptance=austerity.
    """

    paper: ClassVar[str] = (
        "Korattikara, Chen and Welling 2014, section 6.4; Angelino, Johnson and Adams 2016, section 3.6"
    )
    suggests: ClassVar[tuple[str, ...]] = (*ThetaUpdate.suggests, "acceptance=austerity")
    batch: int = setting(100, "rows of a gradient, drawn anew for each proposal", at_least=1)
    target_accept: float = setting(0.57, "what burn-in tunes the step to", above=0, at_most=1)

    def unfit(self, arm: Any) -> str:
        """As in the base class; a batch is of all the data, not of the bright ones."""
        if arm.bound is not None and arm.bound.firefly:
            return f"sampler={self.name}: takes gradients of all the data's likelihood; choose bound=none"
        return super().unfit(arm)


@option("sampler", "hmc")
class Hmc(ThetaUpdate):
    """Hamiltonian Monte Carlo about a Gaussian; with bound=map this is Firefly-HMC.

    metric=bound: FlyMC's pseudo-prior or, without FlyMC, the Gaussian that bounds tight at the MAP make;
    hessian: that of the posterior's curvature there; ep: EP's. n_steps=auto: 4; where fewer than five
    data are expected bright 3, of at most a quarter turn in all; where less than half a datum is, 1.
    """

    paper: ClassVar[str] = "Duane et al. 1987; splitting as in Shahbaba et al. 2014; under FlyMC ours"
    metric: Literal["bound", "hessian", "ep"] = setting(
        "bound",
        ("the Gaussian moved about: bound (FlyMC's own; without FlyMC, bounds' at the MAP) | hessian | ep"),
    )
    n_steps: int | Literal["auto"] = setting(
        "auto",
        "mean number of gradients in a trajectory, of half to one and a half times as many; auto: 4, "
        "fewer where hardly a datum is bright",
        at_least=1,
    )
    jitter: float = setting(
        0.2, "each trajectory's step is drawn from (1 ± jitter)·step", at_least=0, at_most=0.9
    )
    target_accept: float = setting(0.8, "what burn-in tunes the step to", above=0, at_most=1)
    step: float | None = setting(None, "radians; null: tuned during burn-in", above=0)


@option("sampler", "slice")
class Slice(ThetaUpdate):
    """Slice sampling along random directions, stepping out and shrinking; burn-in tunes a width of null."""

    paper: ClassVar[str] = "Neal 2003; width tuned as in Karamanis and Beutler 2021"
    width: float | None = setting(None, "of the first interval; null: tuned during burn-in", above=0)
    most_widenings: int = setting(100, "bounds the interval at one width more", at_least=0)


@option("sampler", "elliptical_slice")
class EllipticalSlice(ThetaUpdate):
    """Elliptical slice sampling about a Gaussian; with bound=map about FlyMC's pseudo-prior.

    metric names the Gaussian as it does for hmc.
    """

    paper: ClassVar[str] = "Murray, Adams and MacKay 2010; without FlyMC as in Nishihara et al. 2014"
    metric: Literal["bound", "hessian", "ep"] = setting(
        "bound",
        ("the Gaussian: bound (FlyMC's own; without FlyMC, bounds' at the MAP) | hessian (at the MAP) | ep"),
    )


@option("sampler", "independence")
class Independence(Proposer):
    """Independence Metropolis-Hastings: proposals from a t of `freedom` degrees, or from a Gaussian (null).

    metric names the Gaussian: the bounds' collapsed one, that of the curvature at the MAP, or EP's.
    """

    paper: ClassVar[str] = "Tierney 1994"
    metric: Literal["bound", "hessian", "ep"] = setting(
        "hessian", "centre and shape of the t: hessian (the MAP and the curvature there) | bound | ep"
    )
    freedom: float | None = setting(8.0, "its degrees of freedom; null: a Gaussian", **FREEDOM)


@option("sampler", "pcn")
class Pcn(Proposer):
    """Preconditioned Crank-Nicolson about the Gaussian at the MAP, `persistence` of the way there kept.

    persistence 0 draws proposals from that Gaussian itself.
    """

    paper: ClassVar[str] = "Cotter, Roberts, Stuart and White 2013"
    metric: Literal["bound", "hessian", "ep"] = setting(
        "hessian", "shape of the Gaussian: hessian (the posterior's at the MAP) | bound | ep"
    )
    persistence: float = setting(
        0.0, "how much of the way from the MAP is kept; 0: none", at_least=0, at_most=0.999
    )


@option("sampler", "surrogate_transition")
class SurrogateTransition(Proposer):
    """`moves` moves of pcn on the expansion at the MAP, which read no data, then one test that reads few."""

    paper: ClassVar[str] = "Liu 2001, section 9.4.3; with a test that reads few data, ours"
    suggests: ClassVar[tuple[str, ...]] = (*ThetaUpdate.suggests, "acceptance=mh_ss")
    metric: Literal["hessian"] = setting("hessian", "shape of the moves")
    moves: int = setting(20, "before each test", at_least=1)
    persistence: float = setting(
        0.7, "of a move: how much of the way from the MAP is kept", at_least=0, at_most=0.999
    )

    def unfit(self, arm: Any) -> str:
        """As in the base class; the rule has to bring the expansion."""
        if arm.acceptance is not None and not arm.acceptance.surrogate:
            fitting = typed_choices("acceptance", lambda cls: getattr(cls, "surrogate", False))
            return f"acceptance={arm.acceptance.name}: has no expansion to move on; choose {fitting}"
        flat = arm.acceptance is not None and arm.acceptance.order < 2
        if flat and arm.prior is not None and not arm.prior.smooth:
            return (
                f"acceptance.order={arm.acceptance.order}: makes no proper density of prior={arm.prior.name} "
                f"for sampler={self.name} to move on; choose acceptance.order=2"
            )
        return super().unfit(arm)
