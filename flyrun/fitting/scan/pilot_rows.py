"""The pilot's rows: as they are taken, encoded as all others will be, what they are worth, how badly second
order fits them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from flyrun.fitting.rows_posterior import Posterior
from flyrun.fitting.scan.encoded_rows import LARGEST, Encoding, Form, complete, row_of
from flyrun.fitting.scan.joined_groups import Block
from flyrun.fitting.scan.row_groups import Part, head
from flyrun.fitting.scan.second_order import Centre, Sites
from flyrun.fitting.scan.terms import Matrices
from flyrun.fitting.table_rows import Rows
from flyrun.tables.encode import features

_CORE, _CORE_LEAST = 20.0, 1e-5  # times the mean size, from where on a row is kept as it is
_FEW_VALUES = 20  # up to so many the target's values are classes for the pilot


class Sample(NamedTuple):
    """Rows of a pilot as they stand in the files. x: (n, D); beside: (n, B); chance: with which each was
    taken, (n,); read: rows that were looked at. sources: (n, S), columns that formulas name, where x is of
    their matrices; at: (n, 2), row groups' numbers and rows' in them.
    """

    x: np.ndarray
    y: np.ndarray
    beside: np.ndarray
    chance: np.ndarray
    read: int
    sources: np.ndarray
    at: np.ndarray

    def plus(self, other: "Sample") -> "Sample":
        """Both."""
        arrays = (name for name in self._fields if name != "read")
        both = {name: np.concatenate([getattr(self, name), getattr(other, name)]) for name in arrays}
        return Sample(**both, read=self.read + other.read)

    def where(self, which: np.ndarray) -> "Sample":
        """Some of them, by indices."""
        arrays = {name: getattr(self, name)[which] for name in self._fields if name != "read"}
        return self._replace(**arrays)


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
    terms: Matrices | None = None  # of formulas, whose sources the columns are

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
        sources = np.column_stack(columns)[:, : 0 if self.terms is None else width]
        if self.terms is not None:
            columns = self.terms.made(columns, part.place[picked], str(block))
            width = len(self.terms.names)
        x = np.column_stack(columns)
        kept = (np.abs(x) <= LARGEST).all(axis=1) & np.isfinite(y[picked])  # a scan's looks name the others
        x, picked, sources = x[kept], picked[kept], sources[kept]
        at = np.column_stack([np.full(len(picked), block.number), part.place[picked]])
        return _sample(x, width, y[picked], chance[picked] * part.share, len(y), sources, at)


@dataclass(frozen=True)
class RowsLook(_Read):
    """Take all rows of a few, as they stand. missing: as it is typed."""

    missing: str
    terms: Matrices | None = None  # as of PilotLook

    def of(self, block: Block, part: Part) -> Sample:
        """Of some rows of a row group; DataError for a value that is missing, or infinite."""
        *columns, target = part.columns
        x, y = np.column_stack(columns).astype(np.float64), target.astype(np.float64)
        kept, _ = complete(self.names, [*x.T, y], row_of(block, part.place), self.missing)
        place, x, width = part.place[kept], x[kept], len(self.columns)
        if self.terms is not None:
            x = np.column_stack(self.terms.made([*x.T], place, str(block)))
            width = len(self.terms.names)
        at = np.column_stack([np.full(len(place), block.number), place])
        return _sample(x, width, y[kept], np.ones(len(x)), len(y), x[:, :0], at)


def _sample(
    x: np.ndarray,
    width: int,
    y: np.ndarray,
    chance: np.ndarray,
    read: int,
    sources: np.ndarray,
    at: np.ndarray,
) -> Sample:
    """Of columns x (n, D + B), of which so many are features."""
    x, beside = x[:, :width], x[:, width:]
    small = x.astype(np.float32)
    return Sample(small if (small == x).all() else x, y, beside, chance, read, sources, at)


def effective(chance: np.ndarray) -> float:
    """Rows that as many weighted ones are worth. chance: (n,), with which each was taken."""
    return float((1.0 / chance).sum() ** 2 / (1.0 / chance**2).sum())


def rows_of(pilot: Sample, encoding: Encoding, form: Form, blocks: Sequence[Block]) -> Rows:
    """As the looks encode them, each standing for as many as it was drawn from. blocks: by their numbers."""
    parts = features([*pilot.x.astype(np.float64).T], encoding.features)
    x = np.vstack([*parts, np.ones((int(encoding.ones), len(pilot.y)))]).T.copy("C")

    def where(k: int) -> str:
        number, place = pilot.at[k]
        return blocks[number].row(place)

    beside = encoding.others(pilot.beside.T, where)
    rows = form.rows(x, encoding.targets(pilot.y, where, beside), beside)
    return replace(rows, weights=rows.weights / pilot.chance)


def sizes(start: Posterior, chance: np.ndarray, encoding: Encoding, model: str, centre: Centre) -> np.ndarray:
    """Sizes of what second order leaves of the pilot's rows, (n,); chance: with which each was taken."""
    rows = replace(start.rows, weights=start.rows.weights * chance)
    sites = Sites(encoding, model, centre)
    size = np.empty(len(rows))
    for block in start.blocks(8_192):
        part = rows.take(block)
        size[block] = sites.of(np.ascontiguousarray(sites.form.columns(part).T, np.float32), part)[2]
    return size


def bulk_and_core(size: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
    """Mean size (n,) of a scan's rows, and from which on they are kept as they are and not in that mean."""
    # from the median: from the least size on, all rows of many columns would be kept
    core = max(_CORE_LEAST, _CORE * float(np.median(size)))
    for _ in range(3):
        bulk = np.isfinite(size) & (size <= core)
        mean = float(weight[bulk] @ size[bulk] / weight[bulk].sum()) if bulk.any() else _CORE_LEAST
        core = max(_CORE_LEAST, _CORE * mean)
    return mean, core
