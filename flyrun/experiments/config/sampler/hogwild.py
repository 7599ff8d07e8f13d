"""Samplers of graphs and Gaussians that draw many variables at once."""

from typing import Any, ClassVar, Literal

from flyrun.experiments.config.sampler.base import Sampler
from flyrun.ground.schema import option, setting

SURVEY = "Angelino, Johnson and Adams 2016, Patterns of Scalable Bayesian Inference, chapter 4"


@option("sampler", "hogwild")
class Hogwild(Sampler):
    """Hogwild Gibbs: processors draw their own variables given what they last heard of the others.

    Algorithms 15 and 16.
    """

    home: ClassVar[str] = "flyrun.experiments.samplers.hogwild"
    family: ClassVar[str] = "flyrun.experiments.samplers.hogwild.method"
    kinds: ClassVar[tuple[str, ...]] = ("precision", "weights")
    paper: ClassVar[str] = f"{SURVEY}; Johnson, Saunderson and Willsky 2013"
    processors: int = setting(4, "how many; each has variables of its own", at_least=1)
    partition: Literal["runs", "stripes", "random"] = setting(
        "runs", "whose variables: runs of neighbours; stripes, every K-th; random, as many each"
    )
    owners: tuple[int, ...] | None = setting(
        None, "the processor of each variable, counted from 0; null: by partition", at_least=0
    )
    sweeps: int = setting(1, "over its own variables, before a processor tells the others", at_least=1)
    most_sweeps: int | None = setting(
        None, "sweeps are drawn evenly up to this number, each round and processor; null: sweeps", at_least=1
    )
    schedule: Literal["bsp", "asynchronous"] = setting(
        "bsp", "all messages arrive before the next round; asynchronous: some come late, or to some alone"
    )
    receivers: int | None = setting(
        None, "drawn anew for each message, if asynchronous; null: all others", at_least=1
    )
    late: float = setting(0.5, "probability that a message is late, if asynchronous", at_least=0, at_most=1)
    most_late: int = setting(5, "rounds, evenly from 1", at_least=1, at_most=100)

    def unfit(self, arm: Any) -> str:
        """As in the base class; in lockstep all are told, and the most sweeps are not below the least."""
        if self.receivers is not None and self.schedule == "bsp":
            return (
                f"sampler.receivers={self.receivers}: schedule=bsp tells all; choose "
                "sampler.schedule=asynchronous"
            )
        if self.most_sweeps is not None and self.most_sweeps < self.sweeps:
            return (
                f"sampler.most_sweeps={self.most_sweeps}: sampler.sweeps={self.sweeps} is the least; choose "
                f"sampler.most_sweeps={self.sweeps} or more"
            )
        return super().unfit(arm)


@option("sampler", "hogwild_shares")
class HogwildShares(Sampler):
    """Theorems about Hogwild Gibbs, tried on random precision matrices, a step each."""

    home: ClassVar[str] = "flyrun.experiments.samplers.hogwild"
    family: ClassVar[str] = "flyrun.experiments.samplers.hogwild.hogwild_shares"
    kinds: ClassVar[tuple[str, ...]] = ("precision",)
    paper: ClassVar[str] = f"{SURVEY}, §7"


@option("sampler", "chromatic")
class Chromatic(Sampler):
    """Variables of one colour at once, which share no factor; exact, unless all are drawn at once."""

    home: ClassVar[str] = "flyrun.experiments.samplers.hogwild"
    family: ClassVar[str] = "flyrun.experiments.samplers.hogwild.chromatic"
    kinds: ClassVar[tuple[str, ...]] = ("weights",)
    paper: ClassVar[str] = f"{SURVEY}, Figure 4.1; Gonzalez, Low, Gretton and Guestrin 2011"
    threads: int = setting(1, "real ones; they change no draw", at_least=1, at_most=256)
    at_once: Literal["colour", "all"] = setting(
        "colour", "all: every variable given the last sweep, Synchronous Gibbs, which is biased"
    )

    def non_default(self) -> dict[str, Any]:
        """As in the base class: threads change no draw."""
        return {key: value for key, value in super().non_default().items() if key != "threads"}


@option("sampler", "belief_propagation")
class BeliefPropagation(Sampler):
    """Loopy belief propagation on Ising models: exact on trees."""

    family: ClassVar[str] = "flyrun.experiments.samplers.belief_propagation"
    kinds: ClassVar[tuple[str, ...]] = ("weights",)
    paper: ClassVar[str] = "Pearl 1988; Minka 2001; Angelino, Johnson and Adams 2016, section 2.4"
    models: ClassVar[tuple[str, ...]] = ("ising",)
    damping: float = setting(0.5, "share of the way that messages move in a round", above=0, at_most=1)
