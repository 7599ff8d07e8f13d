"""What a scan has seen of a column: moments of numbers, different values, extremes that stand alone."""

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from flyrun.ground.errors import DataError
from flyrun.tables.cells import LAST_EXACT, kind
from flyrun.tables.layout import MOST_LEVELS, Column, in_order, plain
from flyrun.tables.options import Table

#: sd, and sd over mean, below which numbers cannot be computed with: squares vanish, digits end
_LEAST_SD, _LEAST_RELATIVE_SD = 1e-100, 1e-12
_LOOKED_AT = 256  # values of a piece, which mostly tell that its extremes do not stand alone
_MOST_LONE = 8


@dataclass
class Moments:
    """Count, mean and sum of squares about it, of numbers in pieces: Chan, Golub & LeVeque's update."""

    count: float = 0
    mean: float = 0.0
    square: float = 0.0

    def add(self, values: np.ndarray, copies: np.ndarray | None = None) -> None:
        """Take numbers (n,), each as often as copies, (n,), say."""
        more = len(values) if copies is None else float(copies.sum())
        if not more:
            return
        total = self.count + more
        mean = float(values.mean()) if copies is None else float(copies @ values) / more
        gap, away = mean - self.mean, (values - mean) ** 2
        spread = float(away.sum()) if copies is None else float(copies @ away)
        self.square += spread + gap * gap * self.count * more / total
        self.mean += gap * more / total
        self.count = total

    @property
    def variance(self) -> float:
        """Of all numbers so far; NaN of none."""
        return self.square / self.count if self.count else math.nan


@dataclass
class Lone:
    """Extremes of a column far from its other values, and how often they occur.

    An extreme that stands from all others by more than twice these others' range does so in every piece: in
    a piece the nearest other value lies in the far third of the piece's range. low, high: of the others.
    """

    counts: dict[float, int] = field(default_factory=dict)
    low: float = math.inf
    high: float = -math.inf

    def add(self, values: np.ndarray, low: float, high: float) -> None:
        """Take numbers (n,), none of them missing, from low to high."""
        if low == high:
            self._count(low, len(values))
            return
        third = (high - low) / 3.0
        rest = values
        for end, inner in ((low, (low, high - third)), (high, (low + third, high))):
            near = values[:_LOOKED_AT]
            if not _any_within(near, *inner) and not _any_within(values, *inner):
                rest = rest[rest != end]
                self._count(end, int((values == end).sum()))
        if len(rest) == len(values):
            self._widen(low, high)
        elif len(rest):
            self._widen(float(rest.min()), float(rest.max()))

    def far_out(self) -> tuple[float, int, float, float] | None:
        """(value, rows, lowest and highest other) of an extreme that is far from all others."""
        for value, count in self.counts.items():
            ends = (*self.counts, self.low, self.high)
            others = [end for end in ends if end != value and math.isfinite(end)]
            low, high = min(others, default=value), max(others, default=value)
            if max(low - value, value - high) > 2.0 * (high - low):
                return value, count, low, high
        return None

    def _count(self, value: float, count: int) -> None:
        self.counts[value] = self.counts.get(value, 0) + count
        if len(self.counts) > _MOST_LONE:
            first, *others, last = sorted(self.counts)
            self._widen(others[0], others[-1])
            self.counts = {end: self.counts[end] for end in (first, last)}

    def _widen(self, low: float, high: float) -> None:
        self.low, self.high = min(self.low, low), max(self.high, high)


def _any_within(values: np.ndarray, low: float, high: float) -> bool:
    return bool(((values > low) & (values < high)).any())


