"""Tables on disk read piece by piece: CSV (also gzipped, tab- or semicolon-separated), Parquet, .npz.

A piece is a pandas frame of some rows of the columns asked for; its index counts the file's rows from 0 below
the header. A column without a name is called as pandas calls it, "Unnamed: 0".
"""

import base64
import contextlib
import zipfile
import zlib
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from flyrun.ground.errors import DataError
from flyrun.ground.threads import ahead
from flyrun.tables import frames, row_filter
from flyrun.tables.cells import LAST_EXACT, PARTS, is_complex
from flyrun.tables.disguised import encoding_of, refuse_disguised
from flyrun.tables.formats import ARROW, FORMATS, PARQUET, is_csv, remedy
from flyrun.tables.options import Table
from flyrun.tables.text_table import TextTable, record

if TYPE_CHECKING:
    import pyarrow.parquet as parquet

_CELLS = 1 << 19  # values in a piece: what is worked out of it finds it in a cache
_USUAL = Table()


def names(path: Path, options: Table = _USUAL) -> list[str]:
    """Columns of the file; DataError where it cannot be read or two have one name."""
    with _explained(path, options):
        if frames.find(path) is None:
            refuse_disguised(path)
        columns = _reader(path, options).names()
    repeated = sorted(name for name, times in Counter(columns).items() if times > 1)
    if repeated:
        raise DataError(f"{path}: two columns are called {repeated[0]!r}; give each a name of its own")
    return columns


