"""One look for the rows of many levels of a column: a row group is read and decoded once for all of them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from flyrun.fitting.scan.joined_groups import Block
from flyrun.fitting.scan.row_groups import Part, coded, head, parts
from flyrun.ground.errors import DataError
from flyrun.ground.threads import one_blas_thread

MOST = 1_000  # levels
MISSING = "missing"


class Levels(NamedTuple):
    """How many rows hold what: (m,) levels; columns of text and their values, or "" and "" of all the level's
    rows; how many. Rows without a level are rows under column "" and value MISSING.
    """

    level: np.ndarray
    column: np.ndarray
    value: np.ndarray
    rows: np.ndarray

    def plus(self, other: "Levels") -> "Levels":
        """Of both."""
        both = np.concatenate([np.stack(self[:3]), np.stack(other[:3])], axis=1)
        keys, place = np.unique(both, axis=1, return_inverse=True)
        counts = np.zeros(keys.shape[1], np.int64)
        np.add.at(counts, place.ravel(), np.concatenate([self.rows, other.rows]))
        return Levels._make([*keys, counts])


@dataclass(frozen=True)
class LevelLook:
    """Count a column's levels in a row group, and in each the values of columns of text."""

    by: str
    texts: tuple[str, ...]

    def __call__(self, block: Block) -> Levels:
        """DataError where levels are too many."""
        (levels, level_codes), *others = coded(block, (self.by, *self.texts))
        if len(levels) > MOST:
            raise too_many(block.file.path, self.by)
        count = np.bincount(level_codes + 1, minlength=len(levels) + 1)
        rows = [(level, "", "", count[1 + k]) for k, level in enumerate(levels)]
        rows.insert(0, ("", "", MISSING, count[0]))
        for name, (values, codes) in zip(self.texts, others, strict=True):
            both = np.unique((level_codes * len(values) + codes)[(level_codes >= 0) & (codes >= 0)])
            rows += [(levels[k // len(values)], name, values[k % len(values)], 0) for k in both.tolist()]
        *columns, counts = zip(*rows, strict=True)
        texts = (np.array(column, dtype=str) for column in columns)
        return Levels._make([*texts, np.array(counts, np.int64)])


def too_many(where: str, by: str) -> DataError:
    """Of levels."""
    return DataError(
        f"{where}: --by {by}: more than {MOST:,} levels; name a column of fewer, or write groups"
    )


class Each(NamedTuple):
    """What was found of each level that has rows. read: rows that were decoded; codes: (m,) of levels."""

    read: int
    codes: np.ndarray
    found: tuple[Any, ...]

    def plus(self, other: "Each") -> "Each":
        """Of both."""
        all_of = dict(zip(self.codes.tolist(), self.found, strict=True))
        for code, more in zip(other.codes.tolist(), other.found, strict=True):
            all_of[code] = all_of[code].plus(more) if code in all_of else more
        return Each.of(self.read + other.read, all_of)

    @staticmethod
    def of(read: int, by_code: dict[int, Any]) -> "Each":
        """By codes."""
        return Each(read, np.array(list(by_code), np.int64), tuple(by_code.values()))


@dataclass(frozen=True)
class Split:
    """Look at the rows of each level by a look of its own. levels: of the column `by`; texts: columns of text
    and their values in all levels; looks: (level's number, look, values of its own columns of text).

    most: rows at a row group's beginning that are enough, where they look like the others; 0 for all.
    """

    by: str
    levels: tuple[str, ...]
    texts: tuple[tuple[str, tuple[str, ...]], ...]
    looks: tuple[tuple[int, Any, tuple[tuple[str, tuple[str, ...]], ...]], ...]
    most: int = 0

    def __call__(self, block: Block) -> Each:
        """DataError for files and values that cannot be used."""
        wanted, named = {code for code, *_ in self.looks}, dict(block.file.named)
        if self.by in named and (not named[self.by] or self.levels.index(str(named[self.by])) not in wanted):
            return Each.of(0, {})
        names, texts = self.looks[0][1].names, dict(self.texts) | {self.by: self.levels}
        columns = (*names, self.by)
        each: Iterable[Part]
        if self.most:
            each = [head(block, columns, texts, self.most, (self.by,))]
        else:
            each = parts(block, columns, texts)
        read, by_code = 0, dict[int, Any]()
        with one_blas_thread():  # the bits of sums depend on the number of BLAS threads
            for part in each:
                read += len(part.place)
                for code, look, level_part in self._shares(part, names):
                    result = look.of(block, level_part)
                    by_code[code] = by_code[code].plus(result) if code in by_code else result
        return Each.of(read, by_code)

    def _shares(self, part: Part, names: tuple[str, ...]) -> Any:
        """(number, look, part) of each level that has rows in a part."""
        *columns, which = part.columns
        codes = np.nan_to_num(which, nan=-1.0).astype(np.int16)
        order = np.argsort(codes, kind="stable")
        ends = np.searchsorted(codes[order], [edge for code, *_ in self.looks for edge in (code, code + 1)])
        known = dict(self.texts)
        for (code, look, texts), first, last in zip(self.looks, ends[::2], ends[1::2], strict=True):
            if first == last:
                continue
            rows, mine = order[first:last], dict(texts)
            cut = [column[rows] for column in columns]
            for k, name in enumerate(names):
                if name in known and known[name] != mine[name]:
                    cut[k] = _renumbered(cut[k], known[name], mine[name])
            yield code, look, part._replace(columns=cut, place=part.place[rows])


def _renumbered(codes: np.ndarray, known: tuple[str, ...], wanted: tuple[str, ...]) -> np.ndarray:
    """Numbers (n,) of values among fewer, or in another order."""
    place = {word: float(k) for k, word in enumerate(wanted)}
    turn = np.array([*(place.get(word, np.nan) for word in known), np.nan])
    return turn[np.nan_to_num(codes, nan=len(known)).astype(np.int64)]
