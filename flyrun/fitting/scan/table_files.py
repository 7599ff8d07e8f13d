"""A table in many Parquet files: which files there are, their row groups, numbered, and their columns' kinds.

Files are in the order of their names.
"""

import glob
import hashlib
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import numpy as np

from flyrun.fitting.request import TypedTable
from flyrun.fitting.scan import addresses
from flyrun.ground.errors import DataError
from flyrun.ground.schema import did_you_mean, listing, quoted
from flyrun.tables.layout import is_nameless
from flyrun.tables.options import Table

_ENDINGS = (".parquet", ".pq")
_MOST_NAMED = 6
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


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


class Shards(NamedTuple):
    """A table. given: as it was named; kinds: of each column, "number", "boolean", "text", "other", or of
    numbers that are to be categories "category".  counting: columns without a name that count the rows of
    each row group, as an index does that was written along.
    """

    given: str
    files: list[File]
    blocks: list[Block]
    kinds: dict[str, str]
    counting: tuple[str, ...] = ()

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


def several(given: str) -> bool:
    """Whether this names files by a folder, a pattern or an address; one file may be so large that it does,
    too.
    """
    path = Path(given).expanduser()
    if path.is_dir():
        return any(file.suffix in _ENDINGS for file in path.rglob("*"))
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
    counting: set[str] | None = None
    for path in paths:
        file = _file(path, named[path])
        try:
            with addresses.opened(path) as source, parquet.ParquetFile(source) as opened:
                schema, about = opened.schema_arrow, opened.metadata
        except (OSError, ValueError) as error:  # Arrow's errors are among them
            reason = " ".join(str(error).split())[:160]
            what = f"is no whole Parquet file ({reason}); write it again"
            if not path.endswith(_ENDINGS):
                what = (
                    "is no Parquet file, and a scan, of many files or on executor=dask, reads no other; "
                    "write it as one, or fit this file alone without executor=dask"
                )
            raise DataError(f"{path}: {what}") from error
        file_kinds = {field.name: _kind(field.type) for field in schema}
        if both := next((name for name, _ in file.named if name in file_kinds), None):
            raise DataError(f"{path}: has a column {both!r}, which its folder's name holds, too; rename one")
        file_kinds |= {name: _kind_of_words(name, named) for name, _ in file.named}
        kinds = kinds or file_kinds
        _refuse_others(path, file_kinds, files[0].path if files else path, kinds)
        files.append(file)
        for group in range(about.num_row_groups):
            if rows := about.row_group(group).num_rows:
                count = _counting(about.row_group(group))
                counting = count if counting is None else counting & count
                blocks.append(Block(len(blocks), file, group, rows, first))
                first += rows
    if not blocks:
        raise DataError(f"{given}: holds no rows; name a folder or a pattern of Parquet files with rows")
    return Shards(given, files, blocks, kinds, tuple(sorted(counting or ())))


def _paths(given: str) -> list[str]:
    paths = addresses.listed(given)
    if len(paths) != 1 or paths[0] != given:  # one file may have any name
        paths = [path for path in paths if path.endswith(_ENDINGS)]
    if not paths:
        raise DataError(
            f"{given}: no Parquet file has such a name; name a folder of Parquet files or a pattern, as "
            "'folder/*.parquet'"
        )
    return sorted(paths)


def _named(given: str, path: str) -> tuple[tuple[str, str | None], ...]:
    """Columns that the names of folders hold, as land=no, below the given one or from a pattern on."""
    fixed = [*takewhile(lambda part: not glob.has_magic(part), Path(given).expanduser().parts)]
    folders = Path(path).parent.parts[len(fixed) :]
    pairs = (name.split("=", 1) for name in folders if "=" in name)
    return tuple((key, None if value == _NO_VALUE else unquote(value)) for key, value in pairs)


def _kind_of_words(name: str, named: dict[str, tuple[tuple[str, str | None], ...]]) -> str:
    """Of a column that folders' names hold: numbers where all are."""
    values = [value for pairs in named.values() for key, value in pairs if key == name and value is not None]
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


def _counting(group: Any) -> set[str]:
    """Columns of a row group without a name whose ends are as far apart as numbers of its rows."""
    counting = set()
    for column in map(group.column, range(group.num_columns)):
        ends = column.statistics
        if is_nameless(column.path_in_schema) and ends is not None and ends.has_min_max:
            apart = ends.max - ends.min if isinstance(ends.max, int) else None
            counting |= {column.path_in_schema} if apart == group.num_rows - 1 else set()
    return counting


def left_out(shards: Shards, table: Table) -> list[str]:
    """Columns that are left out for they count the rows, and nothing names them."""
    if table.features is not None or table.formula is not None:
        return []
    return [name for name in shards.counting if name not in table.drop and table.role(name) == "column"]


def _refuse_others(path: str, file_kinds: dict[str, str], first: str, kinds: dict[str, str]) -> None:
    """DataError where a file has other columns than the first."""
    for name, other, where in (
        *((name, path, first) for name in kinds if name not in file_kinds),
        *((name, first, path) for name in file_kinds if name not in kinds),
    ):
        raise DataError(
            f"{other}: has no column {name!r}, which {where} has; write both with the same columns, "
            f"or leave the file out of the pattern"
        )
    for name, kind in file_kinds.items():
        if kind != kinds[name]:
            nouns = {"number": "numbers", "boolean": "true and false", "text": "text", "other": "no numbers"}
            raise DataError(
                f"{path}: column {name!r} holds {nouns[kind]}, in {first} {nouns[kinds[name]]}; "
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
        if name not in (target, *beside.values(), *drop)
        and (name not in shards.counting if features is None else name in features)
    ]
    if index := next((name for name in wanted if features is None and is_nameless(name)), None):
        raise DataError(
            f"{shards.given}: column {index} has no name of its own, as an index that was written along; "
            f"name it in the files, or leave it out with --drop {quoted(index)}"
        )
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
    """The same, in which numbers of `categorical` and `order` are categories. DataError for what is none."""
    for name in table.categorical:
        _refuse_unknown(shards, "categorical", name)
        if (role := table.role(name)) != "column":
            raise DataError(f"--categorical {quoted(name)}: is the {role}; leave it out there")
        if (kind := shards.kinds[name]) in ("boolean", "other"):
            contents = "true and false, two values" if kind == "boolean" else "neither numbers nor text"
            raise DataError(f"--categorical {quoted(name)}: holds {contents}; leave it out there")
    for name in table.numeric:
        _refuse_unknown(shards, "numeric", name)
    in_order = [name for name in shards.kinds if table.order_of(name)]
    numbers = [name for name in (*table.categorical, *in_order) if shards.kinds[name] == "number"]
    return shards._replace(kinds=shards.kinds | dict.fromkeys(numbers, "category"))


def _refuse_unknown(shards: Shards, option: str, name: str) -> None:
    if name not in shards.kinds:
        close = did_you_mean(name, shards.kinds)
        first, more = [*shards.kinds][:_MOST_NAMED], len(shards.kinds) - _MOST_NAMED
        shown = listing([*first, f"{more} more"] if more > 0 else first)
        raise DataError(f"--{option} {quoted(name)}: no such column{close}; there are {shown}")
