"""A table in many Parquet files: their row groups, numbered, and the columns of one of them.

Files are in the order of their names. What a worker reads is checked against what was there at the start.
"""

import contextlib
import glob
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import numpy as np

from flyrun.config.schema import did_you_mean, listing, quoted
from flyrun.errors import DataError
from flyrun.fitting.request import TypedTable
from flyrun.fitting.scan import addresses

_ENDINGS = (".parquet", ".pq")
_MOST_NAMED = 6
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_LARGE, _PIECE = 1 << 28, 1 << 20  # bytes of a row group that is read in pieces, and rows of one

#: of columns of text, in order
Levels = Mapping[str, tuple[str, ...]]


class File(NamedTuple):
    """A file as first looked at. footer: digest of what Parquet says of its columns at its end.

    named: columns that its folders' names hold, and their values.
    """

    path: str
    size: int
    changed_ns: int
    footer: str
    named: tuple[tuple[str, str | None], ...] = ()


class Block(NamedTuple):
    """A row group. number: among all; group: in its file; first: number of its first row among all."""

    number: int
    file: File
    group: int
    rows: int
    first: int


class Part(NamedTuple):
    """Some rows of a row group. columns: (n,) each, numbers as they stand, of text the numbers of its levels,
    NaN for what is missing; place: (n,), the rows' numbers in the row group; number: of parts before it;
    share: of the row group's rows, where the part stands for them all.
    """

    columns: list[np.ndarray]
    place: np.ndarray
    number: int = 0
    share: float = 1.0


class Shards(NamedTuple):
    """A table. given: as it was named; kinds: of each column, "number", "boolean", "text", "other", or of
    numbers that are to be categories "category".
    """

    given: str
    files: list[File]
    blocks: list[Block]
    kinds: dict[str, str]

    @property
    def rows(self) -> int:
        """Of all files."""
        return sum(block.rows for block in self.blocks)

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    @property
    def digest(self) -> str:
        """Of all files' names and fingerprints."""
        return hashlib.sha256(repr(self.files).encode()).hexdigest()


def tree(parts: list[Any]) -> Any:
    """The sum of parts, neighbours first: the same bits whoever worked out which part."""
    while len(parts) > 1:
        pairs = [parts[k : k + 2] for k in range(0, len(parts), 2)]
        parts = [pair[0].plus(pair[1]) if len(pair) > 1 else pair[0] for pair in pairs]
    return parts[0]


def several(given: str) -> bool:
    """Whether this names files by a folder, a pattern or an address; one file may be so large that it does,
    too.
    """
    path = Path(given).expanduser()
    if path.is_dir():
        return any(one.suffix in _ENDINGS for one in path.rglob("*"))
    return addresses.is_address(given) or (not path.is_file() and glob.has_magic(given))


def find(given: str) -> Shards:
    """The files of a folder or of a pattern, or one file. Raises DataError naming file and remedy."""
    try:
        import pyarrow.parquet as parquet  # late: an extra
    except ImportError as error:
        needed = "needs pyarrow; install it with `pip install 'flyrun[parquet]'`"
        raise DataError(f"{given}: reading Parquet {needed}") from error
    files, blocks = list[File](), list[Block]()
    kinds, first, paths = dict[str, str](), 0, _paths(given)
    named = {path: _named(given, path) for path in paths}
    for path in paths:
        file = _file(path, named[path])
        try:
            with addresses.opened(path) as source, parquet.ParquetFile(source) as opened:
                schema, about = opened.schema_arrow, opened.metadata
        except (OSError, ValueError) as error:  # Arrow's errors are among them
            said = " ".join(str(error).split())[:160]
            raise DataError(f"{path}: is no whole Parquet file ({said}); write it again") from error
        own = {field.name: _kind(field.type) for field in schema}
        if both := next((name for name, _ in file.named if name in own), None):
            raise DataError(f"{path}: has a column {both!r}, which its folder's name holds, too; rename one")
        own |= {name: _kind_of_words(name, named.values()) for name, _ in file.named}
        kinds = kinds or own
        _refuse_others(path, own, files[0].path if files else path, kinds)
        files.append(file)
        for group in range(about.num_row_groups):
            if rows := about.row_group(group).num_rows:
                blocks.append(Block(len(blocks), file, group, rows, first))
                first += rows
    if not blocks:
        raise DataError(f"{given}: holds no rows; name a folder or a pattern of Parquet files with rows")
    return Shards(given, files, blocks, kinds)


