"""Columns of text: all levels are found before a scan, so that each has its place in every row group."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from flyrun.fitting.request import TypedTable
from flyrun.fitting.scan.joined_groups import Block, Shards
from flyrun.fitting.scan.row_groups import levels_of, tree
from flyrun.ground.errors import DataError
from flyrun.tables.cells import PARTS, are_complex, kind
from flyrun.tables.layout import MOST_LEVELS, Column


class Texts(NamedTuple):
    """Values of columns of text: (m,) names of columns, (m,) values, each pair once, in order; (m,) rows."""

    column: np.ndarray
    value: np.ndarray
    rows: np.ndarray

    def plus(self, other: "Texts") -> "Texts":
        """Of both."""
        rows = self.by_value()
        for key, count in other.by_value().items():
            rows[key] = rows.get(key, 0) + count
        return Texts.of_rows(rows)

    def by_value(self) -> dict[tuple[str, str], int]:
        """Rows by column and value."""
        keys = zip(self.column.tolist(), self.value.tolist(), strict=True)
        return dict(zip(keys, self.rows.tolist(), strict=True))

    @staticmethod
    def of_rows(rows: dict[tuple[str, str], int]) -> "Texts":
        """Undo `by_value`."""
        columns, values = zip(*sorted(rows), strict=True) if rows else ((), ())
        counts = [rows[key] for key in sorted(rows)]
        return Texts(np.array(columns, str), np.array(values, str), np.array(counts, np.int64))

    def of(self, name: str) -> dict[str, int]:
        """A column's values, and the rows of each."""
        return {value: rows for (column, value), rows in self.by_value().items() if column == name}


@dataclass(frozen=True)
class TextLook:
    """Find the values of columns of text in a row group."""

    columns: tuple[str, ...]

    def __call__(self, block: Block) -> Texts:
        """All of them, or more than a category may have."""
        texts = levels_of(block, self.columns)
        pairs = ((name, pair) for name, rows in texts.items() for pair in [*rows.items()][: MOST_LEVELS + 1])
        return Texts.of_rows({(name, value): count for name, (value, count) in pairs})


def named(shards: Shards, columns: tuple[str, ...]) -> tuple[str, ...]:
    """Those of categories: of text, of true and false, or of numbers that are said to be."""
    return tuple(name for name in columns if shards.kinds[name] in ("text", "boolean", "category"))


def category(shards: Shards, name: str, levels: Sequence[str]) -> Column:
    """A column as a layout has it, of these levels where it is a category."""
    return Column(name, list(levels) or None, text=bool(levels) and shards.kinds.get(name) != "category")


def find(
    shards: Shards,
    names: tuple[str, ...],
    options: TypedTable,
    groups: list[list[Block]],
    mapper: Callable[..., list[Any]],
) -> tuple[tuple[tuple[str, tuple[str, ...]], ...], Texts]:
    """Levels of columns of text, references first, others in order; and the rows of each.

    Raises DataError for a column of one level, or of too many, and for a reference that there is not.
    """
    refuse_references(shards, names, options)
    if not names:
        return (), Texts.of_rows({})
    texts = tree(mapper(TextLook(names), groups, "levels of text"))
    return ordered(texts, names, options, shards.given, shards.rows), texts


def refuse_references(shards: Shards, names: tuple[str, ...], options: TypedTable) -> None:
    """DataError for a reference of what is no column of text."""
    for reference in options.reference:
        if not any(reference.startswith(f"{name}=") for name in names):
            name = reference.partition("=")[0]
            known = " is not fitted" if shards.kinds.get(name) in ("text", "category") else " holds numbers"
            held = known if name in shards.kinds else ": no such column"
            raise DataError(f"--reference {reference}: {name}{held}; name a category, or leave it out")


def ordered(
    texts: Texts, names: tuple[str, ...], options: TypedTable, given: str, rows: int
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """As of `find`, from the columns' values; given: the table as it is named; rows: of it."""
    from flyrun.tables import columns, doubts  # late: pandas takes half a second
    from flyrun.tables.seen import Seen  # late: as above

    categories = []
    for name in names:
        seen = Seen(name, options, given, text=True, values={*texts.of(name)}, count=rows)
        seen.names = name in options.categorical or bool(options.order_of(name))
        strays = sorted(value for value in seen.values if kind(value, options.decimal) != "number")
        seen.stray = (None, strays[0]) if strays else None
        columns.take_order(seen)
        if len(seen.values) <= MOST_LEVELS and are_complex(seen.values) and not seen.names:
            raise seen.error(f"holds complex numbers; {PARTS}")
        doubts.check([seen], lambda names: iter(()), 0)
        categories.append(columns.feature(seen))
    columns.against_references(categories, options)
    return tuple((column.name, tuple(column.levels or ())) for column in categories)
