"""Choices of how proposals are accepted."""

from typing import Any, ClassVar, Literal

from flyrun.ground.schema import Choice, listing, option, setting


class Acceptance(Choice):
    """A rule that accepts or refuses proposals."""

    home: ClassVar[str] = "flyrun.experiments.samplers.chain.acceptance"
    #: whether updates that ask for the data's gradient at a proposal can leave the decision to it
    settles: ClassVar[bool] = False
    #: whether the update sees a surrogate that reads no data, and the rule makes up for what it leaves out
    surrogate: ClassVar[bool] = False
    #: whether the MAP must be found first
    at_map: ClassVar[bool] = False

    @property
    def exact(self) -> bool:
        """Whether a chain under this rule has the posterior for its stationary distribution."""
        return True


@option("acceptance", "exact")
class Exact(Acceptance):
    """Metropolis and Hastings' rule, min(1, ratio of densities), by all that the target evaluates."""

    neutral: ClassVar[bool] = True
    idle: ClassVar[bool] = True
    settles: ClassVar[bool] = True


class Reading(Acceptance):
    """A rule that reads data one by one, with Taylor polynomials of the likelihood at the MAP, to `order`."""

    order: int

    @property
    def at_map(self) -> bool:  # type: ignore[override]
        return self.order > 0

    def unfit(self, arm: Any) -> str:
        """As in the base class: the model must have bounds for the order, and there is no Firefly."""
        if arm.bound is not None and arm.bound.firefly:
            return f"acceptance={self.name}: reads data one by one; choose bound=none and brightness=none"
        orders = arm.model.orders
        if not self.at_map or self.order in orders:
            return super().unfit(arm)
        lacks = f"model={arm.model.name} has no bounds on what Taylor polynomials leave out"
        if not orders:
            # a method that suggests another rule needs the expansion
            sampler = "" if "acceptance=exact" in arm.sampler.suggests else "sampler=pcn "
            return f"acceptance={self.name}: {lacks}; choose {sampler}acceptance=exact"
        least = type(self).__dataclass_fields__["order"].metadata["range"].at_least
        fitting = listing((f"acceptance.order={order}" for order in orders if order >= least), "or")
        return f"acceptance.order={self.order}: {lacks} at that order; choose {fitting}"


class Expanding(Reading):
    """A rule that is exact whatever the order."""

    at_map = True  # type: ignore[assignment]


class Thinned(Expanding):
    """A rule that reads data drawn in proportion to bounds of what the expansion leaves out of them.

    bounds: a constant of its own for every datum (local), one for all (global), or as in Cornish et al. 2019.
    """

    kernel: ClassVar[str] = "flyrun.experiments.samplers.chain.acceptance.thinned"
    settles: ClassVar[bool] = True
    surrogate: ClassVar[bool] = True
    bounds: str

    def unfit(self, arm: Any) -> str:
        """As in the base class; a model with bounds of its own has them one way only."""
        if self.bounds == "local" or arm.model.by_leverages:
            return super().unfit(arm)
        return (
            f"acceptance.bounds={self.bounds}: model={arm.model.name} has bounds of its own, one for every "
            "datum; choose acceptance.bounds=local"
        )


@option("acceptance", "delayed")
class Delayed(Expanding):
    """The likelihood's expansion at the MAP decides first; all data are read where it accepts."""

    paper: ClassVar[str] = "Christen and Fox 2005; Banterle, Grazian, Lee and Robert 2019"
    order: int = setting(2, "of the expansion: 1 | 2 | 3", at_least=1, at_most=3)


@option("acceptance", "smh")
class Smh(Thinned):
    """Scalable Metropolis-Hastings: an expansion at the MAP decides first, then each datum drawn can refuse.

    Data are drawn by bounds on what the expansion leaves out.
    """

    paper: ClassVar[str] = "Cornish, Vanetti, Bouchard-Côté, Deligiannidis and Doucet 2019"
    order: int = setting(2, "of the expansion: 1 | 2", at_least=1, at_most=2)
    bounds: Literal["local", "global", "cornish"] = setting(
        "local", "constants of each datum; global: one for all; cornish: this one in the paper's form"
    )


@option("acceptance", "tuna")
class Tuna(Thinned):
    """TunaMH: data drawn by their bounds, and λ = chi·(C M)² more, multiply the ratio.

    Order 0 is the paper's, without control variates.
    """

    paper: ClassVar[str] = "Zhang, Cooper and De Sa 2020, Asymptotically Optimal Exact Minibatch MH"
    order: int = setting(
        2, "of the expansion at the MAP: 0 (the paper's: none) | 1 | 2", at_least=0, at_most=2
    )
    chi: float = setting(1e-5, "more data, fewer refusals; the paper's for MNIST", at_least=0)
    bounds: Literal["local", "global"] = setting("local", "constants of each datum; global: one for all")


@option("acceptance", "mh_ss")
class MhSs(Thinned):
    """Metropolis-Hastings with scalable subsampling, by bounds on what an expansion at the MAP leaves out.

    Order 3 is ours.
    """

    paper: ClassVar[str] = "Prado, Nemeth and Sherlock 2024; order 3 and its bounds ours"
    order: int = setting(2, "of the expansion: 1 | 2 | 3", at_least=1, at_most=3)
    bounds: Literal["local", "global"] = setting("local", "constants of each datum; global: one for all")


