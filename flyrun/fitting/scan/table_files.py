"""A table in many Parquet files: which files there are, their row groups, numbered, and their columns' kinds.

Files are in the order of their names.
"""

import glob
import hashlib
from collections.abc import Mapping
from decimal import Decimal
from itertools import takewhile
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import unquote

import numpy as np

from flyrun.fitting.request import TypedTable
from flyrun.fitting.scan import addresses
from flyrun.ground.errors import DataError
from flyrun.ground.schema import did_you_mean, listing, quoted
from flyrun.tables import row_filter
from flyrun.tables.formats import PARQUET
from flyrun.tables.layout import in_order, is_nameless
from flyrun.tables.options import Table

_MOST_NAMED = 6
_USUAL = Table()
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


class File(NamedTuple):
    """A file as first looked at. footer: digest of what Parquet says of its columns at its end.

    named: columns that its folders' names hold, and their values; na: words for missing values besides;
    where: which of its rows are used, where not all are.
    """

    path: str
    size: int
    changed_ns: int
    footer: str
    named: tuple[tuple[str, str | None], ...] = ()
    na: tuple[str, ...] = ()
    where: str = ""


class Block(NamedTuple):
    """A row group. number: among all; group: in its file; first: number of its first row among all."""

    number: int
    file: File
    group: int
    rows: int
    first: int

    def __str__(self) -> str:
        """As messages name it."""
        return f"{self.file.path}: row group {self.group}"


class Ends(NamedTuple):
    """The least and the greatest number of a column, as the files say, and the row groups they are in."""

    low: float
    of_low: Block
    high: float
    of_high: Block

    def plus(self, other: "Ends") -> "Ends":
        """Of both."""
        low = self if self.low <= other.low else other
        high = self if self.high >= other.high else other
        return Ends(low.low, low.of_low, high.high, high.of_high)


class Shards(NamedTuple):
    """A table. given: as it was named; kinds: of each column, "number", "boolean", "text", "other", or of
    numbers that are to be categories "category".  counting: columns that count the rows of each row group,
    as an index does that was written along.  faults: why columns that files do not share, or that hold what
    is no column of a regression, cannot be used.  ends: of numbers, where each row group says them.
    skipped: files that are left out by their folders' names.  of: rows that those used were chosen from.
    """

    given: str
    files: list[File]
    blocks: list[Block]
    kinds: dict[str, str]
    counting: tuple[str, ...] = ()
    faults: Mapping[str, str] = MappingProxyType({})
    ends: Mapping[str, Ends] = MappingProxyType({})
    skipped: int = 0
    of: int = 0

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
        return any(file.suffix in PARQUET for file in path.rglob("*"))
    return addresses.is_address(given) or (not path.is_file() and glob.has_magic(given))


def find(given: str, where: str | None = None) -> Shards:
    """The files of a folder or of a pattern, or one file; those alone in which `where` leaves rows.

    Raises DataError naming file and remedy.
    """
    try:
        import pyarrow.parquet as parquet  # late: an extra
    except ImportError as error:
        needed = "needs pyarrow; install it with `pip install 'flyrun[parquet]'`"
        raise DataError(f"{given}: reading Parquet {needed}") from error
    files, blocks, held = list[File](), list[Block](), dict[str, dict[str, str]]()
    first, paths = 0, _paths(given)
    named = {path: _named(given, path) for path in paths}
    of_file = _chosen_by_name(given, where, named)
    skipped, paths = len(paths) - len(of_file), [*of_file]
    counting: set[str] | None = None
    ends: dict[str, Ends] | None = None
    for path in paths:
        file = _file(path, named[path])._replace(where=of_file[path])
        try:
            with addresses.opened(path) as source, parquet.ParquetFile(source) as opened:
                schema, about = opened.schema_arrow, opened.metadata
        except (OSError, ValueError) as error:  # Arrow's errors are among them
            reason = " ".join(str(error).split())[:160]
            what = f"is no whole Parquet file ({reason}); write it again"
            if not path.endswith(PARQUET):
                what = (
                    "is no Parquet file, and a scan, of many files or on executor=dask, reads no other; "
                    "write it as one, or fit this file alone without executor=dask"
                )
            raise DataError(f"{path}: {what}") from error
        contents = {field.name: _contents(field.type) for field in schema}
        if both := next((name for name, _ in file.named if name in contents), None):
            raise DataError(f"{path}: has a column {both!r}, which its folder's name holds, too; rename one")
        held[path] = contents | {name: _contents_of_words(name, named) for name, _ in file.named}
        files.append(file)
        for group in range(about.num_row_groups):
            if rows := about.row_group(group).num_rows:
                block = Block(len(blocks), file, group, rows, first)
                here = _ends(about.row_group(group), block)
                whole = {name for name, both in here.items() if isinstance(both.low, int)}
                count = {name for name in whole if rows > 1 and here[name].high - here[name].low == rows - 1}
                counting = count if counting is None or rows == 1 else counting & count
                known = here if ends is None else ends
                ends = {name: known[name].plus(here[name]) for name in known.keys() & here}
                blocks.append(block)
                first += rows
    if not blocks:
        raise DataError(f"{given}: holds no rows; name a folder or a pattern of Parquet files with rows")
    kinds, faults = _agreed(held)
    counts = tuple(sorted(counting or ()))
    return Shards(given, files, blocks, kinds, counts, faults, ends or {}, skipped)


