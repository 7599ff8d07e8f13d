"""What is known of a table before its scan: groups of row groups, a pilot of rows, what columns become."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from flyrun.families.family import Family
from flyrun.fitting import table_posterior
from flyrun.fitting.request import Request, TypedTable
from flyrun.fitting.scan import column_checks, folds, terms, text_levels
from flyrun.fitting.scan.encoded_rows import Encoding, scaled
from flyrun.fitting.scan.joined_groups import PARTS, Block, Shards
from flyrun.fitting.scan.pilot_rows import PilotLook, Sample
from flyrun.fitting.scan.row_groups import tree
from flyrun.ground.errors import ConfigError, DataError
from flyrun.tables.encode import features
from flyrun.tables.layout import Column, Layout, plain

_PILOT_GROUPS, _PILOT_SHARE = 10, 0.01
_PILOT_LEAST, _PILOT_MOST = 20_000, 100_000  # rows
_EACH_CLASS = 10  # rows of each class a parameter
_PILOT_OF_LEVELS = 400_000  # rows of all levels
_FLAT = 10.0  # sds per sd of a column, from where on a prior says next to nothing
_MOST_CLASSES = 20
_GROUP_ROWS = 2_000_000

#: runs a look over groups of blocks, each one's parts added in a fixed order: (look, groups, words) → parts
Mapper = Callable[[Any, list[list[Block]], str], list[Any]]


class Own(NamedTuple):
    """A level's rows in a table. rows: how many; given: how they are named; levels: how many share a scan."""

    rows: int
    given: str
    levels: int


class Inputs(NamedTuple):
    """What a scan is asked. columns: features, of the files; table: as it is typed; say: shows a line."""

    request: Request
    shards: Shards
    columns: list[str]
    table: TypedTable
    mapper: Mapper
    say: Callable[[str], None]


