"""Rows of a row group as a model reads them, and those that a pilot takes."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from flyrun.data import domains
from flyrun.data.table.layout import Column, Layout, plain
from flyrun.errors import DataError
from flyrun.fitting.rows_posterior import Rows
from flyrun.fitting.scan.row_groups import Part, head
from flyrun.fitting.scan.table_files import Block

if TYPE_CHECKING:
    from flyrun.fitting.scan.terms import Terms

BATCH = 8_192
_FEW_VALUES = 20  # up to so many the target's values are classes for the pilot


class Encoding(NamedTuple):
    """How a table's columns become rows. mean, sd: (D,) of columns, taken off and divided by.

    two: (D,), columns that are taken for ones of two values. task: of Dataset. values: of a target of
    classes, in order. target_mean, target_sd: of one that is standardised. missing: as it is typed.
    """

    columns: tuple[str, ...]
    target: str
    task: str
    values: tuple[float, ...]
    mean: np.ndarray
    sd: np.ndarray
    two: np.ndarray
    target_mean: float = 0.0
    target_sd: float = 1.0
    missing: str = "refuse"
    ones: bool = True  # whether rows have the column of ones, the last
    beside: tuple[tuple[str, str], ...] = ()  # columns that are no features: (role, name)
    levels: tuple[tuple[str, tuple[str, ...]], ...] = ()  # of categories, the reference first
    numbered: tuple[str, ...] = ()  # categories of numbers
    terms: "Terms | None" = None  # of a formula, whose matrix's columns these are

    @property
    def texts(self) -> list[tuple[str, ...]]:
        """Of each column its levels, none of a number."""
        known = dict(self.levels)
        return [known.get(name, ()) for name in self.columns]

    @property
    def parts(self) -> tuple[str, ...]:
        """What of rows.Rows the columns beside the features are."""
        return tuple("offset" if role == "exposure" else role for role, _ in self.beside)

    @property
    def all_columns(self) -> tuple[str, ...]:
        """As they are read: features, those beside, the target."""
        own = self.columns if self.terms is None else [name for name, _ in self.terms.sources]
        return (*own, *(name for _, name in self.beside), self.target)

    def batches(self, block: Block, part: Part) -> Iterator["Batch"]:
        """The rows of a part, at most BATCH at a time, which share their room."""
        where = f"{block.file.path}: row group {block.group}"
        width, texts = len(self.columns), self.texts
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
            for column, levels in zip(columns, texts, strict=True):
                own, taken = column[rows], len(levels) - 1 if levels else 1
                if levels:
                    x[d : d + taken] = one_hot(own, len(levels)).T
                elif single[d]:
                    x[d] = own
                else:
                    np.subtract(own, self.mean[d], out=x[d], dtype=np.float64, casting="unsafe")
                d += taken
            x[:d] -= centre
            x[:d] *= scale
            total = x @ np.ones(len(y), np.float32)  # BLAS takes a third of the time that np.sum does
            beside = np.array([one[rows] for one in others], np.float64).reshape(len(others), len(y))
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
        for column, levels in zip(columns, self.texts, strict=True):
            if not levels:
                number[d], single[d] = True, column.dtype == np.float32
            d += len(levels) - 1 if levels else 1
        single &= np.abs(self.mean) < 16 * self.sd
        centre, scale = np.where(single, self.mean, 0.0), np.where(number, 1.0 / self.sd, 1.0)
        return single, centre.astype(np.float32)[:, None], scale.astype(np.float32)[:, None]

    def others(self, beside: np.ndarray, where: str) -> np.ndarray:
        """Columns beside the features, (B, n), as rows have them; DataError for what they cannot hold."""
        found = beside.copy()
        for k, (role, name) in enumerate(self.beside):
            if role != "offset" and (refusal := domains.BESIDE[role].refusal(beside[k], many=role)):
                said = f"{role} {name} is {plain(beside[k][refusal[0]])}, but {refusal[1]}"
                raise DataError(f"{where}: {said}; mend the file, or leave the column out")
            if role == "exposure":
                found[k] = np.log(beside[k])
        return found

    def copies(self, beside: np.ndarray) -> np.ndarray | None:
        """How many each row counts for in columns' means and sds, (n,); None where all count alike."""
        counts = [one for part, one in zip(self.parts, beside, strict=True) if part in ("trials", "weights")]
        return np.prod(counts, axis=0) if counts else None

    def trials(self, beside: np.ndarray) -> Any:
        """Trials of each row, (n,), or 1 of all."""
        return beside[self.parts.index("trials")] if "trials" in self.parts else 1.0

    def targets(self, y: np.ndarray, where: str, beside: np.ndarray) -> np.ndarray:
        """Of 0 and 1, class numbers, or numbers; DataError for one that the model does not take."""
        if self.values:
            codes = np.minimum(np.searchsorted(self.values, y), len(self.values) - 1)
            bad = np.asarray(self.values)[codes] != y
            said = f"the pilot met {len(self.values)} values, and this is none of them"
            refusal = (int(np.argmax(bad)), said) if bad.any() else None
            made = codes.astype(np.float64)
        else:
            trials = beside[self.parts.index("trials")] if "trials" in self.parts else None
            refusal = domains.of(self.task).refusal(y, trials)
            made = (y - self.target_mean) / self.target_sd
        if refusal is not None:
            said = f"target {self.target} is {plain(y[refusal[0]])}, but {refusal[1]}"
            raise DataError(f"{where}: {said}; mend the file, or choose another --model")
        return made


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


def one_hot(codes: np.ndarray, levels: int) -> np.ndarray:
    """0-1 columns of all levels but the first, (n, L - 1), NaN where a level is missing."""
    found = (codes[:, None] == np.arange(1, levels)).astype(np.float64)
    found[np.isnan(codes)] = np.nan
    return found


def expanded(x: np.ndarray, texts: list[tuple[str, ...]]) -> np.ndarray:
    """Features (n, D) of columns (n, C), of which some are numbers of levels."""
    each = zip(x.T, texts, strict=True)
    parts = [one_hot(column, len(levels)) if levels else column[:, None] for column, levels in each]
    return np.concatenate(parts, axis=1)


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
        own, more = self[:-1], other[:-1]
        x, y, beside, chance = (np.concatenate(pair) for pair in zip(own, more, strict=True))
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
    terms: "Terms | None" = None  # of a formula, whose sources the columns are

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


def layout_of(encoding: Encoding, rows: int) -> Layout:
    """The columns of so many rows as `flyrun predict` and reports read them."""
    numbers = iter(zip(encoding.mean.tolist(), encoding.sd.tolist(), encoding.two.tolist(), strict=True))
    columns = []
    for name, texts in zip(encoding.columns, encoding.texts, strict=True):
        if texts:
            columns.append(Column(name, list(texts), text=name not in encoding.numbered))
            _ = [next(numbers) for _ in texts[1:]]
        else:
            mean, sd, two = next(numbers)
            columns.append(Column(name, mean=mean, sd=sd, low=mean * two, high=(mean + sd) * two))
    words = dict(encoding.levels).get(encoding.target)
    levels = list(words) if words else [plain(value) for value in encoding.values] or None
    target = Column(encoding.target, levels, bool(words), mean=encoding.target_mean, sd=encoding.target_sd)
    found = Layout(encoding.task, target, columns, rows=rows, copies=float(rows))
    if (terms := encoding.terms) is not None:
        found.formula, found.sources, found.state = terms.text, terms.columns, json.loads(terms.state)
    return found
