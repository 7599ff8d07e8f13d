"""A table's file read: which of its columns are asked for, what they are, and its rows encoded."""

import functools
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from flyrun.ground.children import cores
from flyrun.ground.errors import ConfigError, DataError
from flyrun.ground.schema import did_you_mean, listing
from flyrun.ground.threads import in_order
from flyrun.tables import pieces, row_filter
from flyrun.tables.columns import scan, usable
from flyrun.tables.encode import copies, encode
from flyrun.tables.formats import is_csv
from flyrun.tables.layout import Column, Layout
from flyrun.tables.options import Table
from flyrun.tables.piece_cache import Kept
from flyrun.tables.seen import Moments

if TYPE_CHECKING:
    from flyrun.tables.formula import Formula

_MATRIX_ROWS = 1 << 16  # of a formula's matrix at a time


class Reading:
    """One reading of a file, to be closed. DataError for columns that it has not."""

    def __init__(self, config: Table, path: Path):
        self.config, self.path = config, path
        self.target, self.features = _columns(config, path)
        self.formula = None
        if config.formula is not None:
            from flyrun.tables import formula  # late: few fits have one

            self.formula = formula.read(config.formula, pieces.names(path, config))
            self.features = list(self.formula.columns)
            for name in {self.target, *config.beside.values()} & {*self.features}:
                raise ConfigError(
                    f"formula {config.formula!r} names {name}, which is the {config.role(name)}"
                )
        used = list(dict.fromkeys([*self.features, *config.beside.values(), self.target, *config.complete]))
        self._rows: list[int] = []
        read = functools.partial(pieces.pieces, path, used, config, read=self._rows)
        self._spelled = lambda names: pieces.pieces(path, sorted(names), config, names)
        self._kept = Kept(read, pays=is_csv(path))  # others are read as quickly as memory is filled
        self.close = self._kept.close

    def layout(self) -> Layout:
        """What the columns are."""
        layout = self._layout()
        counted = self.config.where is not None and self.config.limit is None
        return replace(layout, of=sum(self._rows)) if counted else layout

    def _layout(self) -> Layout:
        """As above, before it is said of how many rows these were chosen."""
        asked, what = self.config, str(self.path)
        if self.formula is None:
            return scan(self._kept, self.target, self.features, asked, what, self._spelled)
        categories = tuple(dict.fromkeys([*asked.categorical, *self.formula.categories]))
        asked = replace(asked, categorical=categories)
        layout = scan(self._kept, self.target, self.features, asked, what, self._spelled)
        rows = [piece for piece, _ in usable(self._kept.again(layout.text), asked, what, layout.text)]
        return of_formula(self.formula, layout, pd.concat(rows), what)

    def encoded(self, layout: Layout) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Features (n, D), and target with what is beside, (n, 1 + B), of some rows at a time, in order."""
        pieces = (
            piece
            for piece, _ in usable(self._kept.again(layout.text), self.config, str(self.path), layout.text)
        )
        return in_order(lambda piece: encode(piece, layout), pieces, cores())


def of_formula(formula: "Formula", layout: Layout, table: pd.DataFrame, what: str) -> Layout:
    """The layout of a formula's matrix, of a whole table whose own columns are found.

    DataError for a column of it that is the same in every row, or whose name another has.
    """
    from flyrun.tables.formula import Matrix  # late: as above

    matrix = Matrix.of(formula, layout.features, table)
    beside = {role: table[column.name].to_numpy(np.float64) for role, column in layout.beside.items()}
    weights = copies(beside)
    moments: dict[str, Moments] = {}
    low, high = (np.full(0, math.nan) for _ in range(2))
    two: np.ndarray = np.full(0, True)
    for start in range(0, len(table), _MATRIX_ROWS):
        piece = matrix.columns(table.iloc[start : start + _MATRIX_ROWS], what)
        values = piece.to_numpy()
        if not start:
            moments = {name: Moments() for name in piece}
            if len(moments) < piece.shape[1]:
                raise ConfigError(f"formula {formula.text!r} makes two columns of one name; rename one")
            low, high, two = values.min(axis=0), values.max(axis=0), np.full(values.shape[1], True)
        ends = np.minimum(low, values.min(axis=0)), np.maximum(high, values.max(axis=0))
        two &= ((low == ends[0]) | (low == ends[1])) & ((high == ends[0]) | (high == ends[1]))
        low, high = ends
        two &= ((values == low) | (values == high)).all(axis=0)
        for numbers, column in zip(moments.values(), values.T, strict=True):
            numbers.add(column, None if weights is None else weights[start : start + len(column)])
    columns = []
    for k, (name, numbers) in enumerate(moments.items()):
        lowest, highest = float(low[k]), float(high[k])
        if lowest == highest:
            raise DataError(f"{what}: {name} of the formula is {lowest:g} in every row; leave the term out")
        mean, sd = (lowest, highest - lowest) if two[k] else (numbers.mean, math.sqrt(numbers.variance))
        columns.append(Column(name, mean=mean, sd=sd, low=lowest, high=highest))
    return replace(
        layout, features=columns, formula=formula.text, sources=layout.features, state=matrix.state
    )


def _columns(config: Table, path: Path) -> tuple[str, list[str]]:
    """(target, features) that the configuration names; DataError for one that the file has not."""
    for key, usual in (("decimal", "."), ("encoding", "utf-8")):
        if (value := getattr(config, key)) != usual and not is_csv(path):
            raise DataError(f"{config.say(key, value)}: is for CSV files, which {path} is not")
    known = pieces.names(path, config)
    if config.target is None:
        raise DataError(f"dataset.target=null: name the column to explain; {path} has {_some(known)}")
    asked = {"features": config.features or (), "drop": config.drop}
    asked |= {"categorical": config.categorical, "numeric": config.numeric, "complete": config.complete}
    asked |= {"where": row_filter.read(config.where).columns} if config.where else {}
    aside = {"target": (config.target,)} | {role: (name,) for role, name in config.beside.items()}
    for key, names in (*aside.items(), *asked.items()):
        for name in names:
            if name not in known:
                close = did_you_mean(name, known)
                raise DataError(
                    f"{config.say(key)}: {path} has no column {name!r}{close}; it has {_some(known)}"
                )
    for key in ("features", "drop", *config.beside):
        for name in {**aside, **asked}[key]:
            if (role := config.role(name)) not in (key, "column"):
                mend = f"name another column with {config.say(key)}" if key in aside else "leave it out there"
                raise DataError(f"{config.say(key)}: {name} is the {role}; {mend}")
    left_out = {config.target, *config.beside.values(), *config.drop}
    chosen = [name for name in config.features or known if name not in left_out]
    return config.target, list(dict.fromkeys(chosen))


def _some(names: list[str]) -> str:
    return listing(names) if len(names) <= 12 else f"{', '.join(names[:12])} and {len(names) - 12} more"
