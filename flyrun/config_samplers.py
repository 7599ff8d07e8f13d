"""Choices of how θ is moved, on all data and under Firefly Monte Carlo."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from flyrun.schema import Choice, option, ranged


@option("sampler", "random_walk")
@dataclass(frozen=True)
class RandomWalk(Choice):
    """Random-walk Metropolis; step null is tuned to `target_accept` during burn-in, a number is kept.

    metric shapes the steps: round, or as the bounds' collapsed Gaussian or the posterior's curvature is.
    """

    paper: ClassVar[str] = "Metropolis et al. 1953; step scaled to accept 0.234, Roberts et al. 1997"
    name: str = "random_walk"
    metric: Literal["identity", "bound", "hessian"] = "identity"
    target_accept: float = ranged(0.234, above=0, at_most=1)
    step: float | None = ranged(None, above=0)


@option("sampler", "mala")
@dataclass(frozen=True)
class Mala(Choice):
    """Metropolis-adjusted Langevin; step null is tuned to `target_accept` in burn-in, a number is kept.

    metric as for the random walk.
    """

    paper: ClassVar[str] = "Roberts and Tweedie 1996; accepts 0.57, Roberts and Rosenthal 1998"
    name: str = "mala"
    metric: Literal["identity", "bound", "hessian"] = "identity"
    target_accept: float = ranged(0.57, above=0, at_most=1)
    step: float | None = ranged(None, above=0)


@option("sampler", "hmc")
@dataclass(frozen=True)
class Hmc(Choice):
    """Hamiltonian Monte Carlo about a Gaussian: FlyMC's pseudo-prior or, without FlyMC, the one that bounds
    tight at the MAP make (metric=bound), or the one of the posterior's curvature there (hessian)."""

    paper: ClassVar[str] = "Duane et al. 1987; splitting as in Shahbaba et al. 2014; under FlyMC ours"
    name: str = "hmc"
    metric: Literal["bound", "hessian"] = "bound"
    n_steps: int = ranged(4, at_least=1)
    jitter: float = ranged(0.2, at_least=0, at_most=0.9)
    target_accept: float = ranged(0.8, above=0, at_most=1)
    step: float | None = ranged(None, above=0)


@option("sampler", "slice")
@dataclass(frozen=True)
class Slice(Choice):
    """Slice sampling along random directions, stepping out and shrinking; width null is tuned in burn-in."""

    paper: ClassVar[str] = "Neal 2003; width tuned as in Karamanis and Beutler 2021"
    name: str = "slice"
    width: float | None = ranged(None, above=0)
    most_widenings: int = ranged(100, at_least=0)


@option("sampler", "elliptical_slice")
@dataclass(frozen=True)
class EllipticalSlice(Choice):
    """Elliptical slice sampling about a Gaussian, which metric names as it does for hmc."""

    paper: ClassVar[str] = "Murray, Adams and MacKay 2010; without FlyMC as in Nishihara et al. 2014"
    name: str = "elliptical_slice"
    metric: Literal["bound", "hessian"] = "bound"


@option("sampler", "independence")
@dataclass(frozen=True)
class Independence(Choice):
    """Independence Metropolis-Hastings: proposals from a t of `freedom` degrees at the MAP."""

    paper: ClassVar[str] = "Tierney 1994"
    name: str = "independence"
    metric: Literal["bound", "hessian"] = "hessian"
    freedom: float = ranged(8.0, above=0)
