"""Rows of a row group as a model reads them, and those that a pilot takes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from flyrun.families import domains
from flyrun.fitting.rows_posterior import Rows
from flyrun.fitting.scan.row_groups import Part, head
from flyrun.fitting.scan.table_files import Block
from flyrun.fitting.scan.terms import Terms
from flyrun.ground.errors import DataError
from flyrun.tables import encode
from flyrun.tables.encode import zero_one
from flyrun.tables.layout import Column, Layout, plain

BATCH = 8_192
_FEW_VALUES = 20  # up to so many the target's values are classes for the pilot


@dataclass(frozen=True, eq=False)
class Encoding:
    """A layout as it is applied to rows of shards, whose categories come as numbers of levels.

    two: (D,), columns that are taken for ones of two values. missing: as it is typed.
    """

    layout: Layout
    two: np.ndarray
    missing: str = "refuse"

    @cached_property
    def mean(self) -> np.ndarray:
        """Of columns, taken off them, (D,)."""
        return np.array([column.mean for column in self.layout.features for _ in column.encoded])

    @cached_property
    def sd(self) -> np.ndarray:
        """Of columns, which they are divided by, (D,)."""
        return np.array([column.sd for column in self.layout.features for _ in column.encoded])

    @property
    def ones(self) -> bool:
        """Whether rows have the column of ones, the last."""
        return not self.layout.domain.ordered

    @property
    def values(self) -> list[float]:
        """Of a target of classes, in order; of text the numbers of levels."""
        levels = self.layout.target.levels or []
        return [float(k) for k in range(len(levels))] if self.layout.target.text else [*map(float, levels)]

    @cached_property
    def terms(self) -> Terms | None:
        """Of a formula, whose matrix's columns these are."""
        if (text := self.layout.formula) is None:
            return None
        names = tuple(column.name for column in self.layout.features)
        return Terms(text, self.layout.sources, self.layout.state, names)

    @property
    def levels(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Of categories that are read as numbers of their levels, the reference first."""
        columns = [*self.layout.columns, *([self.layout.target] if self.layout.target.text else [])]
        return tuple((column.name, tuple(column.levels)) for column in columns if column.levels)

    @property
    def parts(self) -> tuple[str, ...]:
        """What of rows.Rows the columns beside the features are."""
        return tuple("offset" if role == "exposure" else role for role in self.layout.beside)

    @property
    def all_columns(self) -> tuple[str, ...]:
        """As they are read: features, those beside, the target."""
        read = [*self.layout.columns, *self.layout.beside.values(), self.layout.target]
        return tuple(column.name for column in read)

    def batches(self, block: Block, part: Part) -> Iterator["Batch"]:
        """The rows of a part, at most BATCH at a time, which share their room."""
        where = f"{block.file.path}: row group {block.group}"
        features, width = self.layout.features, len(self.layout.features)
        room = np.empty((len(self.mean) + self.ones, BATCH), np.float32)
        room[len(self.mean) :] = 1.0
        *columns, target = part.columns
        if self.terms is not None:
            columns = self.terms.made(columns, part.place, where)
        columns, others = columns[:width], columns[width:]
        single, centre, scale = self._centring(columns)
        for first in range(0, len(target), BATCH):
            rows = slice(first, first + BATCH)
            y, place = target[rows].astype(np.float64), part.place[rows]
            x = room if len(y) == BATCH else np.ones((len(room), len(y)), np.float32)
            d = 0
            for column, about in zip(columns, features, strict=True):
                values, taken = column[rows], len(about.encoded)
                if about.levels is not None:
                    x[d : d + taken] = zero_one(values, len(about.levels))
                elif single[d]:
                    x[d] = values
                else:
                    np.subtract(values, self.mean[d], out=x[d], dtype=np.float64, casting="unsafe")
                d += taken
            x[:d] -= centre
            x[:d] *= scale
            total = x @ np.ones(len(y), np.float32)  # BLAS takes a third of the time that np.sum does
            beside = np.array([other[rows] for other in others], np.float64).reshape(len(others), len(y))
            if not (np.isfinite(total).all() and np.isfinite(y.sum() + beside.sum())):
                kept = complete(x, y, beside, where, place, self.missing)
                x, y, place = np.ascontiguousarray(x[:, kept]), y[kept], place[kept]
                beside, total = beside[:, kept], x.sum(axis=1)
            dropped = min(BATCH, len(target) - first) - len(y)
            beside = self.others(beside, where)
            yield Batch(x, self.targets(y, where, beside), beside, place, total, dropped)

    def _centring(self, columns: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Columns that float32 centres, (D,): it loses digits of what is far from 0. And (D, 1) each, what is
        taken off all columns at once, and what they are scaled by: two calls for each would cost twice that.
        """
        single, number = np.zeros((2, len(self.mean)), bool)
        d = 0
        for column, about in zip(columns, self.layout.features, strict=True):
            if about.levels is None:
                number[d], single[d] = True, column.dtype == np.float32
            d += len(about.encoded)
        single &= np.abs(self.mean) < 16 * self.sd
        centre, scale = np.where(single, self.mean, 0.0), np.where(number, 1.0 / self.sd, 1.0)
        return single, centre.astype(np.float32)[:, None], scale.astype(np.float32)[:, None]

    def others(self, beside: np.ndarray, where: str) -> np.ndarray:
        """Columns beside the features, (B, n), as rows have them; DataError for what they cannot hold."""
        converted = beside.copy()
        for k, (role, column) in enumerate(self.layout.beside.items()):
            if role != "offset" and (refusal := domains.BESIDE[role].refusal(beside[k])):
                message = f"{role} {column.name} is {plain(beside[k][refusal[0]])}, but {refusal[1]}"
                raise DataError(f"{where}: {message}; mend the file, or leave the column out")
            converted[k] = encode.beside(role, beside[k], self.layout)
        return converted

    def copies(self, beside: np.ndarray) -> np.ndarray | None:
        """How many each row counts for in columns' means and sds, (n,); None where all count alike."""
        return encode.copies(dict(zip(self.parts, beside, strict=True)))

    def trials(self, beside: np.ndarray) -> np.ndarray | float:
        """Trials of each row, (n,), or 1 of all."""
        return beside[self.parts.index("trials")] if "trials" in self.parts else 1.0

    def targets(self, y: np.ndarray, where: str, beside: np.ndarray) -> np.ndarray:
        """Of 0 and 1, class numbers, or numbers, (n,); DataError for one that the model does not take."""
        if values := self.values:
            codes = np.minimum(np.searchsorted(values, y), len(values) - 1)
            bad = np.asarray(values)[codes] != y
            message = f"the pilot met {len(values)} values, and this is none of them"
            refusal, numbers = (int(np.argmax(bad)), message) if bad.any() else None, codes.astype(np.float64)
        else:
            trials = beside[self.parts.index("trials")] if "trials" in self.parts else None
            refusal, numbers = self.layout.domain.refusal(y, trials), y
        if refusal is not None:
            message = f"target {self.layout.target.name} is {plain(y[refusal[0]])}, but {refusal[1]}"
            raise DataError(f"{where}: {message}; mend the file, or choose another --model")
        return encode.target(numbers, self.layout)


def scaled(columns: Sequence[Column], mean: np.ndarray, sd: np.ndarray, two: np.ndarray) -> list[Column]:
    """Columns with the means and sds of what they become, (D,) each. two: (D,), those of two values."""
    numbers, rescaled = iter(zip(mean.tolist(), sd.tolist(), two.tolist(), strict=True)), list[Column]()
    for column in columns:
        (m, s, ends), *_ = [next(numbers) for _ in column.encoded]
        of_number = replace(column, mean=m, sd=s, low=m * ends, high=(m + s) * ends)
        rescaled.append(of_number if column.levels is None else column)
    return rescaled


class Batch(NamedTuple):
    """Some rows. x: (D, n), column by column; y: (n,); beside: (B, n); place: (n,), numbers in the row group;
    total: Σ of x, (D,); dropped: rows left out.
    """

    x: np.ndarray
    y: np.ndarray
    beside: np.ndarray
    place: np.ndarray
    total: np.ndarray
    dropped: int


def complete(
    x: np.ndarray, y: np.ndarray, beside: np.ndarray, where: str, place: np.ndarray, missing: str
) -> np.ndarray:
    """Which rows of x (D, n) lack no value, (n,). DataError for infinite ones, or where none may."""
    if np.isinf(x).any() or np.isinf(y).any() or np.isinf(beside).any():
        raise DataError(f"{where} holds an infinite number; leave its column out with --drop")
    kept = np.isfinite(x).all(axis=0) & np.isfinite(y) & np.isfinite(beside).all(axis=0)
    if not kept.all() and missing != "drop":
        raise DataError(
            f"{where}, row {place[int(np.argmin(kept))]}: a value is missing; leave out, and count, such "
            "rows with --missing drop"
        )
    return kept


def as_rows(x: np.ndarray, y: np.ndarray, beside: np.ndarray, parts: tuple[str, ...]) -> Rows:
    """Rows of features, (n, D) or as many as `beside`, (B, n), says."""
    return Rows(x, y, **dict(zip(parts, beside, strict=True)))  # type: ignore[arg-type]


class Sample(NamedTuple):
    """Rows of a pilot as they stand in the files. x: (n, D); beside: (n, B); chance: with which each was
    taken, (n,); read: rows that were looked at.
    """

    x: np.ndarray
    y: np.ndarray
    beside: np.ndarray
    chance: np.ndarray
    read: int

    def plus(self, other: "Sample") -> "Sample":
        """Both."""
        first, more = self[:-1], other[:-1]
        x, y, beside, chance = (np.concatenate(pair) for pair in zip(first, more, strict=True))
        return Sample(x, y, beside, chance, self.read + other.read)


@dataclass(frozen=True)
class _Read:
    """Columns of rows that are taken as they stand."""

    columns: tuple[str, ...]
    beside: tuple[str, ...]
    target: str

    @property
    def names(self) -> tuple[str, ...]:
        """Columns as they are read."""
        return (*self.columns, *self.beside, self.target)


@dataclass(frozen=True)
class PilotLook(_Read):
    """Take some rows of a row group, alike of each class. most: how many."""

    most: int
    seed: int
    levels: tuple[tuple[str, tuple[str, ...]], ...] = ()
    terms: Terms | None = None  # of a formula, whose sources the columns are

    def __call__(self, block: Block) -> Sample:
        """Rows that lack a value are left out."""
        return self.of(block, head(block, self.names, dict(self.levels), self.most))

    def of(self, block: Block, part: Part) -> Sample:
        """As a call, of some rows of a row group."""
        *columns, target = part.columns
        y = target.astype(np.float64)
        values, place, count = np.unique(y, return_inverse=True, return_counts=True)
        if len(values) > _FEW_VALUES:
            place, count = np.zeros(len(y), int), np.array([len(y)])
        chance = np.minimum(1.0, self.most / len(count) / count)[place]
        if part.share < 1.0 and len(y) <= self.most:  # the first rows stand for the others
            chance = np.ones(len(y))
        picked = np.flatnonzero(np.random.default_rng([self.seed, 0, block.number]).random(len(y)) < chance)
        columns, width = [column[picked].astype(np.float64) for column in columns], len(self.columns)
        if self.terms is not None:
            columns = self.terms.made(
                columns, part.place[picked], f"{block.file.path}: row group {block.group}"
            )
            width = len(self.terms.names)
        x = np.column_stack(columns)
        kept = np.isfinite(x).all(axis=1) & np.isfinite(y[picked])
        x, picked = x[kept], picked[kept]
        return _sample(x, width, y[picked], chance[picked] * part.share, len(y))


@dataclass(frozen=True)
class RowsLook(_Read):
    """Take all rows of a few, as they stand. missing: as it is typed."""

    missing: str

    def of(self, block: Block, part: Part) -> Sample:
        """Of some rows of a row group; DataError for a value that is missing, or infinite."""
        *columns, target = part.columns
        x, y = np.column_stack(columns).astype(np.float64), target.astype(np.float64)
        where = f"{block.file.path}: row group {block.group}"
        kept = complete(x.T, y, x[:, :0].T, where, part.place, self.missing)
        return _sample(x[kept], len(self.columns), y[kept], np.ones(int(kept.sum())), len(y))


def _sample(x: np.ndarray, width: int, y: np.ndarray, chance: np.ndarray, read: int) -> Sample:
    """Of columns x (n, D + B), of which so many are features."""
    x, beside = x[:, :width], x[:, width:]
    small = x.astype(np.float32)
    return Sample(small if (small == x).all() else x, y, beside, chance, read)
