"""Text files of tables, CSV and its kin: their rows piece by piece, and what in the text is to be doubted.

Pieces are as in pieces.py. What pandas does not tell is looked for in the text itself: cells that begin with
a zero and a digit, and a stray quote that makes one cell of several rows.
"""

import codecs
import contextlib
import csv
import gzip
import io
import itertools
import mmap
import re
import warnings
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pandas as pd

from flyrun.ground.children import cores
from flyrun.ground.errors import DataError
from flyrun.ground.threads import in_order
from flyrun.tables.cells import kind
from flyrun.tables.formats import is_csv
from flyrun.tables.options import Table

_BYTES = 1 << 22  # of text in a piece that a core parses
_FEW = 0.25  # of the columns: what others would take is worth a look at all lines
_BLOCK = 1 << 16  # bytes that are looked at while they are in a cache
_TOO_LONG = "its rows have more values than the header has names"
_SEPARATORS = ",;\t|"
#: words for a missing value
_MISSING = (
    *(
        "",
        "#N/A",
        "#N/A N/A",
        "#NA",
        "-1.#IND",
        "-1.#QNAN",
        "-NaN",
        "-nan",
        "1.#IND",
        "1.#QNAN",
        "<NA>",
        "N/A",
    ),
    *("NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
)
ZEROS, ALL = "zeros", "all"


def place(what: Path | str, row: int, options: Table) -> str:
    """A row as a person finds it: a text file's by its line."""
    line, _ = record(Path(what), row, options)
    return f"row {row} (line {line} of the file)" if line else f"row {row} (rows count from 0)"


def record(path: Path, row: int, options: Table) -> tuple[int, list[str]]:
    """(line, cells) of a row of a text file; of others (0, [])."""
    if is_csv(path):
        reader = TextTable(path, options)
        with contextlib.suppress(OSError, ValueError, csv.Error), reader.opened() as file:
            records = csv.reader(file, delimiter=reader.separator, skipinitialspace=True)
            next(records)
            line = records.line_num + 1
            for cells in records:
                if len(cells) > 1 or any(map(str.strip, cells)):  # empty lines are no rows
                    if row == 0:
                        return line, cells
                    row -= 1
                line = records.line_num + 1
    return 0, []


class TextTable:
    """A text file: pieces of its bytes by all cores where lines are rows, else one after the other."""

    def __init__(self, path: Path, options: Table):
        self.path, self.table = path, options
        self.encoding = codecs.lookup(options.encoding).name
        signed = {"utf-8": "utf-8-sig"}.get(self.encoding, self.encoding)
        self.options: dict[str, Any] = {"encoding": signed, "skipinitialspace": True}
        self.options |= {"decimal": options.decimal}
        self.separator = self._separator()

    def opened(self) -> Any:
        """The file's text."""
        unpacked = gzip.open if self.path.name.lower().endswith(".gz") else open
        return unpacked(self.path, "rt", encoding=self.options["encoding"], newline="")

    def names(self) -> list[str]:
        """The header's, as often as they occur; pandas' own for columns without one."""
        # Without a header pandas renames no column that occurs twice; a word in it is no missing value.
        how = {"sep": self.separator, "header": None, "nrows": 1, "dtype": str, "na_filter": False}
        head = pd.read_csv(self.path, **how, **self.options)
        names = [str(name).strip() for name in head.iloc[0]]
        there = Counter(names)
        for k, name in enumerate(names):
            if not name:
                names[k] = f"Unnamed: {k}"
                while there[names[k]]:
                    names[k] += ".1"
                there[names[k]] += 1
        return names

    def pieces(self, columns: list[str], rows: int, text: set[str]) -> Iterator[pd.DataFrame]:
        """These columns, or all, those in `text` as strings, about `rows` rows at a time, with attrs[ZEROS].

        Raises DataError for a quote that takes in rows, ValueError for rows longer than the header.
        """
        # Told to use some columns, pandas would cut rows that are longer than the header: see `_parsed`.
        names = self.names()
        how = self.options | self._missing(names)
        how |= {
            "sep": self.separator,
            "names": names,
            "dtype": dict.fromkeys(text, str),
            "index_col": False,
            "low_memory": False,
        }
        if not self._lines_are_rows():
            yield from self._one_by_one(rows, how)
            return
        first = 0
        try:
            with open(self.path, "rb") as file:
                file.readline()
                blocks = iter(partial(_lines, file), b"")
                for piece in in_order(partial(_parsed, how, columns), blocks, cores()):
                    piece.index = range(first, first + len(piece))
                    first += len(piece)
                    yield piece
        except ValueError:
            for _ in self._one_by_one(rows, how):  # which can name the line
                pass
            raise

    def _lines_are_rows(self) -> bool:
        """Whether every line feed ends a row, and all rows are wanted; nothing quoted may span two lines."""
        if self.table.limit is not None or self.path.name.lower().endswith(".gz") or not self._bytewise():
            return False
        with open(self.path, "rb") as file:
            header = file.readline()
            if b"\r" in header.rstrip(b"\r\n") or header.count(b'"') % 2:
                return False
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                return content.find(b'"', len(header)) < 0

    def _bytewise(self) -> bool:
        """Whether separators and line feeds are bytes that stand for nothing else."""
        upper = bytes(range(128, 256)).decode(self.encoding, "replace")
        ascii_too = bytes(range(128)).decode(self.encoding, "replace") == "".join(map(chr, range(128)))
        return self.encoding == "utf-8" or (ascii_too and len(upper) == 128)

    def _missing(self, names: list[str]) -> dict[str, Any]:
        """Which words are missing values: in columns that are said to be categories only those of `na`."""
        usual, typed = [*_MISSING, *self.table.na], ["", *self.table.na]
        kept = self.table.categorical
        by_name = {name: typed if name in kept else usual for name in names}
        return {"keep_default_na": False, "na_values": by_name if kept else usual}

    def _one_by_one(self, rows: int, how: dict[str, Any]) -> Iterator[pd.DataFrame]:
        zeros = ALL if self._has_zeros_ahead() else ()
        with pd.read_csv(self.path, header=0, chunksize=rows, **how) as reader:
            while (piece := self._next(reader)) is not None:
                self._refuse_open_quotes(piece)
                piece.attrs[ZEROS] = zeros
                yield piece

    def _has_zeros_ahead(self) -> bool:
        """Whether some cell may begin with a zero and a digit."""
        if self.table.limit is not None or not self._bytewise():
            return True
        unpacked: Any = gzip.open if self.path.name.lower().endswith(".gz") else open
        with unpacked(self.path, "rb") as file:
            before = f'"\r{self.separator}'.encode()
            return any(len(_zeros_ahead(lines, before)) for lines in iter(partial(_lines, file), b""))

    def _refuse_open_quotes(self, piece: pd.DataFrame) -> None:
        """Hold rows and lines against each other: a stray quote makes one cell of all up to the next."""
        numbers = [piece[name].dtype.kind in "iuf" for name in piece.columns]
        for at, name in enumerate(piece.columns):
            if numbers[at] or piece[name].dtype.kind == "b":
                continue
            long = piece[name][piece[name].astype(str).str.contains("\n", regex=False)]
            for row, text in long.items():
                if self._takes_in_rows(text, at, numbers):
                    where = place(self.path, int(row), self.table)
                    raise DataError(
                        f"{self.path}: {where}, column {name} takes in rows from its quote to the next; "
                        "close or delete the quote"
                    )

    def _takes_in_rows(self, text: str, at: int, numbers: list[bool]) -> bool:
        """Whether a cell of column `at` is the rest of a row, rows, and the beginning of one."""
        first, *rows, last = (line.split(self.separator) for line in text.splitlines())
        whole = len(first) == len(numbers) - at and len(last) == at + 1
        begun = [[*row, *[""] * at] for row in rows if len(row) == len(numbers)] + [last] * whole
        return any(
            all(
                kind(cell.strip(), self.table.decimal) == "number"
                for cell in itertools.compress(row, numbers)
            )
            for row in begun
        )

    def _next(self, reader: Iterator[pd.DataFrame]) -> pd.DataFrame | None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", pd.errors.ParserWarning)
                return next(reader, None)
        except pd.errors.ParserWarning:
            raise ValueError(_TOO_LONG) from None

    def _separator(self) -> str:
        """The one of , ; tab | that the header has most of."""
        with self.opened() as file:
            head = str(file.readline())
        if not head.strip():
            raise DataError(f"{self.path}: begins with an empty line; the first line must name the columns")
        if head.lower().startswith("sep="):
            raise DataError(f"{self.path}: begins with a line {head.strip()!r} for spreadsheets; delete it")
        return max(_SEPARATORS, key=re.sub(r'"[^"]*"', "", head).count)


def _lines(file: BinaryIO) -> bytes:
    """The next whole lines."""
    return file.read(_BYTES) + file.readline()


def _parsed(how: dict[str, Any], columns: list[str], lines: bytes) -> pd.DataFrame:
    """Rows without a header. Raises ValueError, also where pandas would only warn and cut the rows.

    Of few columns among many these alone, where no row is longer than the header.
    """
    head = lines.lstrip(b"\r\n").partition(b"\n")[0]
    if head.count(how["sep"].encode()) >= len(how["names"]):
        raise ValueError(_TOO_LONG)
    encoding = how["encoding"].removesuffix("-sig")
    how = how | {"encoding": encoding, "skipinitialspace": b" " in lines}  # looked for, they cost a fifth
    if len(columns) < _FEW * len(how["names"]) and _longest(lines, how["sep"].encode()) <= len(how["names"]):
        how = how | {"usecols": columns}
    piece = pd.read_csv(io.BytesIO(lines), header=None, **how)
    if zeros := _zero_columns(lines, how["sep"].encode()):
        piece.attrs[ZEROS] = {how["names"][column] for column in zeros}
    return piece


def _longest(lines: bytes, separator: bytes) -> int:
    """Of how many cells the longest line is, without quotes."""
    text = np.frombuffer(lines, np.uint8)
    ends = np.flatnonzero(text == 10)
    places = np.searchsorted(np.flatnonzero(text == separator[0]), np.r_[ends, len(text)])
    return 1 + int(np.diff(places, prepend=0).max())


def _zeros_ahead(lines: bytes, before: bytes) -> np.ndarray:
    """Places (m,) of zeros before a digit that begin a line, or follow one of these bytes or a blank."""
    text, places = np.frombuffer(b"\n" + lines, np.uint8), []
    if b" " in lines:
        before += b" "
    for first in range(0, len(lines) - 1, _BLOCK):
        some = text[first : first + _BLOCK + 2]
        begins = some[:-2] == 10
        for byte in before:
            begins |= some[:-2] == byte
        begins &= some[1:-1] == 48
        begins &= some[2:] - np.uint8(48) < 10
        if begins.any():
            places.append(first + np.flatnonzero(begins))
    return np.concatenate(places) if places else np.empty(0, np.int64)


def _zero_columns(lines: bytes, separator: bytes) -> set[int]:
    """Columns of cells that begin with a zero and a digit, where lines are rows."""
    places = _zeros_ahead(lines, separator)
    if not len(places):
        return set()
    text = np.frombuffer(lines, np.uint8)
    starts = np.r_[0, np.flatnonzero(text == 10) + 1]
    separators = np.flatnonzero(text == separator[0])
    line_starts = starts[np.searchsorted(starts, places, side="right") - 1]
    columns = np.searchsorted(separators, places) - np.searchsorted(separators, line_starts)
    return set(np.unique(columns).tolist())