def _chosen_by_name(
    given: str, where: str | None, named: dict[str, tuple[tuple[str, str | None], ...]]
) -> dict[str, str]:
    """Files that may hold rows such as `where` asks for, and it where their folders' names do not say.

    DataError where there is no such file.
    """
    if where is None:
        return dict.fromkeys(named, "")
    asked, chosen = row_filter.read(where), {}
    for path, pairs in named.items():
        if (left := asked.known(dict(pairs), path)) is not False:
            chosen[path] = "" if left is True else where
    if not chosen:
        names = {name for pairs in named.values() for name, _ in pairs}
        held = {name: {str(dict(pairs).get(name)) for pairs in named.values()} for name in sorted(names)}
        shown = "; ".join(
            f"{name}: {listing(in_order(values)[:_MOST_NAMED])}" for name, values in held.items()
        )
        raise DataError(f"{given}: --where {quoted(where)}: no file is of such a folder; there are {shown}")
    return chosen


def _paths(given: str) -> list[str]:
    paths = addresses.listed(given)
    if len(paths) != 1 or paths[0] != given:  # one file may have any name
        paths = [path for path in paths if path.endswith(PARQUET)]
    if not paths:
        raise DataError(
            f"{given}: no Parquet file has such a name; name a folder of Parquet files or a pattern, as "
            "'folder/*.parquet'"
        )
    return sorted(paths)


def _named(given: str, path: str) -> tuple[tuple[str, str | None], ...]:
    """Columns that the names of folders hold, as land=no, below the given one or from a pattern on."""
    pairs = (name.split("=", 1) for name in Path(below(given, path)).parent.parts if "=" in name)
    return tuple((key, None if value == _NO_VALUE else unquote(value)) for key, value in pairs)


def below(given: str, path: str) -> str:
    """The path of a file below the given folder, or from the first folder on that a pattern leaves open."""
    parts = Path(path).parts
    return "/".join(parts[min(len(Path(root(given)).expanduser().parts), len(parts) - 1) :])


def root(given: str) -> str:
    """The given folder or file, or the last folder that a pattern names."""
    parts = [*takewhile(lambda part: not glob.has_magic(part), given.split("/"))]
    return "/".join(parts) or ("/" if given.startswith("/") else ".")


def _contents_of_words(name: str, named: dict[str, tuple[tuple[str, str | None], ...]]) -> str:
    """Of a column that folders' names hold: numbers where all are."""
    values = [value for pairs in named.values() for key, value in pairs if key == name and value is not None]
    try:
        return "numbers" if np.isfinite([float(value) for value in values]).all() else "text"
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


#: kinds of columns by what they hold
_KINDS = {"numbers": "number", "true and false": "boolean", "text": "text"}
_NULLS = "nothing but nulls"


def _contents(type_: Any) -> str:
    """What a column of an Arrow type holds, in words."""
    import pyarrow  # late: an extra

    is_ = pyarrow.types
    if is_.is_dictionary(type_):
        return _contents(type_.value_type)
    tests = {
        _NULLS: (is_.is_null,),
        "true and false": (is_.is_boolean,),
        "text": (is_.is_string, is_.is_large_string, is_.is_string_view),
        "numbers": (is_.is_integer, is_.is_floating, is_.is_decimal),
        "dates or times": (is_.is_temporal,),
        "lists or other nested values": (is_.is_nested,),
    }
    return next(
        (contents for contents, each in tests.items() if any(test(type_) for test in each)), str(type_)
    )


def _ends(group: Any, block: Block) -> dict[str, Ends]:
    """The least and the greatest number in columns of a row group, of those that have statistics."""
    ends = {}
    for column in map(group.column, range(group.num_columns)):
        held = column.statistics
        if held is None or not held.has_min_max or isinstance(held.max, bool):
            continue
        if isinstance(held.max, int | float | Decimal) and held.max == held.max:
            low, high = (each if isinstance(each, int) else float(each) for each in (held.min, held.max))
            ends[column.path_in_schema] = Ends(low, block, high, block)
    return ends


