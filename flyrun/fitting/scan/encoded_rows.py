"""Rows of a row group as a model reads them, and those that a pilot takes."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from flyrun.families import censoring, domains
from flyrun.families.family import Family, family
from flyrun.fitting.coefficient_prior import CoefficientPrior
from flyrun.fitting.rows_posterior import Posterior
from flyrun.fitting.scan.joined_groups import Block
from flyrun.fitting.scan.row_groups import Part
from flyrun.fitting.scan.terms import Matrices, Terms
from flyrun.fitting.table_rows import Design, Rows
from flyrun.ground.errors import DataError
from flyrun.tables import encode
from flyrun.tables.dataset import UNSEEN
from flyrun.tables.encode import zero_one
from flyrun.tables.layout import Column, Layout, plain

BATCH = 8_192
_PRECISE = "precision_weights"
LARGEST = 1e100  # squares of numbers up to here can be added up


#: how a row is named, by its number in what is looked at
Where = Callable[[int], str]


def row_of(block: Block, place: np.ndarray) -> Where:
    """How rows of a row group are named. place: (n,), their numbers in it."""
    return lambda k: block.row(place[k])


def complete(
    names: Sequence[str], columns: Sequence[np.ndarray], where: Where, missing: str
) -> tuple[np.ndarray, np.ndarray]:
    """Which rows of C columns (n,) lack no value, (n,), and how many lack each column's, (C,).

    DataError for what is no number, or where none may be missing.
    """
    kept, lacking = np.ones(len(columns[0]), bool), np.zeros(len(columns), np.int64)
    for c, (name, values) in enumerate(zip(names, columns, strict=True)):
        if len(far := np.flatnonzero(np.abs(values.astype(np.float64, copy=False)) > LARGEST)):
            value = values[far[0]]
            held = (
                f"is {plain(value)}, beyond {LARGEST:g}" if np.isfinite(value) else "holds an infinite number"
            )
            raise DataError(f"{where(int(far[0]))}, column {name} {held}; mend it, or leave the column out")
        there = ~np.isnan(values)
        if missing != "drop" and not there.all():
            raise DataError(
                f"{where(int(np.argmin(there)))}, column {name}: a value is missing; fill it in, or leave "
                "out, and count, such rows with --missing drop"
            )
        kept &= there
        lacking[c] = len(there) - np.count_nonzero(there)
    return kept, lacking


@dataclass(frozen=True, eq=False)
class Encoding:
    """A layout as it is applied to rows of shards, whose categories come as numbers of levels.

    two: (D,), columns that are taken for ones of two values. missing: as it is typed.
    """

    layout: Layout
    two: np.ndarray
    missing: str = "refuse"

    @property
    def features(self) -> list[Column]:
        """Of the target's predictors, then those of each parameter that has its own."""
        layouts = (self.layout, *self.layout.parameters.values())
        return [column for layout in layouts for column in layout.features]

    @cached_property
    def mean(self) -> np.ndarray:
        """Of columns, taken off them, (D,)."""
        return np.array([column.mean for column in self.features for _ in column.encoded])

    @cached_property
    def sd(self) -> np.ndarray:
        """Of columns, which they are divided by, (D,)."""
        return np.array([column.sd for column in self.features for _ in column.encoded])

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
    def terms(self) -> Matrices | None:
        """Of formulas, whose matrices' columns these are."""
        if self.layout.formula is None:
            return None
        each = (
            Terms(str(its.formula), its.sources, its.state, tuple(column.name for column in its.features))
            for its in (self.layout, *self.layout.parameters.values())
        )
        return Matrices(tuple(column.name for column in self.layout.columns), tuple(each))

    @property
    def levels(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Of categories that are read as numbers of their levels, the reference first."""
        columns = [*self.layout.columns, *([self.layout.target] if self.layout.target.text else [])]
        return tuple((column.name, tuple(column.levels)) for column in columns if column.levels)

    @property
    def parts(self) -> tuple[str, ...]:
        """What of rows the columns beside the features are."""
        return tuple(encode.PARTS.get(role, role) for role in self.layout.beside)

    def family(self, its: Family) -> Family:
        """A family as these rows need it: parameters differ by row, or targets were not seen whole."""
        its, unseen = its.in_units(self.layout.target.sd), {*UNSEEN} & {*self.parts}
        if self.layout.parameters or _PRECISE in self.parts or (unseen and its.alone_derivatives):
            its = its.in_one_part(len(self.values))
        return censoring.censored(its) if unseen else its

    def form(self, its: Family) -> "Form":
        """How rows of a family are read off their columns."""
        if not self.layout.parameters and _PRECISE not in self.parts:
            return Form(self.parts, its)
        numbers = [number.name for number in its.auxiliary(len(self.values), 1.0)]
        precise = numbers.index(its.precise[0]) if _PRECISE in self.parts and its.precise else None
        parameters, ones, ends = self.layout.parameters, [len(self.mean)], [len(self.layout.names) - 1]
        ends += [len(part.names) - 1 for part in parameters.values()]
        first, *others = np.split(np.arange(len(self.mean)), np.cumsum(ends)[:-1])
        columns = dict(zip(parameters, others, strict=True))
        if precise is not None:  # moved by the rows' weights, if by nothing else
            columns.setdefault(numbers[precise], np.empty(0, np.int64))
        further = (columns.get(name) for name in numbers)
        return Form(
            self.parts,
            its,
            np.append(first, ones),
            tuple(which if which is None else np.append(which, ones) for which in further),
            precise,
        )

    def blank(self, model: str) -> Posterior:
        """Of no rows, which says what a model says of any."""
        its = self.family(family(model))
        none, width = CoefficientPrior(np.zeros(1), np.ones(1)), len(self.mean) + self.ones
        rows = self.form(its).rows(np.empty((0, width)), np.empty(0), np.empty((len(self.parts), 0)))
        return Posterior(its, rows, none, len(self.values))

    def rescaled(self, mean: np.ndarray, sd: np.ndarray, two: np.ndarray) -> Layout:
        """The layout with these means and sds of what columns become, as of `scaled`."""
        columns = iter(scaled(self.features, mean, sd, two))
        first, *others = (
            [next(columns) for _ in its.features] for its in (self.layout, *self.layout.parameters.values())
        )
        parts = zip(self.layout.parameters.items(), others, strict=True)
        parameters = {name: replace(part, features=its) for (name, part), its in parts}
        return replace(self.layout, features=first, parameters=parameters)

    @property
    def all_columns(self) -> tuple[str, ...]:
        """As they are read: features, those beside, the target."""
        read = [*self.layout.columns, *self.layout.beside.values(), self.layout.target]
        return tuple(column.name for column in read)

    def batches(self, block: Block, part: Part) -> Iterator["Batch"]:
        """The rows of a part, at most BATCH at a time, which share their room."""
        features, width = self.features, len(self.features)
        room = np.empty((len(self.mean) + self.ones, BATCH), np.float32)
        room[len(self.mean) :] = 1.0
        *columns, target = part.columns
        if self.terms is not None:
            columns = self.terms.made(columns, part.place, str(block))
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
            lacking = np.zeros(len(part.columns), np.int64)
            if not (np.isfinite(total).all() and np.isfinite(y.sum() + beside.sum())):
                kept, lacking = self._complete(part, rows, x, row_of(block, place))
                x, y, place = np.ascontiguousarray(x[:, kept]), y[kept], place[kept]
                beside, total = beside[:, kept], x.sum(axis=1)
            dropped = min(BATCH, len(target) - first) - len(y)
            where = row_of(block, place)
            beside = self.others(beside, where)
            yield Batch(x, self.targets(y, where, beside), beside, place, total, dropped, lacking)

    def _complete(
        self, part: Part, rows: slice, x: np.ndarray, where: Where
    ) -> tuple[np.ndarray, np.ndarray]:
        """As `complete`, of rows that become x, (D, n)."""
        kept, lacking = complete(
            self.all_columns, [column[rows] for column in part.columns], where, self.missing
        )
        far = ~np.isfinite(x[: len(self.mean)]) & kept
        if self.terms is not None:
            return kept & ~far.any(axis=0), lacking
        if far.any():
            d, k = np.argwhere(far)[0]
            name = [column.name for column in self.features for _ in column.encoded][d]
            raise DataError(f"{where(int(k))}, column {name} lies too far from all others; mend it")
        return kept, lacking

    def _centring(self, columns: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Columns that float32 centres, (D,): it loses digits of what is far from 0. And (D, 1) each, what is
        taken off all columns at once, and what they are scaled by: two calls for each would cost twice that.
        """
        single, number = np.zeros((2, len(self.mean)), bool)
        d = 0
        for column, about in zip(columns, self.features, strict=True):
            if about.levels is None:
                number[d], single[d] = True, column.dtype == np.float32
            d += len(about.encoded)
        single &= np.abs(self.mean) < 16 * self.sd
        centre, scale = np.where(single, self.mean, 0.0), np.where(number, 1.0 / self.sd, 1.0)
        return single, centre.astype(np.float32)[:, None], scale.astype(np.float32)[:, None]

    def others(self, beside: np.ndarray, where: Where) -> np.ndarray:
        """Columns beside the features, (B, n), as rows have them; DataError for what they cannot hold."""
        converted = beside.copy()
        for k, (role, column) in enumerate(self.layout.beside.items()):
            if role in domains.BESIDE and (refusal := domains.BESIDE[role].refusal(beside[k])):
                message = f"{role} {column.name} is {plain(beside[k][refusal[0]])}, but {refusal[1]}"
                raise DataError(f"{where(refusal[0])}, {message}; mend the file, or leave the column out")
            converted[k] = encode.beside(role, beside[k], self.layout)
        return converted

    def copies(self, beside: np.ndarray) -> np.ndarray | None:
        """How many each row counts for in columns' means and sds, (n,); None where all count alike."""
        return encode.copies(dict(zip(self.parts, beside, strict=True)))

    def trials(self, beside: np.ndarray) -> np.ndarray | float:
        """Trials of each row, (n,), or 1 of all."""
        return beside[self.parts.index("trials")] if "trials" in self.parts else 1.0

    def targets(self, y: np.ndarray, where: Where, beside: np.ndarray) -> np.ndarray:
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
            raise DataError(f"{where(refusal[0])}, {message}; mend the file, or choose another --model")
        numbers = encode.target(numbers, self.layout)
        if "entry" in self.parts:
            entry, seen = beside[self.parts.index("entry")], self.layout.domain.whole
            if "censored" in self.parts:
                seen = seen & (beside[self.parts.index("censored")] == censoring.SEEN)
            if not (fine := (entry < numbers) | (seen & (entry == numbers))).all():
                late = f"{self.layout.beside['entry'].name} is not below {self.layout.target.name}"
                first = int(np.argmin(fine))
                value = plain(y[first])
                raise DataError(
                    f"{where(first)}, {late}, {value}, so that the row would not be there; mend the file"
                )
        return numbers


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
    total: Σ of x, (D,); dropped: rows left out; lacking: how many lack each column's value, (C,).
    """

    x: np.ndarray
    y: np.ndarray
    beside: np.ndarray
    place: np.ndarray
    total: np.ndarray
    dropped: int
    lacking: np.ndarray


class Form(NamedTuple):
    """How a posterior's rows of a family are read off columns. parts: what those beside the features are.

    first: which of the features the target's predictors are linear in; further: of each auxiliary number the
    same, None of one that is alike for all rows; nothing where all are. precise: which of these numbers
    precision weights move.
    """

    parts: tuple[str, ...]
    family: Family
    first: slice | np.ndarray = slice(None)
    further: tuple[np.ndarray | None, ...] = ()
    precise: int | None = None

    def bare(self, y: np.ndarray, beside: np.ndarray) -> Rows:
        """Rows without features, of targets (n,) and columns (B, n)."""
        named = dict(zip(self.parts, beside, strict=True))
        if unseen := {name: named.pop(name) for name in UNSEEN if name in named}:
            kinds = unseen.pop("censored", None)
            named["trials"] = censoring.columns(self.family, y, kinds, **unseen)
        weights, none = named.pop(_PRECISE, None), np.empty((len(y), 0))
        offsets = [
            0.0 if k != self.precise else self.family.by_weights(weights) for k in range(len(self.further))
        ]
        return Rows(none, y, designs=tuple(Design(none, each) for each in offsets), **named)  # type: ignore[arg-type]

    def rows(self, x: np.ndarray, y: np.ndarray, beside: np.ndarray) -> Rows:
        """Rows of features (n, D), targets (n,) and columns (B, n)."""
        bare = self.bare(y, beside)
        pairs = zip(self.further, bare.designs, strict=True)
        designs = tuple(
            its and replace(its, features=x[:, which]) if which is not None else None for which, its in pairs
        )
        return replace(bare, features=x[:, self.first], designs=designs)

    def columns(self, rows: Rows) -> np.ndarray:
        """All features (n, D) of such rows."""
        if not self.further:
            return rows.features
        ends = [int(which[-1]) for which in self.further if which is not None]  # that of ones comes last
        x = np.empty((len(rows), 1 + ends[0]))
        x[:, self.first] = rows.features
        for which, design in zip(self.further, rows.designs, strict=True):
            if which is not None and design is not None:
                x[:, which] = design.features
        return x

    def of_predictors(self, posterior: Posterior) -> list[slice | np.ndarray | None]:
        """Which of the features each of K predictors is linear in; None of a number alike for all rows."""
        further = self.further or (None,) * len(posterior.auxiliary)
        return [self.first] * posterior.linear + [*further]
