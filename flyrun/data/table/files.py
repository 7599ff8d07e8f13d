"""Tables on disk read piece by piece: CSV (also gzipped, tab- or semicolon-separated), Parquet, .npz.

A piece is a pandas frame of some rows of the columns asked for; its index counts the file's rows from 0 below
the header. A column without a name is called as pandas calls it, "Unnamed: 0".
"""

import contextlib
import io
import mmap
import re
import warnings
import zipfile
import zlib
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pandas as pd

from flyrun.children import cores
from flyrun.config.dataset import Table
from flyrun.data.table.formats import FORMATS, is_csv
from flyrun.errors import DataError
from flyrun.threads import ahead, in_order

_CELLS = 1 << 19  # values in a piece: what is worked out of it finds it in a cache
_BYTES = 1 << 21  # of text in a piece that a core parses
_TOO_LONG = "its rows have more values than the header has names"
_SEPARATORS = ",;\t|"
_NAMELESS = re.compile(r"Unnamed: \d+(\.\d+)*|__index_level_\d+__")


def is_nameless(name: str) -> bool:
    """Whether a column had no name, as an index that was written along."""
    return _NAMELESS.fullmatch(name) is not None


def names(path: Path) -> list[str]:
    """Columns of the file; DataError where it cannot be read or two have one name."""
    with _explained(path):
        found = _reader(path).names()
    repeated = sorted({name for name in found if found.count(name) > 1})
    if repeated:
        raise DataError(f"{path}: two columns are called {repeated[0]!r}; give each a name of its own")
    return found


