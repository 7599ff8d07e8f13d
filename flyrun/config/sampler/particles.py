"""Weighted particles."""

from dataclasses import replace
from typing import Any, ClassVar, Literal

from flyrun.config.protocol import Budget
from flyrun.config.sampler.base import Sampler
from flyrun.config.schema import build, option, ranged
from flyrun.errors import ConfigError


class Particles(Sampler):
    """Weighted particles."""

    home: ClassVar[str] = "flyrun.samplers.particles"
    family: ClassVar[str] = "flyrun.samplers.particles.method"


@option("sampler", "pmd")
class Pmd(Particles):
    """Particle mirror descent: weighted particles, drawn anew from their kernel density now and then.

    rejuvenate: never is the paper's Strategy 1, always its Strategy 2, until its hybrid, ess ours.  schedule:
    γ = eta/(t + t0), eta/(t0 + √t), eta, or min(2/(t + 1), eta·m^(-2/(P + 4))) (Theorem 6).
    """

    paper: ClassVar[str] = (
        "Dai, He, Dai and Song 2016, Provable Bayesian Inference via Particle Mirror Descent"
    )
    particles: int = ranged(1_500, at_least=2)
    batch: int = ranged(10, at_least=1)
    batches: Literal["epochs", "replacement"] = "epochs"
    rejuvenate: Literal["never", "always", "until", "ess"] = "ess"
    until: float = ranged(0.2, at_least=0, at_most=1)
    ess: float = ranged(0.5, above=0, at_most=1)
    schedule: Literal["inverse", "root", "constant", "theorem"] = "inverse"
    eta: float = ranged(1.0, above=0)
    t0: float = ranged(0.0, at_least=0)
    adaptive: float | None = ranged(None, above=0, at_most=1)
    bandwidth: Literal["local", "theorem"] = "local"
    width: float = ranged(0.5, above=0)
    growth: Literal["fixed", "theorem"] = "fixed"
    pilot: str | None = None
    pilot_steps: int = ranged(1, at_least=1)

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

    def unfit(self, arm: Any) -> str:
        if self.rejuvenate == "until" and arm.protocol.extend:
            return "sampler.rejuvenate=until: a share of steps that may be extended; choose ess"
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
    """Sequential Monte Carlo that looks at every row once, particles redrawn by Liu and West's kernel."""

    paper: ClassVar[str] = "Balakrishnan and Madigan 2006; kernel, Liu and West 2001"
    batches: ClassVar[str] = "epochs"
    particles: int = ranged(1_500, at_least=2)
    batch: int = ranged(10, at_least=1)
    ess: float = ranged(0.5, above=0, at_most=1)
    discount: float = ranged(0.99, above=0.34, at_most=1)


@option("sampler", "tempered_smc")
class TemperedSmc(Particles):
    """Sequential Monte Carlo from the prior to the posterior by powers of the likelihood, on all data."""

    paper: ClassVar[str] = "Del Moral, Doucet and Jasra 2006"
    particles: int = ranged(1_500, at_least=2)
    ess: float = ranged(0.5, above=0, at_most=1)
    moves: int = ranged(2, at_least=1)
