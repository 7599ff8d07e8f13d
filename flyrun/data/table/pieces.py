"""Tables on disk read piece by piece: CSV (also gzipped, tab- or semicolon-separated), Parquet, .npz.

A piece is a pandas frame of some rows of the columns asked for; its index counts the file's rows from 0 below
the header. A column without a name is called as pandas calls it, "Unnamed: 0".
"""

import base64
import codecs
import contextlib
import csv
import gzip
import io
import itertools
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
from flyrun.data.table.cells import LAST_EXACT, kind
from flyrun.data.table.disguised import encoding_of, refuse_disguised
from flyrun.data.table.formats import FORMATS, is_csv
from flyrun.errors import DataError
from flyrun.threads import ahead, in_order

_CELLS = 1 << 19  # values in a piece: what is worked out of it finds it in a cache
_BYTES = 1 << 21  # of text in a piece that a core parses
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
_USUAL = Table()
_NAMELESS = re.compile(r"Unnamed: \d+(\.\d+)*|__index_level_\d+__")


def is_nameless(name: str) -> bool:
    """Whether a column had no name, as an index that was written along."""
    return _NAMELESS.fullmatch(name) is not None


def names(path: Path, options: Table = _USUAL) -> list[str]:
    """Columns of the file; DataError where it cannot be read or two have one name."""
    with _explained(path, options):
        refuse_disguised(path)
        found = _reader(path, options).names()
    repeated = sorted({name for name in found if found.count(name) > 1})
    if repeated:
        raise DataError(f"{path}: two columns are called {repeated[0]!r}; give each a name of its own")
    return found