def _agreed(held: dict[str, dict[str, str]]) -> tuple[dict[str, str], dict[str, str]]:
    """Kinds of columns, and why some cannot be used. held: by path what columns hold, in words."""
    kinds, faults = dict[str, str](), dict[str, str]()
    for name in dict.fromkeys(name for contents in held.values() for name in contents):
        there = {path: contents[name] for path, contents in held.items() if name in contents}
        lack = next((path for path in held if path not in there), None)
        known = {path: kind for path, kind in there.items() if kind != _NULLS} or there
        first, what = next(iter(known.items()))
        kinds[name] = _KINDS.get(what, "other")
        other = next((path for path in known if known[path] != what), None)
        if lack is not None:
            count = f", as do {len(there):,} of {len(held):,} files" if len(held) > 2 else ""
            close = did_you_mean(name, held[lack])
            faults[name] = f"{lack}: has no column {name!r}, which {first} has{count}{close}; write it there"
        elif other is not None:
            faults[name] = (
                f"{other}: column {name!r} holds {known[other]}, in {first} {what}; write both alike"
            )
        elif kinds[name] == "other":
            mend = "write days since a date" if what == "dates or times" else "write numbers or text"
            faults[name] = f"{first}: column {name!r} holds {what}, neither numbers nor text; {mend}"
    return kinds, faults


def with_missing(shards: Shards, na: tuple[str, ...]) -> Shards:
    """The same, in which these words and numbers stand for missing values."""
    if not na:
        return shards
    of = {
        file.path: file._replace(
            na=na, named=tuple((name, None if word in na else word) for name, word in file.named)
        )
        for file in shards.files
    }
    blocks = [block._replace(file=of[block.file.path]) for block in shards.blocks]
    return shards._replace(files=[*of.values()], blocks=blocks)


def left_out(shards: Shards, table: Table) -> list[str]:
    """Columns that are left out for they count the rows, and nothing names them."""
    if table.features is not None or table.formula is not None:
        return []
    counting = filter(is_nameless, shards.counting)
    return [name for name in counting if name not in table.drop and table.role(name) == "column"]


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
    table: Table = _USUAL,
) -> list[str]:
    """The features' names, in the files' order. Raises DataError for ones that cannot be used.

    table: as it is typed, for what helps.
    """
    for option, name in (
        ("target", target),
        *beside.items(),
        *(("features", name) for name in features or ()),
        *(("drop", name) for name in drop),
    ):
        refuse_unknown(shards, option, name)
    wanted = [
        name
        for name in shards.kinds
        if name not in (target, *beside.values(), *drop)
        and (features is not None or name not in shards.counting or not is_nameless(name))
        and (features is None or name in features)
    ]
    if index := next((name for name in wanted if features is None and is_nameless(name)), None):
        raise DataError(
            f"{shards.given}: column {index} has no name of its own, as an index that was written along; "
            f"name it in the files, or leave it out with --drop {quoted(index)}"
        )
    for name in (target, *beside.values(), *wanted):
        if name in shards.faults:
            raise DataError(f"{shards.faults[name]}, or {table.without(name)}")
    for option, name in beside.items():
        if shards.kinds[name] == "text":
            raise DataError(f"--{option} {quoted(name)}: holds no numbers; write numbers")
    if not wanted:
        where = "with --features" if table.formula is None else f"in the formula, as '{target} ~ COLUMN'"
        raise DataError(f"{shards.given}: no column is left to explain {target}; name one {where}")
    return wanted


def with_categories(shards: Shards, table: TypedTable) -> Shards:
    """The same, in which numbers of `categorical` and `order` are categories. DataError for what is none."""
    for name in table.categorical:
        refuse_unknown(shards, "categorical", name)
        if (role := table.role(name)) != "column":
            raise DataError(f"--categorical {quoted(name)}: is the {role}; leave it out there")
        if (kind := shards.kinds[name]) in ("boolean", "other"):
            contents = "true and false, two values" if kind == "boolean" else "neither numbers nor text"
            raise DataError(f"--categorical {quoted(name)}: holds {contents}; leave it out there")
    for name in table.numeric:
        refuse_unknown(shards, "numeric", name)
    in_order = [name for name in shards.kinds if table.order_of(name)]
    numbers = [name for name in (*table.categorical, *in_order) if shards.kinds[name] == "number"]
    return shards._replace(kinds=shards.kinds | dict.fromkeys(numbers, "category"))


def refuse_unknown(shards: Shards, option: str, name: str) -> None:
    """DataError for a column that there is not."""
    if name not in shards.kinds:
        close = did_you_mean(name, shards.kinds)
        first, more = [*shards.kinds][:_MOST_NAMED], len(shards.kinds) - _MOST_NAMED
        shown = listing([*first, f"{more} more"] if more > 0 else first)
        raise DataError(f"--{option} {quoted(name)}: no such column{close}; there are {shown}")
