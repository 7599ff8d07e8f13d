"""How long and how often."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from flyrun.ground.errors import ConfigError
from flyrun.ground.schema import FREEDOM, Choice, Section, option, part, setting, show

_MOST_SEEDS = 100_000  # each has a folder in every arm


@dataclass(frozen=True)
class Budget(Section):
    """When to stop by cost: likelihood queries, or passes over the data, set-up included."""

    group: ClassVar[str] = "protocol.budget"
    queries: float | None = setting(None, "likelihoods evaluated", above=0)
    passes: float | None = setting(None, "the same, over the number of data", above=0)

    def check(self) -> None:
        if self.queries is not None and self.passes is not None:
            raise ConfigError("protocol.budget.queries, protocol.budget.passes: choose one of them")

    @property
    def unit(self) -> str:
        """The key that is given."""
        return "queries" if self.passes is None else "passes"

    def in_queries(self, n_data: int | None) -> float:
        """Queries after which to stop; infinite without a budget. ConfigError for passes over no data."""
        if self.passes is None:
            return math.inf if self.queries is None else self.queries
        if n_data is None:
            raise ConfigError("protocol.budget.passes: this model has no data; take protocol.budget.queries")
        return self.passes * n_data


@option("protocol", "*")
class Protocol(Choice):
    """How long chains are, how many, and where they start."""

    name: str = "default"
    seeds: int | tuple[int, ...] = setting(5, "how many chains per arm, or which: [0,1,2]")
    iterations: int = setting(80_000, "iterations of a chain, burn-in included", at_least=1, at_most=1e12)
    burn_in: int = setting(
        10_000, "iterations left out of every estimate; steps are tuned in them", at_least=0
    )
    thin: int = setting(
        1, "keep every so many-th position; queries and acceptance are kept of all", at_least=1
    )
    init: Literal["prior", "map", "ep", "zero"] = setting(
        "prior",
        "where chains start: prior, a draw from it; map, from the Gaussian of the curvature at the MAP; "
        "ep, from that of expectation propagation; zero, θ = 0",
    )
    init_freedom: float | None = setting(
        None, "degrees of freedom of a t in place of the Gaussian, for wider starts", **FREEDOM
    )
    budget: Budget = part(Budget, "stop by cost, set-up included, after so many iterations at the latest")
    chunk_seconds: float = setting(2.0, "seconds between two checkpoints", above=0)
    extend: bool = setting(
        False, "true: a finished chain's state is kept, so that more iterations go on from it"
    )

    def check(self) -> None:
        seeds = self.seeds if isinstance(self.seeds, tuple) else range(self.seeds)
        each = 0 < len(seeds) <= _MOST_SEEDS and min(seeds) >= 0
        if not each or len(set(seeds)) < len(seeds):
            raise ConfigError(
                f"protocol.seeds={show(self.seeds)}: must be a number of seeds from 1 to {_MOST_SEEDS:,}, "
                "or a list of so many different whole numbers at least 0, such as [0,1,2]"
            )
        if self.burn_in >= self.iterations:
            raise ConfigError(
                f"protocol.burn_in={self.burn_in}: must be below protocol.iterations={self.iterations}, "
                f"such as {self.iterations // 4}"
            )
        for key in ("iterations", "burn_in"):
            if getattr(self, key) % self.thin:
                raise ConfigError(
                    f"protocol.thin={self.thin}: must divide protocol.{key}={getattr(self, key)}; "
                    "take a divisor of both iterations and burn_in"
                )

    @property
    def free(self) -> tuple[str, ...]:
        """Fields that leave a seed's draws as they are, so that they do not belong in a cell's key.

        Chains that can be extended have one key at any length: a longer one begins with the shorter.
        """
        always = ("name", "seeds", "chunk_seconds", "extend")
        return (*always, "iterations") if self.extend else always

    @property
    def seed_list(self) -> tuple[int, ...]:
        """The seeds, one chain each."""
        return self.seeds if isinstance(self.seeds, tuple) else tuple(range(self.seeds))