def pieces(
    path: Path, columns: Sequence[str], options: Table, text: Collection[str]
) -> Iterator[pd.DataFrame]:
    """The columns asked for, some rows at a time, in this order; those in `text` as strings, stripped.

    A piece's attrs[ZEROS] are columns of a CSV file in which a cell may begin with a zero and a digit,
    or ALL.
    """
    rows = max(1000, min(200_000, _CELLS // max(1, len(columns))))
    if options.limit is not None and options.missing == "refuse":  # rows that are not used are not looked at
        rows = min(rows, options.limit)
    with _explained(path, options):
        reader = _reader(path, options)
        for piece in ahead(reader.pieces(list(columns), rows, set(text))):
            chosen = piece if list(piece.columns) == list(columns) else piece[list(columns)]
            chosen = chosen if not text and numbers_alone(chosen) else _tidied(chosen, text)
            yield _without(options.na, chosen) if options.na else chosen


def place(what: Path | str, row: int, options: Table) -> str:
    """A row as a person finds it: a text file's by its line."""
    line, _ = _record(Path(what), row, options)
    return f"row {row} (line {line} of the file)" if line else f"row {row} (rows count from 0)"


def cell(what: Path | str, row: int, column: str, options: Table) -> str:
    """What stands in a cell of a text file, without blanks around; nothing for other files."""
    _, cells = _record(Path(what), row, options)
    place = names(Path(what), options).index(column) if cells else 0
    return cells[place].strip() if place < len(cells) else ""


def _record(path: Path, row: int, options: Table) -> tuple[int, list[str]]:
    """(line, cells) of a row of a text file; of others (0, [])."""
    if is_csv(path):
        reader = _Csv(path, options)
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


def numbers_alone(piece: pd.DataFrame) -> bool:
    """Whether every column holds numbers, none of them missing as an object would be."""
    return all(isinstance(dtype, np.dtype) and dtype.kind in "iuf" for dtype in piece.dtypes)


def _reader(path: Path, options: Table) -> Any:
    name = path.name.lower()
    if is_csv(path):
        return _Csv(path, options)
    if name.endswith(".npz"):
        return _Npz(path)
    if name.endswith((".parquet", ".pq")):
        return _Parquet(path, options)
    raise DataError(f"{path}: is of no kind that can be read; it must end in {FORMATS}")


@contextlib.contextmanager
def _explained(path: Path, options: Table) -> Iterator[None]:
    """Libraries' complaints about a file as one line."""
    try:
        yield
    except UnicodeError as error:
        guess = encoding_of(path)
        remedy = f"add {options.say('encoding', guess)}, or " if guess else ""
        raise DataError(
            f"{path}: is not in {options.encoding} ({error}); {remedy}save it as UTF-8"
        ) from error
    # pandas' are ValueErrors, some of zipfile's RuntimeErrors
    except (OSError, ValueError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DataError(f"{path}: cannot be read ({reason[:200]}); mend or write it again") from error


class _Csv:
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
        # Without a header pandas renames no column that occurs twice; a word in it is no missing value.
        how = {"sep": self.separator, "header": None, "nrows": 1, "dtype": str, "na_filter": False}
        head = pd.read_csv(self.path, **how, **self.options)
        found = [str(name).strip() for name in head.iloc[0]]
        for k, name in enumerate(found):
            if not name:
                found[k] = f"Unnamed: {k}"
                while found.count(found[k]) > 1:
                    found[k] += ".1"
        return found

    def pieces(self, columns: list[str], rows: int, text: set[str]) -> Iterator[pd.DataFrame]:
        # All columns are parsed: told to use some, pandas would cut rows that are longer than the header.
        found = self.names()
        how = self.options | self._missing(found)
        how |= {
            "sep": self.separator,
            "names": found,
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

    def _missing(self, found: list[str]) -> dict[str, Any]:
        """Which words are missing values: in columns that are said to be categories only those of `na`."""
        words, own = [*_MISSING, *self.table.na], ["", *self.table.na]
        kept = self.table.categorical
        by_name = {name: own if name in kept else words for name in found}
        return {"keep_default_na": False, "na_values": by_name if kept else words}

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
        begun = [[*one, *[""] * at] for one in rows if len(one) == len(numbers)] + [last] * whole
        return any(
            all(
                kind(cell.strip(), self.table.decimal) == "number"
                for cell in itertools.compress(one, numbers)
            )
            for one in begun
        )

    def _next(self, reader: Any) -> pd.DataFrame | None:
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


def _parsed(how: dict[str, Any], lines: bytes) -> pd.DataFrame:
    """Rows without a header. Raises ValueError, also where pandas would only warn and cut the rows."""
    head = lines.lstrip(b"\r\n").partition(b"\n")[0]
    if head.count(how["sep"].encode()) >= len(how["names"]):
        raise ValueError(_TOO_LONG)
    encoding = how["encoding"].removesuffix("-sig")
    how = how | {"encoding": encoding, "skipinitialspace": b" " in lines}  # looked for, they cost a fifth
    piece = pd.read_csv(io.BytesIO(lines), header=None, **how)
    if zeros := _zero_columns(lines, how["sep"].encode()):
        piece.attrs[ZEROS] = {how["names"][column] for column in zeros}
    return piece


def _zeros_ahead(lines: bytes, before: bytes) -> np.ndarray:
    """Places of zeros that a digit follows and that begin a line, or follow one of these bytes or a blank."""
    text, found = np.frombuffer(b"\n" + lines, np.uint8), []
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
            found.append(first + np.flatnonzero(begins))
    return np.concatenate(found) if found else np.empty(0, np.int64)


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


class _Parquet:
    def __init__(self, path: Path, options: Table):
        try:
            import pyarrow.parquet as parquet  # late: an extra
        except ImportError:
            raise DataError(
                f"{path}: reading Parquet needs pyarrow; install it with `pip install 'flyrun[parquet]'`, "
                "or write the table as .csv or .npz"
            ) from None
        self.path, self.options = path, options
        self.file = parquet.ParquetFile(path)

    def names(self) -> list[str]:
        return list(self.file.schema_arrow.names)

    def _as_written(self) -> dict[str, Any]:
        """Type of each column as whoever wrote the file had it."""
        import pyarrow as arrow  # late: an extra

        schema = self.file.schema_arrow
        if (kept := (self.file.metadata.metadata or {}).get(b"ARROW:schema")) is not None:
            with contextlib.suppress(arrow.ArrowInvalid):
                schema = arrow.ipc.read_schema(arrow.py_buffer(base64.b64decode(kept)))
        return dict(zip(schema.names, schema.types, strict=True))

    def pieces(self, columns: list[str], rows: int, text: set[str]) -> Iterator[pd.DataFrame]:
        import pyarrow as arrow  # late: an extra

        first, types, stored, now = 0, arrow.types, self._as_written(), self.file.schema_arrow
        for name in columns:
            is_bytes = types.is_binary(stored[name]) or types.is_large_binary(stored[name])
            if is_bytes or types.is_nested(stored[name]):
                raise DataError(
                    f"{self.path}: column {name} holds {stored[name]}, neither numbers nor words; "
                    f"write what is meant in columns of its own, or {self.options.without(name)}"
                )
        # Categories of numbers are stored as numbers. Whole numbers that are names must not become floats, as
        # pandas makes them beside missing ones, for these have not all their digits.
        named = {
            name
            for name in columns
            if types.is_dictionary(stored[name]) and not types.is_dictionary(now.field(name).type)
        }
        words = {name for name in columns if name in text and types.is_integer(stored[name])}
        for batch in self.file.iter_batches(batch_size=rows, columns=columns):
            table = arrow.Table.from_batches([batch])
            for name in named | words:
                cells = table[name].cast(arrow.string())
                cells = cells.dictionary_encode() if name in named else cells
                table = table.set_column(table.column_names.index(name), name, cells)
            piece = table.to_pandas(ignore_metadata=True)  # which would make its index of a column again
            for name in columns:
                became_floats = types.is_integer(stored[name]) and piece[name].dtype.kind == "f"
                if became_floats and piece[name].abs().max() >= LAST_EXACT:
                    whole = {arrow.int64(): pd.Int64Dtype(), arrow.uint64(): pd.UInt64Dtype()}
                    piece[name] = table[name].to_pandas(types_mapper=whole.get)
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
        if values.dtype.kind == "S":
            values = values.str.decode("utf-8")
        if name in text:
            # a whole number beside missing ones is a float in its piece, and an integer in others
            if values.dtype.kind == "f":
                words = pd.Series([str(one).removesuffix(".0") for one in values.to_numpy()], values.index)
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
    tidied = pd.DataFrame(columns, index=piece.index)
    tidied.attrs = piece.attrs
    return tidied


def _without(words: Collection[str], piece: pd.DataFrame) -> pd.DataFrame:
    """The piece with these words missing, and the numbers that they are."""
    numbers = set()
    for word in words:
        with contextlib.suppress(ValueError):
            numbers.add(float(word))
    return piece.mask(piece.isin([*words, *numbers]))
