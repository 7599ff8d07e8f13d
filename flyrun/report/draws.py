"""What a finished cell stored, opened when first needed."""

import functools
from typing import Any

import numpy as np

from flyrun.runner.store import StoredCell

_KEPT_BYTES = 64 * 2**20
_ALL = slice(None)


class Draws:
    """The groups of a finished cell's file, each of which may be absent; close() it."""

    def __init__(self, cell: StoredCell):
        self.cell, self.info = cell, cell.info
        self.facts: dict[str, Any] = cell.info.get("facts", {})
        self.kept: Any = None  # what the sections keep of the cell
        self._positions: np.ndarray | None = None

    @functools.cached_property
    def tree(self) -> Any:
        """The stored groups; raises StoreError when they cannot be read."""
        return self.cell.tree()

    def has(self, group: str, name: str) -> bool:
        """Whether a group holds a variable."""
        return group in self.tree and name in self.tree[group]

    def values(self, group: str, name: str) -> np.ndarray | None:
        """A variable, of the one chain where it has chains; None where there is none."""
        if not self.has(group, name):
            return None
        variable = self.tree[group][name]
        return variable.values[0] if variable.dims[:1] == ("chain",) else variable.values

    def whole(self, name: str) -> np.ndarray | None:
        """A value by iteration, burn-in's first; None where there is none."""
        parts = [self.values(group, name) for group in ("warmup_sample_stats", "sample_stats")]
        known = [part for part in parts if part is not None]
        return np.concatenate(known).astype(float) if known else None

    def real(self) -> bool:
        """Whether there are draws of real numbers, which have means."""
        return self.has("posterior", "theta") and self.tree["posterior"]["theta"].dtype.kind == "f"

    def positions(self, coordinates: slice = _ALL) -> np.ndarray:
        """(T, D) draws after burn-in of these coordinates; small ones stay in memory for the next call."""
        if self._positions is not None:
            return self._positions[:, coordinates]
        theta = self.tree["posterior"]["theta"]
        values = theta.isel({theta.dims[2]: coordinates}).values[0]
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
        if "tree" in vars(self):
            self.tree.close()
            del self.tree
        self._positions = None
