"""Samplers of graphs and Gaussians that draw many variables at once."""

from typing import Any, ClassVar, Literal

from flyrun.config.sampler.base import Sampler
from flyrun.config.schema import option, setting

SURVEY = "Angelino, Johnson and Adams 2016, Patterns of Scalable Bayesian Inference, chapter 4"


@option("sampler", "hogwild")
class Hogwild(Sampler):
    """Hogwild Gibbs: processors draw their own variables given what they last heard of the others.

    Algorithms 15 and 16.
    """

    home: ClassVar[str] = "flyrun.samplers.hogwild"
    family: ClassVar[str] = "flyrun.samplers.hogwild.method"
    kinds: ClassVar[tuple[str, ...]] = ("precision", "weights")
    paper: ClassVar[str] = f"{SURVEY}; Johnson, Saunderson and Willsky 2013"
    processors: int = setting(4, "how many; each has a run of neighbouring variables", at_least=1)
    sweeps: int = setting(1, "over its own variables, before a processor tells the others", at_least=1)
    schedule: Literal["bsp", "asynchronous"] = setting(
        "bsp", "all messages arrive before the next round; asynchronous: some come late"
    )
    late: float = setting(0.5, "probability that a message is late, if asynchronous", at_least=0, at_most=1)
    most_late: int = setting(5, "rounds, evenly from 1", at_least=1, at_most=100)


@option("sampler", "hogwild_shares")
class HogwildShares(Sampler):
    """Theorems about Hogwild Gibbs, tried on random precision matrices, a step each."""

    home: ClassVar[str] = "flyrun.samplers.hogwild"
    family: ClassVar[str] = "flyrun.samplers.hogwild.hogwild_shares"
    kinds: ClassVar[tuple[str, ...]] = ("precision",)
    paper: ClassVar[str] = f"{SURVEY}, §7"


@option("sampler", "chromatic")
class Chromatic(Sampler):
    """Variables of one colour at once, which share no factor; exact, unless all are drawn at once."""

    home: ClassVar[str] = "flyrun.samplers.hogwild"
    family: ClassVar[str] = "flyrun.samplers.hogwild.chromatic"
    kinds: ClassVar[tuple[str, ...]] = ("weights",)
    paper: ClassVar[str] = f"{SURVEY}, Figure 4.1; Gonzalez, Low, Gretton and Guestrin 2011"
    threads: int = setting(1, "real ones; they change no draw", at_least=1, at_most=256)
    at_once: Literal["colour", "all"] = setting(
        "colour", "all: every variable given the last sweep, Synchronous Gibbs, which is biased"
    )

    def non_default(self) -> dict[str, Any]:
        """As in the base class: threads change no draw."""
        return {key: value for key, value in super().non_default().items() if key != "threads"}