@dataclass
class Seen:
    """What a scan has seen of a column of the table `what`.

    moments: of its numbers, by rows; standing: of what its rows stand for, where a row stands for several.
    names: whether its text is said to be names; alike: rows whose text looks like numbers or dates; stray:
    row, where it is known, and text of the first that is no plain number; shifts: values less row numbers, of
    a nameless column;
    order: of a category's levels, where the file has one; some: whether the numbers are of a part of the
    rows alone; thousands: whether points may part thousands;
    rows: of each value, while these are few; zeros: whether cells may begin with a zero; big: a whole number
    that a float does not tell from the next.
    """

    name: str
    options: Table = field(default_factory=Table)
    what: str = ""
    numeric: bool = False
    text: bool = False
    count: int = 0
    moments: Moments = field(default_factory=Moments)
    standing: Moments = field(default_factory=Moments)
    low: float = math.inf
    high: float = -math.inf
    whole: bool = True
    values: set[Any] = field(default_factory=set)
    rows: Counter[Any] = field(default_factory=Counter)
    lone: Lone = field(default_factory=Lone)
    thousands: bool = True
    zeros: bool = False
    big: int | None = None
    names: bool = False
    order: list[str] = field(default_factory=list)
    some: bool = False
    alike: int = 0
    stray: tuple[int | None, str] | None = None
    shifts: set[float] | None = None

    def add_numbers(self, given: np.ndarray, copies: np.ndarray | None = None) -> None:
        """Take numbers (n,), all finite; copies, (n,): how many rows each row stands for."""
        self.numeric = True
        if not len(given):
            return
        values = given.astype(np.float64, copy=False)
        self.count += len(values)
        self.moments.add(values)
        if copies is None:
            self.standing = self.moments
        else:
            self.standing.add(values, copies)
        low, high = float(values.min()), float(values.max())
        self.low, self.high = min(self.low, low), max(self.high, high)
        self.whole = self.whole and bool(np.all(values == np.rint(values)))
        self.lone.add(values, low, high)
        self.thousands = self.thousands and high < 1000.0 and low > -1000.0
        self.thousands = self.thousands and (given.dtype.kind in "iu" or _of_thousands(values))
        if given.dtype.kind in "iu" and self.big is None and max(high, -low) >= LAST_EXACT:
            self.big = int(given.max() if high >= -low else given.min())
        if len(self.values) <= MOST_LEVELS:
            several, counts = np.unique(values, return_counts=True)
            some = slice(MOST_LEVELS + 1)
            self.rows.update(dict(zip(several[some].tolist(), counts[some].tolist(), strict=True)))
            self.values |= self.rows.keys()

    def add_text(self, values: pd.Series, decimal: str) -> None:
        """Take text."""
        self.text = True
        if self.stray is not None and len(self.values) > MOST_LEVELS:
            return  # it will be refused, and what for is known
        self.count += len(values)
        counts = values.value_counts()
        kinds = {value: kind(value, decimal) for value in counts.index}
        self.alike += int(sum(counts[value] for value in kinds if kinds[value]))
        strays = [value for value in kinds if kinds[value] != "number"]
        if strays and self.stray is None:
            at = int(values.isin(strays).to_numpy().argmax())
            self.stray = values.index[at], values.iloc[at]
        if len(self.values) <= MOST_LEVELS:
            self.values |= set(kinds)
            self.rows.update(dict(zip(counts.index, counts.tolist(), strict=True)))

    def follow(self, values: pd.Series, numbers: bool) -> None:
        """Compare numbers with their rows' own, where this is asked for."""
        if self.shifts is not None:
            shifts = values - values.index if numbers else [math.nan]
            self.shifts |= set(np.unique(shifts)[:2].tolist())

    @property
    def spreads(self) -> bool:
        """Whether its numbers differ by more than what rounding does to their last digits."""
        moments = self.standing
        return math.sqrt(moments.variance) > max(_LEAST_SD, _LEAST_RELATIVE_SD * abs(moments.mean))

    def levels(self) -> list[str]:
        """Its different values as text: in the file's order, of numbers in theirs, else in the alphabet's."""
        if not self.text:
            return [plain(value) for value in sorted(self.values)]
        if self.order:
            return [value for value in self.order if value in self.values]
        return in_order(self.values)

    def column(self) -> Column:
        """It as a category, with the rows of each level."""
        levels, by_level = self.levels(), {str(value): rows for value, rows in self.rows.items()}
        if not self.text:
            by_level = {plain(value): rows for value, rows in self.rows.items()}
        return Column(self.name, levels, self.text, counts=[by_level.get(level, 0) for level in levels])

    @property
    def role(self) -> str:
        """What it is in an error's line."""
        return self.options.role(self.name)

    def error(self, fault: str) -> DataError:
        """One line of a column."""
        return DataError(f"{self.what}: {self.role} {self.name} {fault}")

    def without(self) -> str:
        """The remedy for a column that is of no use."""
        return self.options.without(self.name)

    def shown(self) -> str:
        """The value of a column that holds no other."""
        (value,) = self.values
        if isinstance(value, str):
            return value
        return plain(value) + (" (to 15 digits)" if abs(value) >= LAST_EXACT else "")


def one_of(remedies: list[str]) -> str:
    """Remedies of which one is to be chosen: a, b, or c."""
    return ", or ".join([", ".join(remedies[:-1]), remedies[-1]] if remedies[1:] else remedies)


def _of_thousands(values: np.ndarray) -> bool:
    """Whether no number (n,) below 1000 speaks against points that part thousands, as in 1.304 beside 300."""
    near = values[:_LOOKED_AT]
    return all(
        bool(np.all((np.abs(some) >= 1.0) | (some == 0.0)))
        and bool(np.all(np.abs(some * 1000.0 - np.rint(some * 1000.0)) < 1e-6))
        for some in (near, values)
    )