def pieces(
    path: Path,
    columns: Sequence[str],
    options: Table,
    text: Collection[str],
    read: list[int] | None = None,
) -> Iterator[pd.DataFrame]:
    """The columns asked for, some rows at a time, in this order; those in `text` as strings, stripped.

    read: takes the rows of each piece, before options.where leaves some out.

    A piece's attrs[text_table.ZEROS] are columns of a CSV file in which a cell may begin with a zero and
    a digit, or text_table.ALL.
    """
    if options.where is not None:
        yield from _filtered(path, columns, options, text, [] if read is None else read)
        return
    rows = max(1000, min(200_000, _CELLS // max(1, len(columns))))
    if options.limit is not None and options.missing == "refuse":  # rows that are not used are not looked at
        rows = min(rows, options.limit)
    with _explained(path, options):
        reader = _reader(path, options)
        for piece in ahead(reader.pieces(list(columns), rows, set(text))):
            chosen = piece if list(piece.columns) == list(columns) else piece[list(columns)]
            yield _readied(chosen, path, options, text)


def of_parquet(
    file: "parquet.ParquetFile",
    path: str,
    columns: Sequence[str],
    options: Table,
    text: Collection[str],
    others: Sequence[str],
    rows: int,
) -> Iterator[tuple[pd.DataFrame, Any]]:
    """Pieces of a Parquet file that is open, as of `pieces`, and with each an Arrow table of other columns of
    its rows. path: as messages name it; rows: in a piece, at most.
    """
    for piece, beside in _Parquet(path, options, file).beside(list(columns), rows, set(text), others):
        yield _readied(piece, path, options, text), beside


def _readied(piece: pd.DataFrame, path: Path | str, options: Table, text: Collection[str]) -> pd.DataFrame:
    """As it is used: text stripped, missing values missing. DataError for complex numbers."""
    if text or not numbers_alone(piece):
        for name in piece:
            if name not in text and is_complex(piece[name]):
                what = f"{path}: {options.role(name)} {name}"
                raise DataError(f"{what} holds complex numbers; {PARTS}, or {options.without(name)}")
        piece = _tidied(piece, text)
    return _without(options.na, piece) if options.na else piece


def _filtered(
    path: Path, columns: Sequence[str], options: Table, text: Collection[str], read: list[int]
) -> Iterator[pd.DataFrame]:
    """Those rows of the pieces that options.where asks for. DataError where there is none."""
    kept, rows = row_filter.read(str(options.where)), 0
    every = replace(options, where=None, limit=None)
    for piece in pieces(path, [*dict.fromkeys([*columns, *kept.columns])], every, text):
        read.append(len(piece))
        if len(chosen := piece[kept.mask(piece, str(path))]):
            rows += len(chosen)
            yield chosen[[*columns]]
    if not rows:
        raise DataError(
            f"{path}: none of {sum(read):,} rows is such that {options.where}; compare with values that the "
            "column holds"
        )


def cell(what: Path | str, row: int, column: str, options: Table) -> str:
    """What stands in a cell of a text file, without blanks around; nothing for other files."""
    _, cells = record(Path(what), row, options)
    place = names(Path(what), options).index(column) if cells else 0
    return cells[place].strip() if place < len(cells) else ""


def numbers_alone(piece: pd.DataFrame) -> bool:
    """Whether every column holds numbers, none of them missing as an object would be."""
    return all(isinstance(dtype, np.dtype) and dtype.kind in "iuf" for dtype in piece.dtypes)


def _reader(path: Path, options: Table) -> Any:
    name = path.name.lower()
    if (frame := frames.find(path)) is not None:
        return frame
    if is_csv(path):
        return TextTable(path, options)
    if name.endswith(".npz"):
        return _Npz(path)
    if name.endswith(PARQUET):
        return _Parquet(path, options)
    if name.endswith(ARROW):
        return _Arrow(path, options)
    raise DataError(f"{path}: is of no kind that can be read; it must end in {FORMATS}{remedy(path)}")


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


class _Parquet:
    def __init__(self, path: Path | str, options: Table, file: "parquet.ParquetFile | None" = None):
        self.path, self.options = path, options
        self.threads = file is None  # of who gives an open file each core has one to read
        try:
            self.file = file or self._opened()
        except ImportError:
            raise DataError(
                f"{path}: reading {Path(path).suffix} needs pyarrow; install it with "
                "`pip install 'flyrun[parquet]'`, or write the table as .csv or .npz"
            ) from None

    def _opened(self) -> Any:
        import pyarrow.parquet as parquet  # late: an extra

        return parquet.ParquetFile(self.path)

    def _schema(self) -> Any:
        return self.file.schema_arrow

    def _batches(self, rows: int, columns: list[str]) -> Iterator[Any]:
        yield from self.file.iter_batches(batch_size=rows, columns=columns, use_threads=self.threads)

    def names(self) -> list[str]:
        return list(self._schema().names)

    def _as_written(self) -> dict[str, Any]:
        """Type of each column as whoever wrote the file had it."""
        import pyarrow as arrow  # late: an extra

        schema = self._schema()
        if (kept := (self.file.metadata.metadata or {}).get(b"ARROW:schema")) is not None:
            with contextlib.suppress(arrow.ArrowInvalid):
                schema = arrow.ipc.read_schema(arrow.py_buffer(base64.b64decode(kept)))
        return dict(zip(schema.names, schema.types, strict=True))

    def pieces(self, columns: list[str], rows: int, text: set[str]) -> Iterator[pd.DataFrame]:
        for piece, _ in self.beside(columns, rows, text):
            yield piece

    def beside(
        self, columns: list[str], rows: int, text: set[str], others: Sequence[str] = ()
    ) -> Iterator[tuple[pd.DataFrame, Any]]:
        """Pieces, and other columns of the same rows as Arrow has them."""
        import pyarrow as arrow  # late: an extra

        first, types, stored, now = 0, arrow.types, self._as_written(), self._schema()
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
        integers = {name for name in columns if name in text and types.is_integer(stored[name])}
        for batch in self._batches(rows, [*dict.fromkeys([*columns, *others])]):
            whole = arrow.Table.from_batches([batch])
            table = whole.select(columns)
            for name in named | integers:
                cells = table[name].cast(arrow.string())
                cells = cells.dictionary_encode() if name in named else cells
                table = table.set_column(table.column_names.index(name), name, cells)
            piece = table.to_pandas(ignore_metadata=True)  # which would make its index of a column again
            for name in columns:
                became_floats = types.is_integer(stored[name]) and piece[name].dtype.kind == "f"
                if became_floats and piece[name].abs().max() >= LAST_EXACT:
                    exact = {arrow.int64(): pd.Int64Dtype(), arrow.uint64(): pd.UInt64Dtype()}
                    piece[name] = table[name].to_pandas(types_mapper=exact.get)
            piece.index = range(first, first + len(piece))
            first += len(piece)
            yield piece, whole.select(list(others))


class _Arrow(_Parquet):
    """Batches as they were written, each cut into pieces."""

    def _opened(self) -> Any:
        import pyarrow as arrow  # late: an extra

        return arrow.ipc.open_file(arrow.memory_map(str(self.path)))

    def _schema(self) -> Any:
        return self.file.schema

    def _as_written(self) -> dict[str, Any]:
        return dict(zip(self.file.schema.names, self.file.schema.types, strict=True))

    def _batches(self, rows: int, columns: list[str]) -> Iterator[Any]:
        for number in range(self.file.num_record_batches):
            batch = self.file.get_batch(number).select(columns)
            for first in range(0, batch.num_rows, rows):
                yield batch.slice(first, rows)


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


def _header(stream: IO[bytes], what: str) -> tuple[tuple[int, ...], bool, np.dtype]:
    """(shape, Fortran order, type) of a .npy stream, which then stands at its values."""
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(stream)
    if len(shape) not in (1, 2) or dtype.kind in "OcV":
        mend = f"; {PARTS}" if dtype.kind == "c" else ""
        fault = "must be numbers or text in one or two dimensions"
        raise DataError(f"{what}: {fault}, not {dtype} {shape}{mend}")
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
                spelled = [str(value).removesuffix(".0") for value in values.to_numpy()]
                texts = pd.Series(spelled, values.index)
            else:
                texts = values.astype(str)
            values = texts.where(values.notna())
        kind = pd.api.types.infer_dtype(values) if values.dtype.kind == "O" else ""
        if kind == "string":
            values = values.str.strip()
            values = values.mask(values == "")
        elif kind in ("integer", "decimal"):
            values = values.astype(np.float64)
        columns[name] = values
    tidied = pd.DataFrame(columns, index=piece.index)
    tidied.attrs = piece.attrs
    return tidied


def _without(missing: Collection[str], piece: pd.DataFrame) -> pd.DataFrame:
    """The piece with these words missing, and the numbers that they are."""
    numbers = set()
    for word in missing:
        with contextlib.suppress(ValueError):
            numbers.add(float(word))
    return piece.mask(piece.isin([*missing, *numbers]))
