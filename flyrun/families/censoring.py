"""Targets that are not seen whole: a row says that its target is beyond y, below it, or between y and another
end, or between which ends a target must be for its row to be there.

With P(l < T ≤ u) = S(l) − S(u), S the family's survival function, a row's log L is log f(y) where it was
seen, and log P of the two ends of what is known of it elsewhere, each less log P of the two ends between
which it would be there.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from flyrun.families.family import Derivatives, Family
from flyrun.ground.numerics.special import Numbers

#: how a row's target is known: as it is, or that it is beyond y, below y, or between y and another end
SEEN, BEYOND, BELOW, BETWEEN = 0.0, 1.0, -1.0, 2.0
_NO_WIDTH = 1e-12  # of an interval, by its upper end: a float has no more digits


def columns(
    family: Family,
    y: np.ndarray,
    kinds: np.ndarray | None = None,
    entry: np.ndarray | None = None,
    high: np.ndarray | None = None,
    most: np.ndarray | None = None,
) -> np.ndarray:
    """What a family of `censored` takes for trials, (N, 5), of targets y (N,): SEEN or not, the ends of what
    is known of a target, and those between which its row would be there.

    kinds: as above, by default SEEN, or BETWEEN where there is `high`, the upper end, or inf; such a row
    without a width was seen, and of an event's 3 it has −2 for BETWEEN. entry, most: the least and the
    largest target.
    """
    usual = SEEN if high is None else BETWEEN
    kinds = np.full(len(y), usual) if kinds is None else np.where(np.abs(kinds) == BETWEEN, BETWEEN, kinds)
    first = np.full(len(y), -np.inf) if entry is None else entry
    last = np.full(len(y), np.inf) if most is None else most
    upper = y if high is None else high
    if family.domain.whole:  # T > l and T ≤ u are of whole numbers; from `entry` on is T > the one before
        y, first, last, upper = np.floor(y), np.ceil(first) - 1.0, np.floor(last), np.floor(upper)
    narrow = np.isfinite(upper) & (upper - y <= _NO_WIDTH * np.abs(upper))
    kinds = np.where((kinds == BETWEEN) & narrow, SEEN, kinds)
    low = np.select([kinds == BELOW], [np.full(len(y), -np.inf)], y)
    end = np.select([kinds == BEYOND, kinds == BETWEEN], [np.full(len(y), np.inf), upper], y)
    ends = [np.maximum(low, first), np.minimum(end, last), first, last]
    for k in (0, 2):  # below all that there can be
        ends[k] = np.where(
            family.domain.holds(np.where(np.isfinite(ends[k]), ends[k], 1.0)), ends[k], -np.inf
        )
    return np.stack([np.where(kinds == SEEN, SEEN, BEYOND), *ends]).T


def censored(family: Family) -> Family:
    """The family of such rows, whose trials are `columns`, (..., 5). It must have a survival function."""
    assert family.log_survival is not None
    assert family.alone_derivatives is None

    def log_density(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Numbers:
        if (events := _events(family, np.asarray(trials))) is not None:
            return family.log_density(y, events, p)
        each = _Rows(y, trials, p)
        value = np.zeros(each.shape)
        for where, at, q in each.seen():
            value[where] = family.log_density(at, 1.0, q)
        for where, ends, q in each.known():
            value[where] = _log_between(family, *ends, q)
        for where, ends, q in each.there():  # of no chance that is a number, as 40 sds away, nothing follows
            chance = _log_between(family, *ends, q)
            value[where] -= np.where(np.isfinite(chance), chance, np.inf)
        return value

    def second_order(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> tuple[Numbers, Derivatives]:
        if (events := _events(family, np.asarray(trials))) is not None:
            return family.to_second_order(y, events, p)
        each, k = _Rows(y, trials, p), len(p)
        value, slopes, upper = np.zeros(each.shape), np.zeros((k, *each.shape)), np.zeros((k, k, *each.shape))

        def add(where: tuple[Any, ...], log_p: Numbers, its: Derivatives, sign: float = 0.0) -> None:
            """sign: 0 where nothing was there before."""
            for j in range(k):
                pairs = [(slopes[j], its[0][j]), *((upper[j, m], its[1][j][m]) for m in range(j, k))]
                for out, part in [(value, log_p), *pairs] if j == 0 else pairs:
                    if sign:
                        out[where] += sign * part
                    else:
                        out[where] = part

        for where, at, q in each.seen():
            add(where, *family.to_second_order(at, 1.0, q))
        for where, ends, q in each.known():
            add(where, _log_between(family, *ends, q), _of_between(family, *ends, q))
        for where, ends, q in each.there():  # of no chance that is a number, as 40 sds away, nothing follows
            chance = _log_between(family, *ends, q)
            add(where, np.where(np.isfinite(chance), chance, np.inf), _of_between(family, *ends, q), -1.0)
        bent = tuple(tuple(upper[min(j, m), max(j, m)] for m in range(k)) for j in range(k))
        return value, (tuple(slopes), bent)

    def derivatives(y: Numbers, trials: Numbers, p: Sequence[Numbers]) -> Derivatives:
        return second_order(y, trials, p)[1]

    def constant(y: np.ndarray, trials: Numbers) -> np.ndarray:
        seen = np.asarray(trials)[..., 0] == SEEN
        return np.where(seen, family.constant(np.where(seen, y, 1.0), 1.0), 0.0)

    def start(y: np.ndarray, trials: np.ndarray, offset: np.ndarray, weights: np.ndarray) -> np.ndarray:
        both = np.isfinite(trials[:, 1:3]).all(axis=1) & (trials[:, 0] != SEEN)
        y = np.where(both, trials[:, 1:3].sum(axis=1) / 2.0, y)
        y = np.where(family.domain.holds(y), y, trials[:, 2])  # below an end that is all there is
        seen = 1.0 * (trials[:, 0] == SEEN) if family.events else np.ones(len(y))
        return family.start(np.rint(y) if family.domain.whole else y, seen, offset, weights)

    return replace(
        family,
        log_density=log_density,
        derivatives=derivatives,
        second_order=second_order,
        constant=constant,
        start=start,
        by_sums=False,
        one_mode=False,
        cumulant="",
    )


def _events(family: Family, trials: np.ndarray) -> np.ndarray | None:
    """1 of rows that were seen, 0 of those beyond, (...), of `columns` (..., 5), where all are of these.

    None where a row is not, or is truncated, or the family does not take them so.
    """
    if not family.events:
        return None
    kinds, low, high, first, last = np.moveaxis(trials, -1, 0)
    other = np.isinf(low) | np.isfinite(first) | np.isfinite(last)
    return None if (other | ((kinds != SEEN) & np.isfinite(high))).any() else 1.0 * (kinds == SEEN)


def _log_between(
    family: Family, low: np.ndarray | None, high: np.ndarray | None, p: Sequence[Numbers]
) -> Numbers:
    """log P(low < T ≤ high); an end that is None is there for all targets."""
    of: Numbers = 0.0 if low is None else family.log_survival(low, p)  # type: ignore[misc]
    if high is None:
        return of
    gone = family.log_survival(high, p) - of  # type: ignore[misc]
    return of + np.where(gone < -0.7, np.log1p(-np.exp(gone)), np.log(-np.expm1(gone)))


def _of_between(
    family: Family, low: np.ndarray | None, high: np.ndarray | None, p: Sequence[Numbers]
) -> Derivatives:
    """The derivatives of that, of those u and v of log S at both ends: u + o·(u − v), o = S(high)/P."""
    of_survival = family.log_survival_derivatives
    assert of_survival is not None
    both = range(len(p))
    nothing: Derivatives = (0.0,) * len(p), ((0.0,) * len(p),) * len(p)
    slopes, curvatures = nothing if low is None else of_survival(low, p)
    if high is None:
        return slopes, curvatures
    start: Numbers = 0.0 if low is None else family.log_survival(low, p)  # type: ignore[misc]
    others, of_others = of_survival(high, p)
    odds = 1.0 / np.expm1(start - family.log_survival(high, p))  # type: ignore[misc]
    away = [_times(odds, slopes[j] - others[j]) for j in both]  # what lies beyond counts nothing far out
    return tuple(slopes[j] + away[j] for j in both), tuple(
        tuple(
            curvatures[j][m]
            + _times(odds, curvatures[j][m] - of_others[j][m])
            + away[j] * (slopes[m] - others[m] + away[m])
            for m in both
        )
        for j in both
    )


def _times(odds: np.ndarray, value: Numbers) -> np.ndarray:
    return np.where(odds == 0.0, 0.0, odds * np.where(odds == 0.0, 0.0, value))


_Ends = tuple[np.ndarray | None, np.ndarray | None]


class _Rows:
    """Rows at predictors, of which some are worked out: where these are, their targets and predictors.

    Predictors that are alike for all rows stay so. shape: of what is worked out, of which one axis is the
    rows', before `after` others, or, where it is `flat`, all are.
    """

    def __init__(self, y: Numbers, trials: Numbers, p: Sequence[Numbers]):
        each = np.broadcast_arrays(y, *np.moveaxis(np.asarray(trials, np.float64), -1, 0))
        self.shape = np.broadcast_shapes(each[0].shape, *map(np.shape, p))
        long = [axis for axis, size in enumerate(each[0].shape) if size > 1]
        self.flat = len(long) != 1
        self.after = 0 if self.flat else each[0].ndim - 1 - long[0]
        size = self.shape if self.flat else each[0].shape
        self.y, self.kinds, *self.ends = (np.broadcast_to(value, size).ravel() for value in each)
        self.p = [
            np.broadcast_to(value, self.shape).ravel() if self.flat else np.asarray(value) for value in p
        ]

    def seen(self) -> list[tuple[tuple[Any, ...], np.ndarray, list[np.ndarray]]]:
        """Those whose targets are known, with these."""
        (which,) = np.nonzero(self.kinds == SEEN)
        return [(self._where(which), self._column(self.y[which]), self._at(which))] if len(which) else []

    def known(self) -> list[tuple[tuple[Any, ...], _Ends, list[np.ndarray]]]:
        """The others, with the two ends of what is known."""
        return self._between(np.nonzero(self.kinds != SEEN)[0], *self.ends[:2])

    def there(self) -> list[tuple[tuple[Any, ...], _Ends, list[np.ndarray]]]:
        """Those that would not be there at some targets, with the two ends of the others."""
        if np.isinf(self.ends[2]).all() and np.isinf(self.ends[3]).all():
            return []
        return self._between(np.arange(len(self.kinds)), *self.ends[2:])

    def _between(
        self, which: np.ndarray, low: np.ndarray, high: np.ndarray
    ) -> list[tuple[tuple[Any, ...], _Ends, list[np.ndarray]]]:
        first, last = low[which] > -np.inf, high[which] < np.inf
        parts = []
        for of_these, down, up in (
            (first & ~last, low, None),
            (last & ~first, None, high),
            (first & last, low, high),
        ):
            if len(some := which[of_these]):
                ends = [None if end is None else self._column(end[some]) for end in (down, up)]
                parts.append((self._where(some), (ends[0], ends[1]), self._at(some)))
        return parts

    def _where(self, which: np.ndarray) -> tuple[Any, ...]:
        """The places of rows in what is worked out."""
        if self.flat:
            return np.unravel_index(which, self.shape)
        return (..., which, *[slice(None)] * self.after)

    def _column(self, values: np.ndarray) -> np.ndarray:
        return values.reshape(-1, *[1] * self.after)

    def _at(self, which: np.ndarray) -> list[np.ndarray]:
        """Predictors of rows."""
        axis = -1 - self.after
        return [
            value.take(which, axis) if value.ndim > self.after and value.shape[axis] > 1 else value
            for value in self.p
        ]
