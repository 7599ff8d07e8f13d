"""Sums of rows by cell, those of one combination of levels of groups' columns, and few rows of the same
products as all.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from flyrun.fitting.scan.block_sums import Look, Products, products
from flyrun.fitting.scan.encoded_rows import Encoding, row_of
from flyrun.fitting.scan.joined_groups import Block
from flyrun.fitting.scan.pilot_rows import RowsLook, Sample
from flyrun.fitting.scan.row_groups import Part, coded, parts, tree
from flyrun.fitting.table_rows import Rows
from flyrun.ground.errors import DataError
from flyrun.ground.threads import one_blas_thread

BETWEEN = "\x1f"  # levels of a cell
_AT_ONCE = 65_536  # rows whose products are summed by cell at a time, at least
_NOTHING = 1e-12  # of a cell's products, which rounding leaves


class Cells(NamedTuple):
    """Sums by cell. key: (m,), each once and in order; rows: (m,); sums: (m, Q, W), products of what effects
    multiply with features, ones and target; whole: of all rows.
    """

    key: np.ndarray
    rows: np.ndarray
    sums: np.ndarray
    whole: Products

    def plus(self, other: "Cells") -> "Cells":
        """Of both."""
        key, here, there = _merged(self.key, other.key)
        rows, sums = np.zeros(len(key), np.int64), np.zeros((len(key), *self.sums.shape[1:]))
        rows[here], sums[here] = self.rows, self.sums
        rows[there] += other.rows
        sums[there] += other.sums
        return Cells(key, rows, sums, self.whole.plus(other.whole))


class Gathered(NamedTuple):
    """Rows as they stand, and their cells: key (m,), each once and in order; code: (n,), each row's."""

    key: np.ndarray
    code: np.ndarray
    rows: Sample

    def plus(self, other: "Gathered") -> "Gathered":
        """Both."""
        key, here, there = _merged(self.key, other.key)
        code = np.concatenate([here[self.code], there[other.code]]).astype(np.int32)
        return Gathered(key, code, self.rows.plus(other.rows))


