"""Priors of an ordinal's cutpoints c_1 < … < c_K, by a: c_1 = a_1 and c_k = c_{k−1} + e^{a_k}.

Up to a constant: cutpoints whose priors are typed are independent but for their order. A Dirichlet prior is
of the classes' chances where η is 0, σ(c_k) − σ(c_{k−1}).
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from flyrun.families.prior_densities import Prior
from flyrun.ground.numerics.special import Numbers, sigmoid, softplus


@dataclass(frozen=True)
class Dirichlet(Prior):
    """Of chances of K + 1 classes; of one number, that of each. On cutpoints alone; see `OfCutpoints`."""

    alpha: tuple[float, ...]
    word: ClassVar[str] = "dirichlet"

    def log_density(self, a: Numbers) -> Numbers:
        """(...) of cutpoints a (..., K), with the Jacobian, up to a constant."""
        c = np.asarray(a)
        first, last, apart = c[..., 0], c[..., -1], np.diff(c, axis=-1)
        between = np.log(-np.expm1(-apart)) - softplus(-c[..., 1:]) - softplus(c[..., :-1])
        power = self._power(c)
        log_p = -power[0] * softplus(-first) - power[-1] * softplus(last) + between @ power[1:-1]
        return np.asarray(log_p - np.sum(softplus(c) + softplus(-c), axis=-1))

    def _power(self, c: np.ndarray) -> np.ndarray:
        return np.resize(np.array(self.alpha), c.shape[-1] + 1) - 1.0

    def derivatives(self, a: Numbers) -> tuple[np.ndarray, np.ndarray]:
        """The slope (..., K) and minus the second derivatives (..., K, K)."""
        c = np.asarray(a)
        power, k = self._power(c), np.arange(c.shape[-1])
        gap = -np.expm1(-np.diff(c, axis=-1))
        below, above = np.asarray(sigmoid(c)), np.asarray(sigmoid(-c))
        # log chances of classes by the cutpoint above and below them
        up, down = above.copy(), below.copy()
        up[..., 1:] /= gap * above[..., :-1]
        down[..., :-1] /= gap * below[..., 1:]
        slope = power[:-1] * up - power[1:] * down + above - below
        curvature = np.zeros((*c.shape, c.shape[-1]))
        turn = above - below  # log of the slope of σ, by c
        curvature[..., k, k] = power[:-1] * (up**2 - up * turn) + power[1:] * (down**2 + down * turn)
        curvature[..., k, k] += 2.0 * below * above
        across = -power[1:-1] * up[..., 1:] * down[..., :-1]
        curvature[..., k[1:], k[:-1]] = curvature[..., k[:-1], k[1:]] = across
        return slope, curvature

    def draw(self, rng: np.random.Generator) -> float:
        """There is none of one number: raises ValueError."""
        raise ValueError("dirichlet: is of all cutpoints")

    def scaled(self, factor: float, shift: float = 0.0) -> "Dirichlet":
        """As it is."""
        return self

    def __str__(self) -> str:
        """As people write it."""
        return f"dirichlet({', '.join(f'{each:.10g}' for each in self.alpha)})"


@dataclass(frozen=True)
class OfCutpoints:
    """Of all of a (..., K). typed: priors of cutpoints, by place, or the Dirichlet of all; usual: priors of
    the other a."""

    typed: dict[int, Prior]
    usual: dict[int, Prior]

    def log_density(self, a: np.ndarray) -> Numbers:
        """(...) of a (..., K)."""
        steps = np.concatenate([a[..., :1], np.exp(a[..., 1:])], axis=-1)
        c = np.cumsum(steps, axis=-1)
        log_p: Numbers = np.zeros(a.shape[:-1])
        for k, prior in self.usual.items():
            log_p = log_p + prior.log_density(a[..., k])
        if isinstance(its := self.typed.get(0), Dirichlet):
            return log_p + its.log_density(c) + a[..., 1:].sum(axis=-1)
        for k, prior in self.typed.items():
            log_p = log_p + prior.log_density(c[..., k]) + (a[..., k] if k else 0.0)
        return log_p

    def derivatives(self, a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The slope (..., K) and minus the second derivatives (..., K, K) by a."""
        size, each = a.shape[-1], np.arange(a.shape[-1])
        steps = np.concatenate([a[..., :1], np.exp(a[..., 1:])], axis=-1)
        c = np.cumsum(steps, axis=-1)
        if isinstance(its := self.typed.get(0), Dirichlet):
            by_c, bend = its.derivatives(c)
        else:
            by_c, bend = np.zeros(a.shape), np.zeros((*a.shape, size))
            for k, its in self.typed.items():
                by_c[..., k], bend[..., k, k] = its.derivatives(c[..., k])
        pace = np.concatenate([np.ones_like(a[..., :1]), steps[..., 1:]], axis=-1)
        change = np.tril(np.ones((size, size))) * pace[..., None, :]  # of c by a
        slope = np.einsum("...k,...kj->...j", by_c, change)
        curvature = np.einsum("...km,...kj,...mi->...ji", bend, change, change)
        curvature[..., each[1:], each[1:]] -= slope[..., 1:]
        all_of_them = isinstance(self.typed.get(0), Dirichlet)
        slope[..., 1:] += [1.0 * (all_of_them or k in self.typed) for k in range(1, size)]
        for k, prior in self.usual.items():
            more = prior.derivatives(a[..., k])
            slope[..., k] += more[0]
            curvature[..., k, k] += more[1]
        return slope, curvature
