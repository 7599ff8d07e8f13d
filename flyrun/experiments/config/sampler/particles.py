"""Weighted particles."""

from dataclasses import replace
from typing import Any, ClassVar, Literal

from flyrun.experiments.config.protocol import Budget
from flyrun.experiments.config.sampler.base import Sampler
from flyrun.ground.errors import ConfigError
from flyrun.ground.schema import build, option, setting


class Particles(Sampler):
    """Weighted particles."""

    home: ClassVar[str] = "flyrun.experiments.samplers.particles"
    family: ClassVar[str] = "flyrun.experiments.samplers.particles.method"


@option("sampler", "pmd")
class Pmd(Particles):
    """Particle mirror descent: weighted particles, drawn anew from their kernel density now and then.

    rejuvenate: never is the paper's Strategy 1, always its Strategy 2, until its hybrid, ess ours.  schedule:
    γ = eta/(t + t0), eta/(t0 + √t), eta, or min(2/(t + 1), eta·m^(-2/(P + 4))) (Theorem 6).
    """

    paper: ClassVar[str] = (
        "Dai, He, Dai and Song 2016, Provable Bayesian Inference via Particle Mirror Descent"
    )
    particles: int = setting(1_500, "how many, or at most", at_least=2)
    batch: int = setting(10, "rows a step", at_least=1)
    batches: Literal["epochs", "replacement"] = setting("epochs", "or replacement: drawn anew at every step")
    rejuvenate: Literal["never", "always", "until", "ess"] = setting(
        "ess",
        "before a step, by draws from the kernel density: never (Strategy 1), always (2), until "
        "(hybrid), ess",
    )
    until: float = setting(0.2, "of the steps in which until rejuvenates", at_least=0, at_most=1)
    later: int | None = setting(
        None, "particles drawn where until ends, for the steps after it; null: those there are", at_least=2
    )
    ess: float = setting(0.5, "share of effective particles below which ess does", above=0, at_most=1)
    schedule: Literal["inverse", "root", "constant", "theorem"] = setting(
        "inverse", "eta/(t + t0); root: eta/(t0 + √t); constant: eta; theorem: of Theorem 6, eta its Δ/M"
    )
    eta: float = setting(1.0, "with t0 = 0 and never one epoch is Bayes' rule", above=0)
    t0: float = setting(0.0, "steps that the schedule is late by", at_least=0)
    adaptive: float | None = setting(
        None, "the largest step up to the schedule's that leaves this share effective", above=0, at_most=1
    )
    bandwidth: Literal["local", "theorem"] = setting(
        "local",
        "by coordinate, from the spread within a mode; theorem: width·m^(-1/(P + 4)), the same in all",
    )
    width: float = setting(0.5, "local: of Silverman's rule", above=0)
    growth: Literal["fixed", "linear", "theorem"] = setting(
        "fixed", "from 50 to `particles`, linear: in proportion to the step; theorem: t^(2 + P/2)"
    )
    pilot: str | None = setting(
        None, "a sampler whose Gaussian the particles are drawn from, such as laplace"
    )
    pilot_steps: int = setting(1, "iterations of the pilot", at_least=1)

    def check(self) -> None:
        first = {"inverse": 1 + self.t0, "root": 1 + self.t0, "constant": 1.0}.get(self.schedule)
        if first is not None and self.eta > first:
            raise ConfigError(
                f"sampler.eta={self.eta:g}: makes the first step γ = {self.eta / first:.3g}, outside (0, 1]; "
                f"take sampler.eta at most {first:g}"
            )
        if self.adaptive is not None and (
            self.rejuvenate == "never" or (self.rejuvenate == "ess" and self.ess <= self.adaptive)
        ):
            raise ConfigError(
                f"sampler.adaptive={self.adaptive:g}: steps that leave that share effective soon come to 0; "
                "take sampler.rejuvenate=ess and sampler.ess above it, such as 0.75 with 0.5"
            )

        if self.later is not None and self.rejuvenate != "until":
            raise ConfigError(
                f"sampler.later={self.later}: is of the steps after sampler.rejuvenate=until's; add that, or "
                "leave sampler.later out"
            )

    def unfit(self, arm: Any) -> str:
        if self.rejuvenate == "until" and arm.protocol.extend:
            return "sampler.rejuvenate=until: a share of steps that may be extended; choose ess"
        if self.growth == "linear" and arm.protocol.extend:
            return "sampler.growth=linear: a share of steps that may be extended; choose fixed or theorem"
        return super().unfit(arm)

    def needed_arms(self, arm: Any) -> tuple[Any, ...]:
        """The pilot, a density with mean and covariance, where one is named."""
        if self.pilot is None:
            return ()
        short = replace(arm.protocol, iterations=self.pilot_steps, burn_in=0, thin=1, budget=Budget())
        pilot = build("sampler", {"name": self.pilot})
        return (replace(arm, name=self.pilot, sampler=pilot, protocol=short),)


@option("sampler", "one_pass_smc")
class OnePassSmc(Particles):
    """One-pass sequential Monte Carlo: it looks at every row once.

    Particles are redrawn by Liu and West's kernel.
    """

    paper: ClassVar[str] = "Balakrishnan and Madigan 2006; kernel, Liu and West 2001"
    batches: ClassVar[str] = "epochs"
    particles: int = setting(1_500, "how many", at_least=2)
    batch: int = setting(10, "rows a step", at_least=1)
    ess: float = setting(0.5, "share of effective particles below which they are redrawn", above=0, at_most=1)
    discount: float = setting(0.99, "of Liu and West's kernel", above=0.34, at_most=1)


@option("sampler", "tempered_smc")
class TemperedSmc(Particles):
    """Tempered sequential Monte Carlo on all data, from the prior to the posterior by likelihood powers."""

    paper: ClassVar[str] = "Del Moral, Doucet and Jasra 2006"
    particles: int = setting(1_500, "how many", at_least=2)
    ess: float = setting(0.5, "share of effective particles that a stage leaves", above=0, at_most=1)
    moves: int = setting(2, "random-walk moves a stage", at_least=1)