@option("acceptance", "poisson_estimator")
class PoissonEstimator(Thinned):
    """A pseudo-marginal chain: each state keeps an unbiased estimate of the likelihood, never negative.

    Poisson's estimator of what an expansion at the MAP leaves out, with data drawn by their bounds.
    """

    paper: ClassVar[str] = (
        "Wagner 1987; Papaspiliopoulos 2009; Andrieu and Roberts 2009; Angelino, Johnson and Adams 2016, "
        "section 3.6"
    )
    kernel: ClassVar[str] = "flyrun.experiments.samplers.chain.acceptance.poisson_estimator"
    order: int = setting(2, "of the expansion: 1 | 2 | 3", at_least=1, at_most=3)
    bounds: Literal["local", "global"] = setting("local", "constants of each datum; global: one for all")
    intensity: float = setting(
        1.0, "by how many more data estimates are made than keep them from being negative", at_least=1
    )


def _order() -> Any:
    """Of the proxies of a rule that reads until it is sure."""
    what = "of the Taylor polynomials at the MAP that stand in for log likelihoods; 0: none"
    return setting(0, what, at_least=0, at_most=2)


class Subsampled(Reading):
    """A rule that reads until it is sure, up to an error of epsilon; polynomials of `order` are proxies."""

    epsilon: float

    @property
    def exact(self) -> bool:
        return self.epsilon == 0


@option("acceptance", "austerity")
class Austerity(Subsampled):
    """Reads batches until a t test is sure at level epsilon; biased, except that epsilon=0 reads all data."""

    paper: ClassVar[str] = "Korattikara, Chen and Welling 2014, Austerity in MCMC Land"
    order: int = _order()
    batch: int = setting(500, "data read at a time, at least 2", at_least=2)
    epsilon: float = setting(
        0.05,
        "chance of a wrong answer, if sample means are normal; 0: reads all, 0.5: one batch",
        at_least=0,
        at_most=0.5,
    )


@option("acceptance", "confidence")
class Confidence(Subsampled):
    """Reads growing batches until a bound on their mean is sure; errs with chance epsilon, 0 reads all.

    Algorithm 7 of Angelino, Johnson and Adams 2016 is bound=serfling growth=1 levels=size.
    """

    paper: ClassVar[str] = "Bardenet, Doucet and Holmes 2014 and 2017, On MCMC Methods for Tall Data"
    bound: Literal[
        "hoeffding", "serfling", "hoeffding_serfling", "empirical_bernstein", "bernstein_serfling"
    ] = setting(
        "bernstein_serfling",
        "hoeffding | serfling, as in Algorithm 7 | hoeffding_serfling, tighter after half of the data | "
        "empirical_bernstein | bernstein_serfling",
    )
    order: int = _order()
    batch: int = setting(20, "data read first, at least 2", at_least=2)
    growth: float = setting(
        2.0, "by how much the data read grow from one stage to the next; 1: by batch", at_least=1
    )
    levels: Literal["stage", "size"] = setting(
        "stage", "chances of a wrong answer fall with the number of the stage; size: of the data read"
    )
    power: float = setting(2.0, "as which power they fall", above=1)
    epsilon: float = setting(0.01, "chance of a wrong answer", at_least=0, at_most=0.5)
    at_map = True  # type: ignore[assignment]  # ranges of log likelihoods are told by leverages there


@option("acceptance", "bright_subset")
class BrightSubset(Acceptance):
    """Firefly whose proposals are tested by batches of its terms; biased, except for epsilon=0."""

    paper: ClassVar[str] = "Angelino, Johnson and Adams 2016, section 3.6; Korattikara, Chen and Welling 2014"
    terms: Literal["bright", "both"] = setting(
        "bright",
        "of which data: bright, as the sum of the others is known | both: batches of bright ones and of dark",
    )
    batch: int = setting(16, "terms of a kind read at a time", at_least=2, at_most=128)
    epsilon: float = setting(
        0.05, "chance of a wrong answer, if sample means are normal; 0: reads all", at_least=0, at_most=0.5
    )

    @property
    def exact(self) -> bool:
        return self.epsilon == 0

    def unfit(self, arm: Any) -> str:
        """As in the base class; it tests bright data."""
        if arm.bound is not None and not arm.bound.firefly:
            return f"acceptance={self.name}: tests Firefly's bright data; choose bound=map"
        return super().unfit(arm)


@option("acceptance", "pseudo_marginal")
class PseudoMarginal(Acceptance):
    """Firefly's θ and z proposed together, each datum bright with chance q: exact, but it sticks.

    A pseudo-marginal chain (Maclaurin and Adams 2014, section 5), for show. Its bounds are its own, tight
    at the MAP.
    """

    paper: ClassVar[str] = "Maclaurin and Adams 2014, section 5; Andrieu and Roberts 2009"
    suggests: ClassVar[tuple[str, ...]] = ("sampler=random_walk", "sampler.metric=hessian", "sampler.step=1")
    at_map: ClassVar[bool] = True
    q: float = setting(
        0.02,
        "chance of each datum to be bright in a proposal, in (0, 1); 0.5 in the paper",
        at_least=1e-12,
        at_most=0.999,
    )

    def unfit(self, arm: Any) -> str:
        """As in the base class; it makes its bounds itself, and hardly any step is short enough to tune."""
        if not arm.model.bounds:
            return f"acceptance={self.name}: model={arm.model.name} has no bounds; choose acceptance=exact"
        if arm.bound is not None and arm.bound.firefly:
            return (
                f"acceptance={self.name}: has bounds and brightness of its own; choose bound=none and "
                "brightness=none"
            )
        if getattr(arm.sampler, "step", 1.0) is None:
            return f"acceptance={self.name}: accepts too seldom to tune a step by; choose sampler.step=1"
        return super().unfit(arm)
