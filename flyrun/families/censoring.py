"""Targets that are not seen whole: a row says that its target is beyond y, or below it, or since when it was
watched.

With S the family's survival function, a row's log L is log f(y) where it was seen, log S(y) beyond y, log of
1 − S(y) below it, each less log S(entry) where it would not be there, had its target been below `entry`.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from flyrun.families.family import Derivatives, Family
from flyrun.ground.numerics.special import Numbers

#: how a row's target is known: as it is, or that it is beyond y, or below y
SEEN, BEYOND, BELOW = 0.0, 1.0, -1.0


def columns(kinds: np.ndarray | None, entry: np.ndarray | None, rows: int) -> np.ndarray:
    """What a family of `censored` takes for trials, (N, 2): how each target is known, and its entry or −∞."""
    kinds = np.full(rows, SEEN) if kinds is None else kinds
    return np.stack([kinds, np.full(rows, -np.inf) if entry is None else entry], axis=1)


def censored(family: Family) -> Family:
    """The family of such rows, whose trials are `columns`, (..., 2). It must have a survival function."""
    survival, of_survival = family.log_survival, family.log_survival_derivatives
    assert survival is not None
    assert of_survival is not None
    assert family.alone_derivatives is None

    def log_density(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Numbers:
        each, value = _Rows(y, trials, p), np.zeros(np.broadcast_shapes(*map(np.shape, (y, *p))))
        for where, at, q in each.of_kind(SEEN):
            value[where] = family.log_density(at, 1.0, q)
        for where, at, q in each.of_kind(BEYOND):
            value[where] = survival(at, q)
        for where, at, q in each.of_kind(BELOW):
            value[where] = np.log(-np.expm1(survival(at, q)))
        for where, at, q in each.late():
            value[where] -= survival(at, q)
        return value

    def derivatives(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Derivatives:
        each, k = _Rows(y, trials, p), len(p)
        shape = np.broadcast_shapes(*map(np.shape, (y, *p)))
        slopes, curvatures = np.zeros((k, *shape)), np.zeros((k, k, *shape))

        def add(where: np.ndarray, its: Derivatives, sign: float = 1.0) -> None:
            for j in range(k):
                slopes[j][where] += sign * its[0][j]
                for m in range(k):
                    curvatures[j, m][where] += sign * its[1][j][m]

        for where, at, q in each.of_kind(SEEN):
            add(where, family.derivatives(at, 1.0, q))
        for where, at, q in each.of_kind(BEYOND):
            add(where, of_survival(at, q))
        for where, at, q in each.of_kind(BELOW):
            odds = 1.0 / np.expm1(-survival(at, q))  # of beyond
            add(where, _of_below(odds, of_survival(at, q)))
        for where, at, q in each.late():
            add(where, of_survival(at, q), -1.0)
        return tuple(slopes), tuple(map(tuple, curvatures))

    def constant(y: np.ndarray, trials: Numbers) -> np.ndarray:
        return np.where(np.asarray(trials)[..., 0] == SEEN, family.constant(y, 1.0), 0.0)

    def start(y: np.ndarray, trials: np.ndarray, offset: np.ndarray, weights: np.ndarray) -> np.ndarray:
        return family.start(y, np.ones(len(y)), offset, weights)

    return replace(
        family,
        log_density=log_density,
        derivatives=derivatives,
        constant=constant,
        start=start,
        by_sums=False,
        one_mode=False,
        cumulant="",
    )


def _of_below(odds: np.ndarray, of_survival: Derivatives) -> Derivatives:
    """The derivatives of log(1 − S), of those of log S; odds: S/(1 − S)."""
    slopes, curvatures = of_survival
    both = range(len(slopes))
    more = odds * (1.0 + odds)
    return tuple(-odds * slope for slope in slopes), tuple(
        tuple(more * slopes[j] * slopes[m] - odds * curvatures[j][m] for m in both) for j in both
    )


_Some = list[tuple[np.ndarray, np.ndarray, list[np.ndarray]]]


class _Rows:
    """Rows at predictors, of which some are worked out: where these are, their targets and predictors."""

    def __init__(self, y: Numbers, trials: Numbers, p: Sequence[Numbers]):
        kinds, entry = np.moveaxis(np.asarray(trials, np.float64), -1, 0)
        self.y, self.kinds, self.entry, *self.p = np.broadcast_arrays(y, kinds, entry, *p)

    def of_kind(self, kind: float) -> _Some:
        """Those of which a target is known so."""
        return self._some(self.kinds == kind, self.y)

    def late(self) -> _Some:
        """Those that were not watched from the start, at their entry."""
        return self._some(self.entry > -np.inf, self.entry)

    def _some(self, where: np.ndarray, y: np.ndarray) -> _Some:
        return [(where, y[where], [value[where] for value in self.p])] if where.any() else []
