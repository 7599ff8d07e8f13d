"""A term of a formula: effects of the levels of a group, or of a curve's directions."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from flyrun.families.prior_densities import Prior
from flyrun.fitting.groups import level_map


@dataclass(frozen=True)
class Term:
    """Effects of the levels of a group. code: (N,) each row's level; columns: (N, q), what effects multiply;
    levels: J; correlated: whether they are; sds: priors of their sds; eta: of the correlations' LKJ.
    predictor: the place of what they add to among the family's predictors.
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

    @cached_property
    def design(self) -> Any:
        """(N, J·q), sparse: the predictor's part of effects, level by level."""
        n, q = self.columns.shape
        indices = (self.code[:, None] * q + np.arange(q)).ravel()
        return sparse.csr_matrix((self.columns.ravel(), indices, q * np.arange(n + 1)), shape=(n, self.size))

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