def _paths(given: str) -> list[str]:
    found = addresses.listed(given)
    if len(found) != 1 or found[0] != given:  # one file may have any name
        found = [path for path in found if path.endswith(_ENDINGS)]
    if not found:
        said = "no Parquet file has such a name"
        raise DataError(
            f"{given}: {said}; name a folder of Parquet files or a pattern, as 'folder/*.parquet'"
        )
    return sorted(found)


def _named(given: str, path: str) -> tuple[tuple[str, str | None], ...]:
    """Columns that the names of folders hold, as land=no, below the given one or from a pattern on."""
    fixed = [*takewhile(lambda part: not glob.has_magic(part), Path(given).expanduser().parts)]
    folders = Path(path).parent.parts[len(fixed) :]
    pairs = (name.split("=", 1) for name in folders if "=" in name)
    return tuple((key, None if value == _NO_VALUE else unquote(value)) for key, value in pairs)


def _kind_of_words(name: str, named: Any) -> str:
    """Of a column that folders' names hold: numbers where all are."""
    values = [value for pairs in named for key, value in pairs if key == name and value is not None]
    try:
        return "number" if np.isfinite([float(value) for value in values]).all() else "text"
    except ValueError:
        return "text"


def _file(path: str, named: tuple[tuple[str, str | None], ...]) -> File:
    """Its state, and the digest of its end."""
    try:
        size, changed_ns = addresses.state(path)
        with addresses.opened(path) as file:
            file.seek(max(0, size - 8))
            length = int.from_bytes(file.read(4), "little")
            file.seek(max(0, size - 8 - length))
            footer = hashlib.sha256(file.read()).hexdigest()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error
    return File(path, size, changed_ns, footer, named)


def _kind(type_: Any) -> str:
    import pyarrow  # late: an extra

    is_ = pyarrow.types
    if is_.is_boolean(type_):
        return "boolean"
    if is_.is_dictionary(type_):
        return _kind(type_.value_type)
    if is_.is_string(type_) or is_.is_large_string(type_):
        return "text"
    return "number" if is_.is_integer(type_) or is_.is_floating(type_) else "other"


def _refuse_others(path: str, own: dict[str, str], first: str, kinds: dict[str, str]) -> None:
    """DataError where a file has other columns than the first."""
    for name, other, where in (
        *((name, path, first) for name in kinds if name not in own),
        *((name, first, path) for name in own if name not in kinds),
    ):
        raise DataError(
            f"{other}: has no column {name!r}, which {where} has; write both with the same columns, "
            f"or leave the file out of the pattern"
        )
    for name, kind in own.items():
        if kind != kinds[name]:
            words = {"number": "numbers", "boolean": "true and false", "text": "text", "other": "no numbers"}
            raise DataError(
                f"{path}: column {name!r} holds {words[kind]}, in {first} {words[kinds[name]]}; "
                "write both alike"
            )


def chosen(
    shards: Shards,
    target: str,
    features: tuple[str, ...] | None,
    drop: tuple[str, ...],
    beside: dict[str, str],
) -> list[str]:
    """The features' names, in the files' order. Raises DataError for ones that cannot be used."""
    for option, name in (
        ("target", target),
        *beside.items(),
        *(("features", name) for name in features or ()),
        *(("drop", name) for name in drop),
    ):
        _refuse_unknown(shards, option, name)
    wanted = [
        name
        for name in shards.kinds
        if name not in (target, *beside.values(), *drop) and (features is None or name in features)
    ]
    if other := [name for name in wanted if shards.kinds[name] == "other"]:
        raise DataError(
            f"{shards.given}: {listing(other[:_MOST_NAMED])} {'holds' if len(other) == 1 else 'hold'} "
            f"neither numbers nor text; leave out with --drop {quoted(','.join(other))}, or write numbers"
        )
    for option, name in (("target", target), *beside.items()):
        if shards.kinds[name] == "other" or (option != "target" and shards.kinds[name] == "text"):
            mend = ", as 0 and 1 for two classes" if option == "target" else ""
            raise DataError(f"--{option} {quoted(name)}: holds no numbers; write numbers{mend}")
    if not wanted:
        raise DataError(f"{shards.given}: no column is left to explain {target}")
    return wanted


