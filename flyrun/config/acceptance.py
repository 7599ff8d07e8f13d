"""Choices of how proposals are accepted."""

from typing import Any, ClassVar, Literal

from flyrun.config.schema import Choice, listing, option, ranged


class Acceptance(Choice):
    """A rule that accepts or refuses proposals."""

    home: ClassVar[str] = "flyrun.samplers.chain.acceptance"
    #: whether the MAP must be found first
    at_map: ClassVar[bool] = False
    #: whether updates that ask for the data's gradient at a proposal can leave the decision to it
    settles: ClassVar[bool] = False
    #: whether the update sees a surrogate that reads no data, and the rule makes up for what it leaves out
    surrogate: ClassVar[bool] = False


@option("acceptance", "exact")
class Exact(Acceptance):
    """Metropolis and Hastings' rule, by all that the target evaluates."""

    neutral: ClassVar[bool] = True
    idle: ClassVar[bool] = True
    settles: ClassVar[bool] = True


class Expanding(Acceptance):
    """A rule that expands the likelihood at the MAP, to `order`."""

    at_map: ClassVar[bool] = True
    order: int

    def unfit(self, arm: Any) -> str:
        """As in the base class: the model must have bounds for the order, and there is no Firefly."""
        if arm.bound is not None and arm.bound.firefly:
            return f"acceptance={self.name}: has bounds of its own; choose bound=none and brightness=none"
        orders = getattr(arm.model, "orders", ())
        if self.order in orders:
            return ""
        if not orders:
            return f"acceptance={self.name}: model={arm.model.name} has no bounds; choose acceptance=exact"
        least = type(self).__dataclass_fields__["order"].metadata["range"].at_least
        fitting = listing((f"acceptance.order={order}" for order in orders if order >= least), "or")
        return f"acceptance.order={self.order}: model={arm.model.name} has no bound for it; choose {fitting}"


class Thinned(Expanding):
    """A rule that reads data drawn in proportion to bounds of what the expansion leaves out of them.

    bounds: a constant of its own for every datum (local), one for all (global), or as in Cornish et al. 2019.
    """

    settles: ClassVar[bool] = True
    surrogate: ClassVar[bool] = True


@option("acceptance", "delayed")
class Delayed(Expanding):
    """First the expansion of the likelihood to `order`, and all data where that accepts."""

    paper: ClassVar[str] = "Christen and Fox 2005; Banterle, Grazian, Lee and Robert 2019"
    order: int = ranged(2, at_least=1, at_most=3)


@option("acceptance", "smh")
class Smh(Thinned):
    """Scalable Metropolis-Hastings: the expansion decides first, then each datum drawn can refuse."""

    paper: ClassVar[str] = "Cornish, Vanetti, Bouchard-Côté, Deligiannidis and Doucet 2019"
    order: int = ranged(2, at_least=1, at_most=2)
    bounds: Literal["local", "global", "cornish"] = "local"


@option("acceptance", "tuna")
class Tuna(Thinned):
    """TunaMH; order 0 is the paper's, without control variates. chi: λ = chi·(C M)² more data are drawn."""

    paper: ClassVar[str] = "Zhang, Cooper and De Sa 2020, Asymptotically Optimal Exact Minibatch MH"
    order: int = ranged(2, at_least=0, at_most=2)
    chi: float = ranged(1e-5, at_least=0)
    bounds: Literal["local", "global"] = "local"


@option("acceptance", "mh_ss")
class MhSs(Thinned):
    """Metropolis-Hastings with scalable subsampling; order 3 is ours."""

    paper: ClassVar[str] = "Prado, Nemeth and Sherlock 2024; order 3 and its bounds ours"
    order: int = ranged(2, at_least=1, at_most=3)
    bounds: Literal["local", "global"] = "local"