def _merged(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values of either, each once and in order, as each has its own, and the place of each one's there."""
    both = np.concatenate([first, second])
    order = np.argsort(both, kind="stable")  # of two runs in order: it merges them
    ordered = both[order]
    new = np.append(True, ordered[1:] != ordered[:-1])
    place = np.empty(len(both), np.int64)
    place[order] = np.cumsum(new) - 1
    return ordered[new], place[: len(first)], place[len(first) :]


@dataclass(frozen=True)
class CellLook(Look):
    """Sum products of a row group's columns by cell. columns: that tell cells; places: (Q,), of what effects
    multiply among features and ones.
    """

    encoding: Encoding
    columns: tuple[str, ...]
    places: tuple[int, ...]

    def __call__(self, block: Block) -> Cells:
        """DataError for files and values that cannot be used, and where a level is missing."""
        key, code = cells_of(block, self.columns)
        each = parts(block, self.names, dict(self.encoding.levels))
        with one_blas_thread():  # the bits of sums depend on the number of BLAS threads
            return tree(self._sums(block, part, key, code) for part in each)

    def of(self, block: Block, part: Part) -> Cells:
        """As a call, of some rows of a row group."""
        return self._sums(block, part, *cells_of(block, self.columns))

    def _sums(self, block: Block, part: Part, key: np.ndarray, code: np.ndarray) -> Cells:
        """Of some rows of a row group, whose cells are these."""
        width, waiting, whole = len(self.encoding.mean) + 2, list[tuple[np.ndarray, np.ndarray]](), None
        rows, sums = np.zeros(len(key), np.int64), np.zeros((len(self.places), width, len(key)))

        def add() -> None:
            both, which = (np.concatenate(each, axis=-1) for each in zip(*waiting, strict=True))
            waiting.clear()
            rows[:] += np.bincount(which, minlength=len(key))
            for j, place in enumerate(self.places):
                for k in range(width):
                    sums[j, k] += np.bincount(which, both[place] * both[k], len(key))

        for both, place, its in products(self.encoding, block, part):
            which = _of_rows(code, place, block, self.columns)
            whole = its if whole is None else whole.plus(its)
            waiting.append((both, which))
            if sum(len(which) for _, which in waiting) >= max(_AT_ONCE, len(key)):
                add()
        if waiting:
            add()
        assert whole is not None
        there = rows > 0
        return Cells(key[there], rows[there], np.ascontiguousarray(np.moveaxis(sums, -1, 0)[there]), whole)


@dataclass(frozen=True)
class GatherLook:
    """Take all rows of a row group, as they stand, and their cells. columns: that tell these; levels: as of
    PilotLook.
    """

    rows: RowsLook
    columns: tuple[str, ...]
    levels: tuple[tuple[str, tuple[str, ...]], ...]

    def __call__(self, block: Block) -> Gathered:
        """Errors as of CellLook."""
        key, code = cells_of(block, self.columns)
        samples = (self.rows.of(block, part) for part in parts(block, self.rows.names, dict(self.levels)))
        sample = tree(samples)
        which = _of_rows(code, sample.at[:, 1], block, self.columns)
        there, which = np.unique(which, return_inverse=True)
        return Gathered(key[there], which.astype(np.int32), sample)


def _of_rows(code: np.ndarray, place: np.ndarray, block: Block, columns: tuple[str, ...]) -> np.ndarray:
    """Cells of some rows of a row group, (n,), by all of its rows'. DataError where a level is missing."""
    which = code[place]
    if len(lost := np.flatnonzero(which < 0)):
        where, missing = row_of(block, place)(int(lost[0])), " or ".join(columns)
        raise DataError(
            f"{where}: {missing} lacks a value in a row that has all others; fill it in, or leave such rows "
            "out of the files"
        )
    return which


def cells_of(block: Block, columns: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Cells of a row group, (m,), each once and in order, and the rows' numbers of them, (n,), −1 where a
    level is missing.
    """
    each = coded(block, columns, every=True)
    code, key = np.zeros(len(each[0][1]), np.int64), np.array([""])
    for first, (texts, number) in enumerate(each):
        levels, place = np.unique(np.array([text.strip() for text in texts], dtype=str), return_inverse=True)
        blank = len(levels) > 0 and levels[0] == ""
        levels, place = levels[int(blank) :], np.append(place - int(blank), -1)
        of_level = place[number]
        both = np.where((code < 0) | (of_level < 0), -1, code * len(levels) + of_level)
        there, code = np.unique(both, return_inverse=True)
        code, there = (code - 1, there[1:]) if there[0] < 0 else (code, there)
        if not first:
            key = levels[there]
            continue
        outer, inner = np.divmod(there, len(levels))
        key = np.char.add(np.char.add(key[outer], BETWEEN), levels[inner])
    order = np.argsort(key, kind="stable")
    place = np.append(np.argsort(order), -1)
    return key[order], place[code]


def few_rows(sums: np.ndarray, gram: np.ndarray, places: list[int], copies: float) -> tuple[Rows, np.ndarray]:
    """Rows of the same products as many that have these, and the cell of each, (M,). sums: (m, Q, W), of
    cells; gram: (W, W), of all; places: (Q,), of what effects multiply; copies: how many rows there are.
    """
    size, vectors = np.linalg.eigh(sums[:, :, places])
    there = size > _NOTHING * size[:, -1:]
    scale = np.where(there, 1.0 / np.sqrt(np.where(there, size, 1.0)), 0.0)
    of_cells = np.einsum("mqr,mqw->mrw", vectors, sums) * scale[..., None]
    cell = np.repeat(np.arange(len(sums)), len(places))[there.ravel()]
    both = of_cells.reshape(-1, len(gram))[there.ravel()]
    size, vectors = np.linalg.eigh(gram - both.T @ both)
    left = vectors.T * np.sqrt(size.clip(0.0))[:, None]
    left[:, places] = 0.0
    both, cell = np.concatenate([both, left]), np.append(cell, np.zeros(len(left), np.int64))
    weight = copies / len(both)  # so that they are as many as all rows
    both /= math.sqrt(weight)
    return Rows(both[:, :-1], both[:, -1], weights=np.full(len(both), weight)), cell
