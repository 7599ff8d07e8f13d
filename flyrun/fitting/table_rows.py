"""Rows of a table, as a posterior reads them."""

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Design:
    """What an auxiliary number is linear in. features: (N, W), ones last; offset: (N,) or one number."""

    features: np.ndarray
    offset: np.ndarray | float = 0.0

    def take(self, which: slice | np.ndarray) -> "Design":
        """Of some rows, by a slice or (n,), features as float64."""
        offset = self.offset[which] if isinstance(self.offset, np.ndarray) else self.offset
        return Design(self.features[which].astype(np.float64, copy=False), offset)


@dataclass(frozen=True)
class Rows:
    """Rows of a table. features: (N, D), float32 or float64; target: y, (N,).

    trials, offset, weights: (N,) or one number for all rows; trials (N, 5) of families.censoring.
    weights: how often a row is there.
    designs: of each auxiliary number, None of one that is alike for all rows; none where all are.
    """

    features: np.ndarray
    target: np.ndarray
    trials: Any = 1.0
    offset: Any = 0.0
    weights: Any = 1.0
    designs: tuple[Design | None, ...] = ()

    def __len__(self) -> int:
        """N."""
        return len(self.target)

    def take(self, which: slice | np.ndarray) -> "Rows":
        """Some of them, by a slice or (n,), features as float64."""
        target, trials, offset, weights = (
            value[which] if np.ndim(value) else value
            for value in (self.target, self.trials, self.offset, self.weights)
        )
        designs = tuple(design and design.take(which) for design in self.designs)
        features = self.features[which].astype(np.float64, copy=False)
        return Rows(features, target, trials, offset, weights, designs)

    def whole(self, name: str) -> np.ndarray:
        """trials, offset or weights of all rows, (N,), or as they are where a row has several."""
        value = np.asarray(getattr(self, name), np.float64)
        return value if value.ndim > 1 else np.broadcast_to(value, (len(self),))


def as_column(value: Any) -> Any:
    """A number, or one a row as (n, 1)."""
    return value[:, None] if np.ndim(value) else value
