"""One chain whose next steps several workers evaluate ahead of it."""

from dataclasses import replace
from typing import Any, ClassVar, Literal

from flyrun.experiments.config.sampler.base import Sampler
from flyrun.ground.schema import option, setting


@option("sampler", "prefetching")
class Prefetching(Sampler):
    """Random-walk Metropolis whose next steps several workers evaluate ahead of it, or share; exact.

    The draws are the same for any workers. team: simulated workers, with a latency in evaluations of the
    likelihood, or real ones. step null is tuned to `target_accept` in burn-in, a number is kept.
    """

    home: ClassVar[str] = "flyrun.experiments.samplers.parallel"
    family: ClassVar[str] = "flyrun.experiments.samplers.parallel.prefetching"
    paper: ClassVar[str] = (
        "Brockwell 2006, Byrd et al. 2008, Strid 2010, Angelino et al. 2014; Angelino, Johnson and Adams "
        "2016, Algorithms 9 and 10; foretold by a quadratic: ours; delayed: "
        "Byrd et al. 2010, Christen and Fox 2005"
    )
    scheme: Literal["naive", "rejections", "static", "predictive", "foretold", "delayed", "divided"] = (
        setting(
            "foretold",
            "which steps: naive, all; rejections; static, the likeliest; predictive, by partial sums; "
            "foretold, by a quadratic; delayed: what passes a quadratic's test is taken to be accepted; "
            "divided: the next alone, rows shared out",
        )
    )
    workers: int = setting(16, "how many evaluations at once; 1: the plain chain", at_least=1, at_most=1024)
    team: Literal["simulated", "threads", "processes", "dask"] = setting(
        "simulated",
        ("what workers are: simulated, on a clock of their own, or threads, processes, dask of this machine"),
    )
    latency: float = setting(
        0.0,
        "of a round's messages, in evaluations of the likelihood; of simulated workers",
        at_least=0,
        at_most=1e9,
    )
    pause: float = setting(
        0.0,
        "seconds that an evaluation waits besides: stands for a slower likelihood, to try a team",
        at_least=0,
        at_most=1,
    )
    batches: int = setting(
        10,
        "blocks of rows that an evaluation is the sum of; predictive gives them out one by one, divided in "
        "even shares",
        at_least=1,
    )
    metric: Literal["identity", "hessian"] = setting(
        "hessian", "steps shaped by the posterior's curvature at the MAP; identity: round"
    )
    target_accept: float = setting(0.234, "what burn-in tunes the step to, by outcomes", above=0, at_most=1)
    step: float | None = setting(None, "a number fixes the step", above=0)

    @property
    def at_map(self) -> bool:  # type: ignore[override]
        return self.metric == "hessian" or self.scheme in ("foretold", "delayed")

    @property
    def shares(self) -> int:
        """Into how many rounds' work an evaluation is divided."""
        return self.workers if self.scheme == "divided" else 1

    def alone(self) -> "Prefetching":
        """The same chain with the same luck, whoever shares its work."""
        alone = replace(self, workers=1, team="simulated", latency=0.0, pause=0.0, batches=1)
        return alone if self.scheme == "delayed" else replace(alone, scheme="naive")

    def unfit(self, arm: Any) -> str:
        """As in the base class; latency is simulated, and predictions by partial sums need parts."""
        if self.latency and self.team != "simulated":
            return f"sampler.latency={self.latency:g}: real workers have their own; choose sampler.latency=0"
        if self.scheme == "predictive" and self.batches == 1:
            return "sampler.batches=1: scheme=predictive goes by partial sums; choose sampler.batches=10"
        return super().unfit(arm)