def with_categories(shards: Shards, table: TypedTable) -> Shards:
    """The same whose numbers of `categorical` are categories. DataError for what cannot be one."""
    for name in table.categorical:
        _refuse_unknown(shards, "categorical", name)
        if (role := table.role(name)) != "column":
            raise DataError(f"--categorical {quoted(name)}: is the {role}; leave it out there")
        if (kind := shards.kinds[name]) in ("boolean", "other"):
            said = "true and false, two values" if kind == "boolean" else "neither numbers nor text"
            raise DataError(f"--categorical {quoted(name)}: holds {said}; leave it out there")
    numbers = [name for name in table.categorical if shards.kinds[name] == "number"]
    return shards._replace(kinds=shards.kinds | dict.fromkeys(numbers, "category"))


def _refuse_unknown(shards: Shards, option: str, name: str) -> None:
    if name not in shards.kinds:
        close = did_you_mean(name, shards.kinds)
        shown = listing(shards.kinds) if len(shards.kinds) <= _MOST_NAMED else "; see the files' columns"
        raise DataError(f"--{option} {quoted(name)}: no such column{close}; there are {shown}")


def levels_of(block: Block, columns: tuple[str, ...]) -> dict[str, list[str]]:
    """The values of columns of categories in a row group, as words."""
    each = zip(columns, coded(block, columns), strict=True)
    return {name: [words[k] for k in np.unique(codes) if k >= 0] for name, (words, codes) in each}


def coded(block: Block, columns: tuple[str, ...]) -> list[tuple[list[str], np.ndarray]]:
    """Columns of a row group as words, each once, and their numbers, (n,); −1 for what is missing."""
    import pyarrow.compute  # late: an extra

    named, inside = dict(block.file.named), _inside(block, columns)
    with _opened(block, inside) as file:
        table = file.read_row_group(block.group, columns=inside, use_threads=False)
    found = []
    for name in columns:
        if name in named:
            word = named[name]
            found.append(([word or ""], np.full(block.rows, -1 if word is None else 0)))
            continue
        column = table.column(name)
        if pyarrow.types.is_floating(column.type):
            column = pyarrow.compute.if_else(pyarrow.compute.is_nan(column), None, column)
        if not pyarrow.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        whole = column.unify_dictionaries().combine_chunks()
        words = whole.dictionary.cast(pyarrow.string()).to_pylist()
        found.append((words, whole.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)))
    return found


def parts(block: Block, columns: tuple[str, ...], levels: Levels) -> Iterator[Part]:
    """Columns of a row group; all rows at once where they are not too many.

    Raises DataError where the file has changed, or cannot be read.
    """
    names = _inside(block, columns)
    with _opened(block, _inside(block, levels)) as file:
        if 4 * block.rows * len(names) <= _LARGE:
            found: Any = [file.read_row_group(block.group, columns=names, use_threads=False)]
        else:
            found = file.iter_batches(_PIECE, [block.group], names, use_threads=False)
        first = 0
        for number, part in enumerate(found):
            yield Part(_columns(block, columns, levels, part), np.arange(first, first + len(part)), number)
            first += len(part)


def head(block: Block, columns: tuple[str, ...], levels: Levels, most: int, by: tuple[str, ...] = ()) -> Part:
    """The first rows of a row group where they look like the others: in each column of numbers they span half
    of what the file says of all, in those of `by` all of it. Else all rows. Errors as of `parts`.
    """
    if most < block.rows:
        with _opened(block, _inside(block, levels)) as file:
            said = _spans(file.metadata.row_group(block.group))
            some = file.iter_batches(most, [block.group], _inside(block, columns), use_threads=False)
            found = _columns(block, columns, levels, next(some))
        inside = {*_inside(block, columns)}
        if all(
            _has_ends(values, said.get(name), levels[name])
            if name in by
            else _spanned(values, said.get(name))
            for name, values in zip(columns, found, strict=True)
            if name in inside and (name in by or name not in levels)
        ):
            return Part(found, np.arange(len(found[-1])), share=len(found[-1]) / block.rows)
    each = list(parts(block, columns, levels))
    both = [np.concatenate(own) for own in zip(*(part.columns for part in each), strict=True)]
    return Part(both, np.arange(block.rows))


