"""A term of a formula: effects of the levels of a group, or of a curve's directions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from flyrun.families.prior_densities import Prior
from flyrun.fitting.groups import level_map


@dataclass(frozen=True)
class Term:
    """Effects of the levels of a group. code: (N,) each row's level; columns: (N, q), what effects multiply;
    levels: J; correlated: whether they are; sds: priors of their sds; eta: of the correlations' LKJ.
    predictor: the place of what they add to among the family's predictors; into: (K, q), by how much each
    adds to each of all K linear ones, if that is no single one.
    sd: of all effects, where it is known and none is learnt.
    shares: (m, q), of each of m sds in the effects' precisions, as of `level_map.diagonal`, if these are not
    a sd each.
    """

    code: np.ndarray
    columns: np.ndarray
    levels: int
    correlated: bool
    sds: tuple[Prior, ...]
    eta: float = 1.0
    shares: np.ndarray | None = None
    predictor: int = 0
    sd: float | None = None
    into: np.ndarray | None = None

    @property
    def effects(self) -> int:
        """Of a level: q."""
        return self.columns.shape[1]

    @property
    def numbers(self) -> int:
        """Of h."""
        q = self.effects
        return len(self.sds) + (q * (q - 1) // 2 if self.correlated else 0)

    @property
    def size(self) -> int:
        """Of all its effects, level by level."""
        return self.levels * self.effects

    @property
    def predictors(self) -> Sequence[int]:
        """The places of all that effects add to."""
        return (self.predictor,) if self.into is None else range(len(self.into))

    def along(self, k: int, rows: slice | np.ndarray = slice(None)) -> np.ndarray:
        """(m, q): by how much effects of a row's level move its k-th predictor, of these rows."""
        return self.columns[rows] * (float(k == self.predictor) if self.into is None else self.into[k])

    def design(self, k: int) -> Any:
        """(N, J·q), sparse: what effects add to the k-th predictor, level by level."""
        n, q = self.columns.shape
        if k not in self.predictors:
            return sparse.csr_matrix((n, self.size))
        indices = (self.code[:, None] * q + np.arange(q)).ravel()
        values = self.along(k).ravel()
        return sparse.csr_matrix((values, indices, q * np.arange(n + 1)), shape=(n, self.size))

    def triangle(self, h: np.ndarray) -> level_map.Triangle:
        """T of h (n, C)."""
        if self.sd is not None:
            whole = np.ones((1, 1, h.shape[1]))
            return level_map.Triangle(self.sd * whole, 0.0 * whole, whole)
        if self.shares is None:
            return level_map.triangle(h, self.effects)
        sds, parts = level_map.diagonal(h, self.shares)
        return level_map.Triangle(np.eye(self.effects)[:, :, None] * sds, parts, sds)

    def triangle_slopes(self, its: level_map.Triangle, h: np.ndarray, slopes: np.ndarray) -> np.ndarray:
        """Slopes by h, (n, C), of a function whose slopes by T are these, (q, q, C)."""
        if self.sd is not None:
            return np.empty(h.shape)
        if self.shares is None:
            return level_map.triangle_slopes(its, h, slopes)
        return np.einsum("kkc,kc,mkc->mc", slopes, its.left, its.partial)

    def log_prior(self, h: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of h (n, C): values (C,) and slopes (n, C)."""
        value, slopes = level_map.lkj(h, self.effects, self.eta)
        for k, prior in enumerate(self.sds):
            value = value + prior.log_density(h[k])
            slopes[k] += prior.derivatives(h[k])[0]
        return value, slopes