class Table:
    """A table of row groups, or a level's rows in it."""

    def __init__(self, inputs: Inputs, seed: int, level: Own | None = None):
        request, shards, columns, self.table, self.mapper, self.say = inputs
        self.rows, self.given, self.share = level or (shards.rows, shards.given, 1)
        self.request, self.shards, self.seed = request, shards, seed
        self.columns, self.target = tuple(columns), request.target
        self.read = self.columns
        self.terms: terms.Matrices | None = None
        self.texts = text_levels.Texts.of_rows({})
        self.beside = self.table.beside
        categories = text_levels.named(shards, (*self.read, self.target))
        self.by_folder = {name for name, _ in shards.files[0].named} & {*categories}
        order = np.random.default_rng([seed, 2_000_000]).permutation(len(shards.blocks))
        self.blocks = [shards.blocks[k] for k in order]
        many = max(1, min(len(order) // PARTS, _GROUP_ROWS * len(order) // max(shards.rows, 1)))
        self.groups = [self.blocks[k : k + many] for k in range(0, len(order), many)]
        self.folds = folds.ranges(request.folds, len(self.groups)) if request.folds else []
        self.rows_read = 0

    def pilot(self) -> Sample:
        """Rows of some row groups, in which every class of a target of classes is met often enough."""
        texts = text_levels.named(self.shards, (*self.read, self.target))
        self.levels, self.texts = text_levels.find(self.shards, texts, self.table, self.groups, self.mapper)
        read = {*texts} - {name for name, _ in self.shards.files[0].named}
        self.rows_read += self.shards.rows * len(read) // len(self.shards.kinds)
        n = len(self.blocks)
        if self.table.formula is not None:
            rights = [self.table.formula, *(part["formula"] for part in self.request.formulas.values())]
            self.terms = terms.find(
                rights, self.shards, self.read, self.levels, self.groups, self.mapper, self.seed
            )
            every = not terms.by_row(rights, self.read)
            if every and self.shards.rows > terms.MOST:
                self.say(
                    f"knots and means within the formula: of {terms.MOST:,} rows at random, and the ends"
                )
            self.columns = self.terms.names
            looked = self.blocks if every else self.groups[0]
            self.rows_read += sum(b.rows for b in looked) * len(self.read) // len(self.shards.kinds)
        table_posterior.refuse_many(self.width)
        done, parts, blocks = 0, list[Sample](), self.each_level_first()
        ahead = self.first_of_pilot
        look = self.pilot_look()
        while True:
            parts += self.mapper(look, [[block] for block in blocks[done:ahead]], "pilot")
            done, sample = ahead, tree(list(parts))
            if done == n or self.met(sample.y):
                break
            ahead = min(n, 2 * done)
        there, seen = self.rows_by_place(self.blocks), self.rows_by_place(blocks[:done])
        share = {place: rows / there[place] for place, rows in seen.items()}
        met = np.array([share.get(self.place(block), 1.0) for block in self.shards.blocks])
        self.rows_read += sample.read
        if not len(sample.y):
            raise DataError(f"{self.shards.given}: every row looked at lacks a value")
        column_checks.refuse_doubtful(self.shards, self.table, self.read, [sample], self.target)
        return sample._replace(chance=sample.chance * met[sample.at[:, 0]])

    def place(self, block: Block) -> tuple[str | None, ...]:
        """The levels of categories that a row group's folders name."""
        return tuple(word for name, word in block.file.named if name in self.by_folder)

    def rows_by_place(self, blocks: Sequence[Block]) -> dict[tuple[str | None, ...], int]:
        """Rows by such levels."""
        rows = dict[tuple[str | None, ...], int]()
        for block in blocks:
            rows[self.place(block)] = rows.get(self.place(block), 0) + block.rows
        return rows

    def each_level_first(self) -> list[Block]:
        """The blocks, of which the first are one of each such level: of a level that it does not meet a pilot
        says nothing, and all its rows would travel.
        """
        first = {self.place(block): block for block in reversed(self.blocks)}
        ahead = {block.number for block in first.values()}
        return sorted(self.blocks, key=lambda block: block.number not in ahead)

    @property
    def width(self) -> int:
        """Columns that rows have, with that of ones."""
        return 1 + sum(len(dict(self.levels).get(name, "ab")) - 1 for name in self.columns)

    @property
    def first_of_pilot(self) -> int:
        """Row groups that a pilot looks at first."""
        n, places = len(self.blocks), len({self.place(block) for block in self.blocks})
        return min(n, max(_PILOT_GROUPS, math.ceil(_PILOT_SHARE * n), places))

    def pilot_look(self) -> PilotLook:
        """What a pilot takes of a row group."""
        wanted = min(max(self.rows // 100, _PILOT_LEAST), _PILOT_MOST)
        if self.share > 1:
            wanted = min(wanted, max(_PILOT_OF_LEVELS // self.share, 2 * _EACH_CLASS * self.width))
        most = max(wanted // self.first_of_pilot, 1)
        beside = tuple(self.beside.values())
        return PilotLook(self.read, beside, self.target, most, self.seed, self.levels, self.terms)

    def met(self, y: np.ndarray) -> bool:
        """Whether a pilot's targets (n,) are of enough rows of each class, or of no classes."""
        values, count = np.unique(y, return_counts=True)
        return len(values) > _MOST_CLASSES or (
            len(values) > 1 and bool(count.min() >= _EACH_CLASS * self.width)
        )

    def encoding(self, pilot: Sample, task: str, family: Family) -> Encoding:
        """What the pilot's columns become."""
        from flyrun.tables.possible import refused_levels  # late: pandas takes half a second

        values, domain = np.unique(pilot.y), family.domain
        texts = dict(self.levels).get(self.target)
        if texts:
            values = np.arange(float(len(texts)))
        levels, ordered = texts or [*map(plain, values)], bool(self.table.order_of(self.target))
        refusal = refused_levels(domain, self.target, levels, texts is not None, ordered, self.table)
        if not refusal and domain.classes and len(values) > _MOST_CLASSES:
            refusal = f"has more than {_MOST_CLASSES} values, too many for classes; choose another --model"
        if refusal:
            raise ConfigError(f"{self.given}: target {self.target} {refusal}")
        weight, known = 1.0 / pilot.chance, dict(self.levels)
        names = self.columns if self.terms is None else ()
        columns = [text_levels.category(self.shards, name, known.get(name, ())) for name in names]
        columns += [] if self.terms is None else map(Column, self.terms.names)
        coded = np.array([column.levels is not None for column in columns for _ in column.encoded])
        x = np.vstack(features([*pilot.x.astype(np.float64).T], columns)).T.copy("C")
        low, high = x.min(axis=0), x.max(axis=0)
        two = ((x == low) | (x == high)).all(axis=0)
        mean = np.average(x, axis=0, weights=weight)
        sd = np.sqrt(np.average((x - mean) ** 2, axis=0, weights=weight))
        mean, sd, two = np.where(two, low, mean), np.where(two, high - low, sd), two | coded
        target = Column(self.target, list(levels) if domain.classes else None, text=texts is not None)
        if domain.standardized:
            target.mean = float(np.average(pilot.y, weights=weight))
            target.sd = float(np.sqrt(np.average((pilot.y - target.mean) ** 2, weights=weight))) or 1.0
        columns = scaled(columns, mean, np.where(sd > 0, sd, 1.0), two)
        layout = Layout(task, target, columns, rows=self.rows, copies=float(self.rows))
        layout.beside = {role: Column(name) for role, name in self.beside.items()}
        if self.terms is not None:
            each, whole = iter(columns), layout
            layout, *others = (
                replace(
                    whole,
                    features=[next(each) for _ in its.names],
                    formula=its.text,
                    sources=its.columns,
                    state=its.state,
                )
                for its in self.terms.each
            )
            layout.parameters = dict(zip(self.request.formulas, others, strict=True))
        return Encoding(layout, two, self.table.missing)

    def refuse_few(self, pilot: Sample, encoding: Encoding) -> None:
        """ConfigError where a class has too few rows for priors that say next to nothing."""
        if not encoding.values or self.request.prior_scale < _FLAT:
            return
        classes, count = np.searchsorted(encoding.values, pilot.y), 1.0 / pilot.chance
        each = np.bincount(classes, count, minlength=len(encoding.values))
        if (least := each.min()) < 2 * self.width:
            value = (encoding.layout.target.levels or [])[int(each.argmin())]
            raise ConfigError(
                f"{self.given}: {least:.0f} rows have {self.target} = {value}, too few for {self.width} "
                f"coefficients whose prior says next to nothing; choose a --prior-scale below {_FLAT:g}, or "
                "leave columns out with --drop"
            )