def _inside(block: Block, columns: Iterable[str]) -> list[str]:
    """Columns that the file itself holds."""
    named = dict(block.file.named)
    return [name for name in columns if name not in named]


def _columns(block: Block, columns: tuple[str, ...], levels: Levels, part: Any) -> list[np.ndarray]:
    """Of some rows of a row group."""
    named, found = dict(block.file.named), []
    for name in columns:
        if name not in named:
            column = part.column(name)
            found.append(_codes(column, levels[name]) if name in levels else _numbers(column))
        elif (value := named[name]) is None:
            found.append(np.full(len(part), np.nan))
        else:
            number = levels[name].index(value) if name in levels else float(value)
            found.append(np.full(len(part), number, np.float64))
    return found


def _spans(about: Any) -> dict[str, tuple[Any, Any]]:
    """Of a row group's columns: the least and the greatest value."""
    found = {}
    for k in range(about.num_columns):
        column = about.column(k)
        if (told := column.statistics) is not None and told.has_min_max:
            found[column.path_in_schema] = told.min, told.max
    return found


def _spanned(values: np.ndarray, span: tuple[Any, Any] | None) -> bool:
    """Whether numbers span half of that."""
    finite = values[np.isfinite(values)]
    try:
        return span is not None and len(finite) > 0 and np.ptp(finite) >= 0.5 * (span[1] - span[0])
    except TypeError:  # of what are no numbers
        return False


def _has_ends(codes: np.ndarray, span: tuple[Any, Any] | None, levels: tuple[str, ...]) -> bool:
    """Whether numbers of levels have the least and the greatest among them."""
    return {str(one) for one in span or ("",)} <= {levels[int(k)] for k in np.unique(codes[codes >= 0])}


@contextlib.contextmanager
def _opened(block: Block, text: Iterable[str] = ()) -> Iterator[Any]:
    """Its file, if it is as it was. text: columns of it that are read as numbers of their levels."""
    import pyarrow.parquet as parquet  # late: an extra

    file = block.file
    try:
        if addresses.state(file.path) != (file.size, file.changed_ns):
            raise DataError(
                f"{file.path}: changed while it was in use; wait until it is written, then give the "
                "command again"
            )
        near = not addresses.is_address(file.path)
        source = file.path if near else addresses.opened(file.path)
        with parquet.ParquetFile(
            source,
            memory_map=near,
            pre_buffer=not near,
            page_checksum_verification=True,
            read_dictionary=list(text),
        ) as opened:
            yield opened
    except (OSError, ValueError) as error:
        said = " ".join(str(error).split())[:160]
        raise DataError(f"{file.path}: row group {block.group} cannot be read ({said})") from error


def _numbers(column: Any) -> np.ndarray:
    parts = getattr(column, "chunks", [column])
    chunks = [part.to_numpy(zero_copy_only=False) for part in parts]
    found = chunks[0] if len(chunks) == 1 else np.concatenate(chunks)
    return found.astype(np.float64) if found.dtype.kind not in "iuf" else found


def _codes(column: Any, levels: tuple[str, ...]) -> np.ndarray:
    """Numbers of the levels of categories, NaN for what is missing, or is none of them."""
    import pyarrow.compute  # late: an extra

    known, found = pyarrow.array(levels, pyarrow.string()), []
    for chunk in getattr(column, "chunks", [column]):
        coded = chunk if pyarrow.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
        texts = coded.dictionary.cast(known.type)
        places = pyarrow.compute.index_in(texts, value_set=known).to_numpy(zero_copy_only=False)
        places = np.append(np.asarray(places, np.float64), np.nan)  # the last of what is missing
        index = coded.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False)
        found.append(places[index.astype(np.int64)])
    return np.concatenate(found) if found else np.empty(0)