def pieces(
    path: Path, columns: Sequence[str], options: Table, text: Collection[str]
) -> Iterator[pd.DataFrame]:
    """The columns asked for, some rows at a time, in this order; those in `text` as strings, stripped.

    options: decimal, the sign that a CSV file's numbers have; limit.
    """
    rows = max(1000, min(200_000, _CELLS // max(1, len(columns))))
    if options.limit is not None and options.missing == "refuse":  # rows that are not used are not looked at
        rows = min(rows, options.limit)
    with _explained(path):
        reader = _reader(path, options.decimal, options.limit is None)
        for piece in ahead(reader.pieces(list(columns), rows, set(text))):
            chosen = piece if list(piece.columns) == list(columns) else piece[list(columns)]
            yield _tidied(chosen, text) if text or not numbers_alone(chosen) else chosen


def numbers_alone(piece: pd.DataFrame) -> bool:
    """Whether every column holds numbers, none of them missing as an object would be."""
    return all(isinstance(dtype, np.dtype) and dtype.kind in "iuf" for dtype in piece.dtypes)


def _reader(path: Path, decimal: str = ".", whole: bool = True) -> Any:
    name = path.name.lower()
    if is_csv(path):
        return _Csv(path, decimal, whole)
    if name.endswith(".npz"):
        return _Npz(path)
    if name.endswith((".parquet", ".pq")):
        return _Parquet(path)
    raise DataError(f"{path}: is of no kind that can be read; it must end in {FORMATS}")


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Libraries' complaints about a file as one line."""
    try:
        yield
    # pandas' are ValueErrors, some of zipfile's RuntimeErrors
    except (OSError, ValueError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        remedy = "save it as UTF-8" if isinstance(error, UnicodeError) else "mend or write it again"
        raise DataError(f"{path}: cannot be read ({reason[:200]}); {remedy}") from error


class _Csv:
    """A text file: pieces of its bytes by all cores where lines are rows, else one after the other."""

    def __init__(self, path: Path, decimal: str, whole: bool):
        self.path, self.whole = path, whole
        self.options: dict[str, Any] = {"encoding": "utf-8-sig", "skipinitialspace": True, "decimal": decimal}

    def names(self) -> list[str]:
        # Without a header pandas renames no column that occurs twice.
        head = pd.read_csv(self.path, sep=self._separator(), header=None, nrows=1, dtype=str, **self.options)
        found = [str(name).strip() for name in head.iloc[0].fillna("")]
        for k, name in enumerate(found):
            if not name:
                found[k] = f"Unnamed: {k}"
                while found.count(found[k]) > 1:
                    found[k] += ".1"
        return found

    def pieces(self, columns: list[str], rows: int, text: set[str]) -> Iterator[pd.DataFrame]:
        # All columns are parsed: told to use some, pandas would cut rows that are longer than the header.
        how = self.options | {
            "sep": self._separator(),
            "names": self.names(),
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
                for piece in in_order(partial(_parsed, how), iter(partial(_lines, file), b""), cores()):
                    piece.index = range(first, first + len(piece))
                    first += len(piece)
                    yield piece
        except ValueError:
            for _ in self._one_by_one(rows, how):  # which can name the line
                pass
            raise

    def _lines_are_rows(self) -> bool:
        """Whether every line feed ends a row, and all rows are wanted; nothing quoted may span two lines."""
        if not self.whole or self.path.name.lower().endswith(".gz"):
            return False
        with open(self.path, "rb") as file:
            header = file.readline()
            if b"\r" in header.rstrip(b"\r\n") or header.count(b'"') % 2:
                return False
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                return content.find(b'"', len(header)) < 0

    def _one_by_one(self, rows: int, how: dict[str, Any]) -> Iterator[pd.DataFrame]:
        with pd.read_csv(self.path, header=0, chunksize=rows, **how) as reader:
            while (piece := self._next(reader)) is not None:
                yield piece

    def _next(self, reader: Any) -> pd.DataFrame | None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", pd.errors.ParserWarning)
                return next(reader, None)
        except pd.errors.ParserWarning:
            raise ValueError(_TOO_LONG) from None

    def _separator(self) -> str:
        """The one of , ; tab | that the header has most of."""
        with pd.io.common.get_handle(self.path, "r", encoding="utf-8-sig", compression="infer") as handle:
            head = str(handle.handle.readline())
        if not head.strip():
            raise DataError(f"{self.path}: begins with an empty line; the first line must name the columns")
        if head.lower().startswith("sep="):
            raise DataError(f"{self.path}: begins with a line {head.strip()!r} for spreadsheets; delete it")
        return max(_SEPARATORS, key=re.sub(r'"[^"]*"', "", head).count)


def _lines(file: BinaryIO) -> bytes:
    """The next whole lines."""
    return file.read(_BYTES) + file.readline()


def _parsed(how: dict[str, Any], lines: bytes) -> pd.DataFrame:
    """Rows without a header. Raises ValueError, also where pandas would only warn and cut the rows."""
    head = lines.lstrip(b"\r\n").partition(b"\n")[0]
    if head.count(how["sep"].encode()) >= len(how["names"]):
        raise ValueError(_TOO_LONG)
    how = how | {"encoding": "utf-8", "skipinitialspace": b" " in lines}  # looked for, they cost a fifth
    return pd.read_csv(io.BytesIO(lines), header=None, **how)


class _Parquet:
    def __init__(self, path: Path):
        try:
            import pyarrow.parquet as parquet  # late: an extra
        except ImportError:
            raise DataError(
                f"{path}: reading Parquet needs pyarrow; install it with `pip install 'flyrun[parquet]'`, "
                "or write the table as .csv or .npz"
            ) from None
        self.file = parquet.ParquetFile(path)

    def names(self) -> list[str]:
        return list(self.file.schema_arrow.names)

    def pieces(self, columns: list[str], rows: int, text: set[str]) -> Iterator[pd.DataFrame]:
        first = 0
        for batch in self.file.iter_batches(batch_size=rows, columns=columns):
            piece = batch.to_pandas(ignore_metadata=True)  # which would make its index of a column again
            piece.index = range(first, first + len(piece))
            first += len(piece)
            yield piece


class _Npz:
    """Each array of N rows is a column; one of shape (N, D) is D columns, name[0] … name[D-1]."""

    def __init__(self, path: Path):
        self.path = path
        self.members: dict[str, tuple[tuple[int, ...], bool, np.dtype]] = {}
        with zipfile.ZipFile(path) as archive:
            for entry in archive.namelist():
                if entry.endswith(".npy"):
                    with archive.open(entry) as stream:
                        self.members[entry.removesuffix(".npy")] = _header(stream, f"{path}: array {entry}")
        lengths = {name: shape[0] for name, (shape, *_) in self.members.items()}
        if len(set(lengths.values())) != 1:
            raise DataError(f"{path}: its arrays must all have one number of rows, not {lengths}")
        self.n_rows = next(iter(lengths.values()))

    def names(self) -> list[str]:
        return [column for name in self.members for column in self._columns(name)]

    def _columns(self, name: str) -> list[str]:
        shape = self.members[name][0]
        return [name] if len(shape) == 1 else [f"{name}[{d}]" for d in range(shape[1])]

    def pieces(self, columns: list[str], rows: int, text: set[str]) -> Iterator[pd.DataFrame]:
        used = [name for name in self.members if set(self._columns(name)) & set(columns)]
        with contextlib.ExitStack() as stack:
            archive = stack.enter_context(zipfile.ZipFile(self.path))
            readers = {name: self._rows(archive, stack, name) for name in used}
            for first in range(0, self.n_rows, rows):
                count = min(rows, self.n_rows - first)
                parts = {
                    column: values
                    for name, read in readers.items()
                    for column, values in zip(self._columns(name), read(count), strict=True)
                    if column in columns
                }
                yield pd.DataFrame(parts, index=range(first, first + count))

    def _rows(self, archive: zipfile.ZipFile, stack: contextlib.ExitStack, name: str) -> Any:
        """A function that reads the next so many rows of an array, column by column."""
        shape, fortran, dtype = self.members[name]
        if fortran and len(shape) == 2:  # such an array lies column after column: it is read whole
            with archive.open(f"{name}.npy") as whole:
                left = iter(np.lib.format.read_array(whole, allow_pickle=False))
            return lambda count: np.array([next(left) for _ in range(count)]).T
        stream = stack.enter_context(archive.open(f"{name}.npy"))
        _header(stream, name)
        width = shape[1] if len(shape) == 2 else 1

        def read(count: int) -> np.ndarray:
            content = stream.read(count * width * dtype.itemsize)
            if len(content) != count * width * dtype.itemsize:
                raise DataError(f"{self.path}: array {name} is cut short; write the file again")
            return np.frombuffer(content, dtype).reshape(count, width).T

        return read


def _header(stream: Any, what: str) -> tuple[tuple[int, ...], bool, np.dtype]:
    """(shape, Fortran order, type) of a .npy stream, which then stands at its values."""
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(stream)
    if len(shape) not in (1, 2) or dtype.kind in "OcV":
        raise DataError(f"{what}: must be numbers or text in one or two dimensions, not {dtype} {shape}")
    return shape, fortran, dtype


def _tidied(piece: pd.DataFrame, text: Collection[str]) -> pd.DataFrame:
    """Text stripped, blank cells missing; long and decimal numbers, to pandas objects, as floats."""
    columns = {}
    for name, values in piece.items():
        if name in text:
            # a whole number beside missing ones is a float in its piece, and an integer in others
            if values.dtype.kind == "f":
                words = values.map(lambda one: repr(float(one)).removesuffix(".0"))
            else:
                words = values.astype(str)
            values = words.where(values.notna())
        found = pd.api.types.infer_dtype(values) if values.dtype.kind == "O" else ""
        if found == "string":
            values = values.str.strip()
            values = values.mask(values == "")
        elif found in ("integer", "decimal"):
            values = values.astype(np.float64)
        columns[name] = values
    return pd.DataFrame(columns, index=piece.index)
