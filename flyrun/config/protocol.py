"""How long and how often."""

from __future__ import annotations

from typing import Literal

from flyrun.config.schema import Choice, option, ranged, show
from flyrun.errors import ConfigError


@option("protocol", "*")
class Protocol(Choice):
    """How long and how often: seeds (n for 0..n-1, or a list), iterations (with burn-in), thinning, start.

    extend: finished chains keep their state, and more iterations go on from there.
    """

    name: str = "default"
    seeds: int | tuple[int, ...] = 5
    iterations: int = ranged(80_000, at_least=1)
    burn_in: int = ranged(10_000, at_least=0)
    thin: int = ranged(1, at_least=1)
    init: Literal["prior", "map"] = "prior"
    chunk_seconds: float = ranged(2.0, above=0)
    extend: bool = False

    def check(self) -> None:
        """As in the base class."""
        seeds = self.seeds if isinstance(self.seeds, tuple) else range(self.seeds)
        if not seeds or min(seeds) < 0 or len(set(seeds)) < len(seeds):
            raise ConfigError(
                f"protocol.seeds={show(self.seeds)}: must be a number of seeds at least 1, "
                "or a list of different whole numbers at least 0, such as [0,1,2]"
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
