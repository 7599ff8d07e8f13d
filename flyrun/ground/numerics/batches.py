"""Which rows a step looks at: drawn with replacement, or all of them once an epoch in an order of its own."""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np


@dataclass
class Batches:
    """Batches of `size` of n_data rows at most; those of an epoch differ by one row."""

    n_data: int
    size: int
    kind: Literal["epochs", "replacement"]
    _order: tuple[tuple[int, int], np.ndarray] | None = field(default=None, repr=False)

    @property
    def in_epoch(self) -> int:
        """Steps that look at as many rows as there are."""
        return -(-self.n_data // self.size)

    @property
    def factor(self) -> float:
        """What makes a batch's sum stand for all rows: N/b; of epochs their steps, as all add up to N."""
        return self.n_data / self.size if self.kind == "replacement" else float(self.in_epoch)

    def rows(self, step: int, rng: np.random.Generator, key: int) -> np.ndarray:
        """Indices, (B,), of the rows of a step, counted from 0.

        With replacement drawn from rng; the order of an epoch is known from its number and key alone, so that
        no state holds it.
        """
        if self.kind == "replacement":
            return rng.integers(self.n_data, size=self.size)
        epoch, place = divmod(step, self.in_epoch)
        if self._order is None or self._order[0] != (key, epoch):
            order = np.random.Generator(np.random.PCG64([key, epoch])).permutation(self.n_data)
            self._order = (key, epoch), order
        low, high = (self.n_data * (place + k) // self.in_epoch for k in (0, 1))
        return self._order[1][low:high]


@dataclass
class Parts(Batches):
    """All rows in `count` parts, whose sizes differ by one: in an order of the key's, or as they lie."""

    count: int = 1
    shuffled: bool = True

    @property
    def in_epoch(self) -> int:
        return self.count

    def rows(self, step: int, rng: np.random.Generator, key: int) -> np.ndarray:
        if self.shuffled:
            return super().rows(step, rng, key)
        low, high = (self.n_data * (step % self.count + k) // self.count for k in (0, 1))
        return np.arange(low, high)
