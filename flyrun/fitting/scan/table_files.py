"""A table in many Parquet files: which files there are, their row groups, numbered, and their columns' kinds.

Files are in the order of their names.
"""

import functools
import glob
import hashlib
from decimal import Decimal
from io import BytesIO
from itertools import takewhile
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np

from flyrun.fitting.request import TypedTable
from flyrun.fitting.scan.joined_groups import Block, Ends, File, Shards
from flyrun.ground import addresses
from flyrun.ground.errors import DataError
from flyrun.ground.schema import did_you_mean, listing, quoted
from flyrun.tables import row_filter
from flyrun.tables.formats import PARQUET
from flyrun.tables.layout import in_order, is_nameless
from flyrun.tables.options import Table

_MOST_NAMED = 6
_USUAL = Table()
_END = 1 << 16  # bytes of a file that are read for its footer, at first
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


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
    in_names = dict.fromkeys(name for pairs in named.values() for name, _ in pairs)
    of_words = {name: _contents_of_words(name, named) for name in in_names}
    of_file = _chosen_by_name(given, where, named)
    skipped, paths = len(paths) - len(of_file), [*of_file]
    counting: set[str] | None = None
    ends: dict[str, Ends] | None = None
    for path in paths:
        file, footer = _file(path, named[path], of_file[path])
        try:
            about = parquet.read_metadata(BytesIO(footer))
            schema = about.schema.to_arrow_schema()
        except (OSError, ValueError) as error:  # Arrow's errors are among them
            reason = " ".join(str(error).split())[:160]
            what = f"is no whole Parquet file ({reason}); write it again"
            if not path.endswith(PARQUET):
                what = (
                    "is no Parquet file, and a scan, of many files or on executor=dask, reads no other; "
                    "write it as one, or fit this file alone without executor=dask"
                )
            raise DataError(f"{path}: {what}") from error
        contents = {name: _contents(type_) for name, type_ in zip(schema.names, schema.types, strict=True)}
        if both := next((name for name, _ in file.named if name in contents), None):
            raise DataError(f"{path}: has a column {both!r}, which its folder's name holds, too; rename one")
        held[path] = contents | {name: of_words[name] for name, _ in file.named}
        files.append(file)
        for group in range(about.num_row_groups):
            if rows := about.row_group(group).num_rows:
                block = Block(len(blocks), file, group, rows, first, rows)
                here = _ends(about.row_group(group))
                whole = (name for name, (low, high) in here.items() if high - low == rows - 1)
                count = {name for name in whole if rows > 1 and isinstance(here[name][0], int)}
                counting = count if counting is None or rows == 1 else counting & count
                ends = _with_ends(ends, here, block)
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
    if "=" not in path:  # what is left takes 20 µs
        return ()
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


def _file(path: str, named: tuple[tuple[str, str | None], ...], where: str) -> tuple[File, bytes]:
    """A file as it is, and its end, where Parquet says what it holds."""
    try:
        size, changed_ns = addresses.state(path)
        with addresses.opened(path) as file:
            file.seek(max(0, size - _END))
            end = file.read()
            length = int.from_bytes(end[-8:-4], "little") + 8
            if length > len(end):
                file.seek(max(0, size - length))
                end = file.read()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error
    footer = end[-length:]
    return File(path, size, changed_ns, hashlib.sha256(footer).hexdigest(), named, where=where), footer


#: kinds of columns by what they hold
_KINDS = {"numbers": "number", "true and false": "boolean", "text": "text"}
_NULLS = "nothing but nulls"


@functools.lru_cache
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


def _ends(group: Any) -> dict[str, tuple[float, float]]:
    """The least and the greatest number in columns of a row group, of those that have statistics."""
    ends = {}
    for column in map(group.column, range(group.num_columns)):
        if (held := column.statistics) is None or not held.has_min_max:
            continue
        low, high = held.min, held.max
        if isinstance(high, int | float | Decimal) and not isinstance(high, bool) and high == high:
            both = low if isinstance(low, int) else float(low), high if isinstance(high, int) else float(high)
            ends[column.path_in_schema] = both
    return ends


def _with_ends(
    ends: dict[str, Ends] | None, here: dict[str, tuple[float, float]], block: Block
) -> dict[str, Ends]:
    """Of columns whose ends each row group says, with those of one more."""
    both = {}
    for name, (low, high) in here.items():
        known = Ends(low, block, high, block) if ends is None else ends.get(name)
        if known is not None:
            beyond = low < known.low or high > known.high
            both[name] = known.plus(Ends(low, block, high, block)) if beyond else known
    return both


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
    blocks = [block.with_files(lambda file: of[file.path]) for block in shards.blocks]
    return shards._replace(files=[*of.values()], blocks=blocks)


def left_out(shards: Shards, table: Table) -> list[str]:
    """Columns that are left out for they count the rows, and nothing names them."""
    if table.features is not None or table.formula is not None:
        return []
    counting = filter(is_nameless, shards.counting)
    return [name for name in counting if name not in table.drop and table.role(name) == "column"]


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
