"""What a finished cell stored, opened when first needed."""

import functools
import math
from typing import Any

import numpy as np

from flyrun.experiments.runner.store import StoredCell

_KEPT_BYTES = 64 * 2**20
_ALL = slice(None)


def at_cost(costs: np.ndarray, values: np.ndarray, cost: float) -> float:
    """Values (T,) at a cost, by the logarithm of their costs (T,); NaN before the first, after the last."""
    some = costs > 0
    if not some.any():
        return math.nan
    return float(np.interp(math.log(cost), np.log(costs[some]), values[some], math.nan, math.nan))


class Draws:
    """The groups of a finished cell's file, each of which may be absent; close() it."""

    def __init__(self, cell: StoredCell):
        self.cell, self.info = cell, cell.info
        self.facts: dict[str, Any] = cell.info.get("facts", {})
        self.kept: Any = None  # what the sections keep of the cell
        self._positions: np.ndarray | None = None

    @functools.cached_property
    def file(self) -> Any:
        """The stored groups; raises StoreError when they cannot be read."""
        return self.cell.file()

    def names(self, group: str) -> list[str]:
        """The variables of a group, without its dimensions; none where there is no such group."""
        stored = self.file.get(group, {})
        return [name for name, variable in stored.items() if not variable.is_scale]

    def values(self, group: str, name: str) -> np.ndarray | None:
        """A variable, (n, …), of the one chain where it has chains; None where there is none."""
        stored = self.file.get(group, {})
        if name not in stored:
            return None
        return stored[name][0] if "chain" in stored else stored[name][:]

    def whole(self, name: str) -> np.ndarray | None:
        """A value by iteration, (T, …), burn-in's first; None where there is none."""
        parts = [self.values(group, name) for group in ("warmup_sample_stats", "sample_stats")]
        known = [part for part in parts if part is not None]
        return np.concatenate(known).astype(float) if known else None

    def real(self) -> bool:
        """Whether there are draws of real numbers, which have means."""
        return "posterior/theta" in self.file and self.file["posterior/theta"].dtype.kind == "f"

    @property
    def shape(self) -> tuple[int, int]:
        """(T, D) of the positions."""
        return self.file["posterior/theta"].shape[1:]

    def labels(self) -> list[str]:
        """The names of the coordinates, by number where they have none."""
        (dimension,) = self.file["posterior/theta"].dims[2].values()
        named = dimension.dtype.kind == "O"
        return (
            [str(name) for name in dimension.asstr()]
            if named
            else [f"theta[{d}]" for d in range(self.shape[1])]
        )

    def positions(self, coordinates: slice = _ALL) -> np.ndarray:
        """(T, D) draws after burn-in of these coordinates; small ones stay in memory for the next call."""
        if self._positions is not None:
            return self._positions[:, coordinates]
        values = self.file["posterior/theta"][0, :, coordinates]
        if coordinates == _ALL and values.nbytes <= _KEPT_BYTES:
            self._positions = values
        return values

    def answer(self, n: int) -> tuple[np.ndarray, np.ndarray | None] | None:
        """Draws (M, D) of what a cell hands in, or n of its Gaussian; weights, if they have any.

        Of more than n weighted draws those of even weight that stand for them. None where it has neither.
        """
        if self.real():
            return self.positions(), None
        theta, mean, covariance = (
            self.values(group, name)
            for group, name in (
                ("weighted", "theta"),
                ("approximation", "mean"),
                ("approximation", "covariance"),
            )
        )
        if theta is not None:
            even = self.values("resampled", "theta")
            if len(theta) > n and even is not None:
                return even, None
            log_weight, sign = (self.values("weighted", name) for name in ("log_weight", "sign"))
            if log_weight is None:
                return theta, None
            weight = np.exp(log_weight - log_weight.max())
            return theta, weight if sign is None else weight * sign
        if mean is None or covariance is None:
            return None
        rng = np.random.default_rng(0)
        return rng.multivariate_normal(mean, covariance, n, method="cholesky"), None

    def close(self) -> None:
        """Let go of the file and the memory."""
        if "file" in vars(self):
            self.file.close()
            del self.file
        self._positions = None
