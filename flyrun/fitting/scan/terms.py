"""A formula's columns in a scan: what its functions know of the whole table, and the matrix of some rows.

What they know, as knots, comes from all rows of a table of at most so many, else from so many drawn at random
and the ends of each column.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from flyrun.fitting.scan.joined_groups import Block, Shards
from flyrun.fitting.scan.row_groups import parts, tree
from flyrun.fitting.scan.text_levels import category
from flyrun.ground.errors import ConfigError, DataError
from flyrun.tables.layout import Column

MOST = 1_000_000  # rows that tell what functions know


class Sources(NamedTuple):
    """Columns that a formula names. values: (n, S) of some rows; low, high: (S,) of all."""

    values: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def plus(self, other: "Sources") -> "Sources":
        """Of both."""
        low, high = np.fmin(self.low, other.low), np.fmax(self.high, other.high)
        return Sources(np.concatenate([self.values, other.values]), low, high)


@dataclass(frozen=True)
class SourceLook:
    """Take each row of a row group with this chance, without those that lack a value."""

    columns: tuple[str, ...]
    levels: tuple[tuple[str, tuple[str, ...]], ...]
    chance: float
    seed: int

    def __call__(self, block: Block) -> Sources:
        """DataError for files that cannot be used."""
        rng = np.random.default_rng([self.seed, 3_000_000, block.number])
        return tree([self._of(part.columns, rng) for part in parts(block, self.columns, dict(self.levels))])

    def _of(self, columns: list[np.ndarray], rng: np.random.Generator) -> Sources:
        x = np.column_stack(columns).astype(np.float64)
        x = x[np.isfinite(x).all(axis=1)]
        ends = (x.min(axis=0), x.max(axis=0)) if len(x) else np.full((2, x.shape[1]), np.nan)
        return Sources(x[rng.random(len(x)) < self.chance], *ends)


class Terms(NamedTuple):
    """A formula as workers have it. columns: that it names; state: of formula.Matrix; names: of the matrix's
    columns.
    """

    text: str
    columns: list[Column]
    state: dict[str, Any]
    names: tuple[str, ...]

    def frame(self, x: np.ndarray, place: np.ndarray) -> Any:
        """Columns (n, S), categories by number, as a table. place: (n,), rows' numbers."""
        import pandas as pd  # late: half a second

        by_name = {}
        for values, column in zip(x.T, self.columns, strict=True):
            levels = column.levels or []
            known = np.array(levels if column.text else [*map(float, levels)])
            by_name[column.name] = known[values.astype(np.int64)] if levels else values
        return pd.DataFrame(by_name, index=place)

    def of(self, x: np.ndarray, place: np.ndarray, what: str) -> np.ndarray:
        """The matrix (n, D) of columns (n, S); NaN of rows that lack a value. DataError as of Matrix."""
        from flyrun.tables import formula  # late: few fits have one

        kept = np.isfinite(x).all(axis=1)
        if np.isinf(x).any():
            raise DataError(f"{what} holds an infinite number; leave its column out of the formula")
        matrix_rows = np.full((len(x), len(self.names)), np.nan)
        if kept.any():
            matrix = formula.matrix(self.text, self.columns, self.state)
            matrix_rows[kept] = matrix.columns(self.frame(x[kept], place[kept]), what).to_numpy()
        return matrix_rows


class Matrices(NamedTuple):
    """Of several formulas, whose columns are read once. columns: that they name; each: the target's first."""

    columns: tuple[str, ...]
    each: tuple[Terms, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Of the matrices' columns."""
        return tuple(name for terms in self.each for name in terms.names)

    def made(self, columns: list[np.ndarray], place: np.ndarray, what: str) -> list[np.ndarray]:
        """Columns (n,) of which the first are the formulas', with the matrices' instead of these."""
        count = len(self.columns)
        x = np.column_stack(columns[:count])
        matrices = [
            terms.of(x[:, [self.columns.index(column.name) for column in terms.columns]], place, what)
            for terms in self.each
        ]
        return [*np.hstack(matrices).T, *columns[count:]]


def by_row(texts: Sequence[str], columns: Sequence[str]) -> bool:
    """Whether formulas' right sides need none but a row itself, so that few rows tell their terms."""
    from flyrun.tables import formula  # late: few fits have one

    return all(formula.read(text, columns).by_row for text in texts)


def find(
    texts: Sequence[str],
    shards: Shards,
    columns: tuple[str, ...],
    levels: tuple[tuple[str, tuple[str, ...]], ...],
    groups: list[list[Block]],
    mapper: Callable[..., list[Any]],
    seed: int,
) -> Matrices:
    """The terms of formulas' right sides. ConfigError and DataError for what cannot be evaluated."""
    look = SourceLook(columns, levels, min(1.0, MOST / shards.rows), seed)
    shown = "what the formula's functions know"
    for part in [groups[:1], groups[1:]] if by_row(texts, columns) else [groups]:
        if part and len((sources := tree(mapper(look, part, shown))).values):
            break
    else:
        raise DataError(f"{shards.given}: every row lacks a value of the formula")
    rows = sources.values
    if look.chance < 1.0:
        rows = np.concatenate([rows, [sources.low, sources.high]])
    known = {name: category(shards, name, dict(levels).get(name, ())) for name in columns}
    return Matrices(columns, tuple(_terms(text, known, rows, shards.given) for text in texts))


def _terms(text: str, known: dict[str, Column], rows: np.ndarray, given: str) -> Terms:
    """Those of one formula. rows: (n, S), of columns by name."""
    from flyrun.tables import formula  # late: as above

    read, names = formula.read(text, [*known]), [*known]
    terms = Terms(text, [known[name] for name in names if name in read.columns], {}, ())
    rows = rows[:, [names.index(column.name) for column in terms.columns]]
    matrix = formula.Matrix.of(read, terms.columns, terms.frame(rows, np.arange(len(rows))))
    of_matrix = tuple(matrix.columns(terms.frame(rows[:1], np.arange(1)), given))
    if len(set(of_matrix)) < len(of_matrix):
        raise ConfigError(f"formula {text!r} makes two columns of one name; rename one")
    return terms._replace(state=matrix.state, names=of_matrix)
