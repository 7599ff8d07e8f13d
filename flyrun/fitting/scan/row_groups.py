"""Columns of a row group, read as numbers.

What a worker reads is checked against what was there at the start.
"""

import contextlib
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from flyrun.fitting.scan.joined_groups import Block, File
from flyrun.ground import addresses
from flyrun.ground.errors import DataError
from flyrun.tables import row_filter

if TYPE_CHECKING:
    import pyarrow

_SMALL = 1 << 20  # bytes of a file that is read at once
_LARGE, _PIECE = 1 << 28, 1 << 20  # bytes of a row group that is read in pieces, and rows of one

#: of columns of text, in order
Levels = Mapping[str, tuple[str, ...]]


class Part(NamedTuple):
    """Some rows of a row group. columns: (n,) each, numbers as they stand, of text the numbers of its levels,
    NaN for what is missing; place: (n,), the rows' numbers in the row group; number: of parts before it;
    share: of the row group's rows, where the part stands for them all.
    """

    columns: list[np.ndarray]
    place: np.ndarray
    number: int = 0
    share: float = 1.0


def tree(parts: Iterable[Any]) -> Any:
    """The sum of parts, neighbours first: the same bits whoever worked out which part.

    Of n parts log n sums are held at a time.
    """
    sums = list[tuple[int, Any]]()  # of so many parts each, ever fewer
    for part in parts:
        sums.append((1, part))
        while len(sums) > 1 and sums[-2][0] == sums[-1][0]:
            (count, last), (_, first) = sums.pop(), sums.pop()
            sums.append((2 * count, first.plus(last)))
    *others, (_, total) = sums
    for _, first in reversed(others):
        total = first.plus(total)
    return total


def levels_of(block: Block, columns: tuple[str, ...]) -> dict[str, dict[str, int]]:
    """The values of columns of categories in a row group, as text, and the rows of each."""
    by_name = {}
    for name, (texts, codes) in zip(columns, coded(block, columns), strict=True):
        rows = np.bincount(codes[codes >= 0], minlength=len(texts)).tolist()
        by_name[name] = {text: count for text, count in zip(texts, rows, strict=True) if count}
    return by_name


def kept_of(block: Block) -> np.ndarray:
    """Which rows of a row group are used, (n,). DataError for a column that is not compared so."""
    kept = []
    for group in block.each:
        with _opened(group) as file:
            table = file.read_row_group(group.group, columns=_compared(group), use_threads=False)
        kept.append(_kept(group, table))
    return np.concatenate(kept)


def _compared(block: Block) -> list[str]:
    """Columns in the file by which its rows are chosen."""
    return _inside(block, row_filter.read(block.file.where).columns) if block.file.where else []


def _kept(block: Block, part: Any) -> np.ndarray:
    """Which rows of an Arrow table are used, (n,); its columns are those compared, and others."""
    if not block.file.where:
        return np.ones(len(part), bool)
    chosen, file = row_filter.read(block.file.where), block.file
    frame = part.select(_compared(block)).to_pandas()
    frame = frame.mask(frame.isin([*file.na, *numbers_of(file.na)])) if file.na else frame
    frame = frame.assign(**{name: value for name, value in file.named if name in chosen.columns})
    return chosen.mask(frame, str(block))


def coded(block: Block, columns: tuple[str, ...], every: bool = False) -> list[tuple[list[str], np.ndarray]]:
    """Columns of a row group as texts, each once, and their numbers, (n,); −1 for what is missing.

    every: also of rows that are not used.
    """
    return [
        _united(pairs) for pairs in zip(*(_coded(group, columns, every) for group in block.each), strict=True)
    ]


def _united(pairs: Sequence[tuple[list[str], np.ndarray]]) -> tuple[list[str], np.ndarray]:
    """Of row groups that are read as one, from each one's texts and numbers."""
    if len(pairs) == 1:
        return pairs[0]
    number = {text: k for k, text in enumerate(dict.fromkeys(text for texts, _ in pairs for text in texts))}
    places = (np.array([*(number[text] for text in texts), -1]) for texts, _ in pairs)
    return [*number], np.concatenate([place[codes] for place, (_, codes) in zip(places, pairs, strict=True)])


def _coded(block: Block, columns: tuple[str, ...], every: bool) -> list[tuple[list[str], np.ndarray]]:
    """As of `coded`, of one row group."""
    import pyarrow.compute  # late: an extra

    named, inside = dict(block.file.named), _inside(block, columns)
    with _opened(block, inside) as file:
        read = [*dict.fromkeys([*inside, *_compared(block)])]
        table = file.read_row_group(block.group, columns=read, use_threads=False)
        rows = file.metadata.row_group(block.group).num_rows
    pairs, used = [], np.ones(rows, bool) if every or not block.file.where else _kept(block, table)
    for name in columns:
        if name in named:
            word = named[name]
            pairs.append(([word or ""], np.full(np.count_nonzero(used), -1 if word is None else 0)))
            continue
        column = table.column(name)
        if pyarrow.types.is_floating(column.type):
            column = pyarrow.compute.if_else(pyarrow.compute.is_nan(column), None, column)
        if not pyarrow.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        whole = column.unify_dictionaries().combine_chunks()
        texts = _texts(whole.dictionary, block.file.na)
        kept = [*dict.fromkeys(text for text in texts if text is not None)]
        number = {text: k for k, text in enumerate(kept)}
        place = np.array([*(-1 if text is None else number[text] for text in texts), -1])
        codes = whole.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False)
        pairs.append((kept, place[codes.astype(np.int64)][used]))
    return pairs


def parts(block: Block, columns: tuple[str, ...], levels: Levels) -> Iterator[Part]:
    """Columns of a row group; all rows at once where they are not too many.

    Raises DataError where the file has changed, or cannot be read.
    """
    names, first = [*dict.fromkeys([*_inside(block, columns), *_compared(block)])], 0
    for number, table in enumerate(_tables(block, names, _inside(block, levels))):
        arrays, place = _columns(block, columns, levels, table), np.arange(first, first + len(table))
        if block.file.where:
            used = _kept(block, table)
            arrays, place = [array[used] for array in arrays], place[used]
        yield Part(arrays, place, number)
        first += len(table)


def _tables(block: Block, names: list[str], text: list[str]) -> Iterator[Any]:
    """Its rows as Arrow has them; those of files of other types apart. text: as of `opened`."""
    import pyarrow  # late: an extra

    alike = list[Any]()
    for group in block.each:
        with _opened(group, text) as file:
            if 4 * group.length * len(names) > _LARGE:
                yield from file.iter_batches(_PIECE, [group.group], names, use_threads=False)
                continue
            table = file.read_row_group(group.group, columns=names, use_threads=False)
        if alike and table.schema != alike[0].schema:
            yield pyarrow.concat_tables(alike)
            alike = []
        alike.append(table)
    if alike:
        yield pyarrow.concat_tables(alike)


def head(block: Block, columns: tuple[str, ...], levels: Levels, most: int, by: tuple[str, ...] = ()) -> Part:
    """The first rows of a row group where they look like the others: in each column of numbers they span half
    of what the file says of all, in those of `by` all of it. Else all rows; of several row groups that are
    read as one the first that have so many. Errors as of `parts`.
    """
    if most < block.rows and not block.file.where and not block.joined:
        with _opened(block, _inside(block, levels)) as file:
            spans = _spans(file.metadata.row_group(block.group))
            some = file.iter_batches(most, [block.group], _inside(block, columns), use_threads=False)
            arrays = _columns(block, columns, levels, next(some))
        inside = {*_inside(block, columns)}
        if all(
            _has_ends(values, spans.get(name), levels[name])
            if name in by
            else _spanned(values, spans.get(name))
            for name, values in zip(columns, arrays, strict=True)
            if name in inside and (name in by or name not in levels)
        ):
            return Part(arrays, np.arange(len(arrays[-1])), share=len(arrays[-1]) / block.rows)
    ends = np.cumsum([group.rows for group in block.each])
    few = len(ends) if by else 1 + min(int(np.searchsorted(ends, most)), len(ends) - 1)
    each = list(parts(block._replace(joined=block.joined[:few]), columns, levels))
    both = [np.concatenate(pieces) for pieces in zip(*(part.columns for part in each), strict=True)]
    place = np.concatenate([part.place for part in each])
    return Part(both, place, share=ends[few - 1] / ends[-1])


def _inside(block: Block, columns: Iterable[str]) -> list[str]:
    """Columns that the file itself holds."""
    named = dict(block.file.named)
    return [name for name in columns if name not in named]


def _columns(block: Block, columns: tuple[str, ...], levels: Levels, part: Any) -> list[np.ndarray]:
    """Of some rows of a row group, (n,) each."""
    named, arrays = dict(block.file.named), []
    for name in columns:
        if name not in named:
            column = part.column(name)
            na = block.file.na
            arrays.append(_codes(column, levels[name], na) if name in levels else _numbers(column, na))
        elif (value := named[name]) is None:
            arrays.append(np.full(len(part), np.nan))
        else:
            number = levels[name].index(value) if name in levels else float(value)
            arrays.append(np.full(len(part), number, np.float64))
    return arrays


def _spans(about: Any) -> dict[str, tuple[Any, Any]]:
    """Of a row group's columns: the least and the greatest value."""
    spans = {}
    for k in range(about.num_columns):
        column = about.column(k)
        if (statistics := column.statistics) is not None and statistics.has_min_max:
            spans[column.path_in_schema] = statistics.min, statistics.max
    return spans


def _spanned(values: np.ndarray, span: tuple[Any, Any] | None) -> bool:
    """Whether numbers (n,) span half of that."""
    finite = values[np.isfinite(values)]
    try:
        return span is not None and len(finite) > 0 and np.ptp(finite) >= 0.5 * float(span[1] - span[0])
    except TypeError:  # of what are no numbers
        return False


def _has_ends(codes: np.ndarray, span: tuple[Any, Any] | None, levels: tuple[str, ...]) -> bool:
    """Whether numbers of levels, (n,), have the least and the greatest among them."""
    return {str(end) for end in span or ("",)} <= {levels[int(k)] for k in np.unique(codes[codes >= 0])}


def _opened(block: Block, text: Iterable[str] = ()) -> contextlib.AbstractContextManager[Any]:
    """Its file, as of `opened`."""
    return opened(block.file, text, f"row group {block.group} ")


@contextlib.contextmanager
def opened(file: File, text: Iterable[str] = (), what: str = "") -> Iterator[Any]:
    """A file, if it is as it was. text: columns of it that are read as numbers of their levels.

    Raises DataError where it has changed, or, of the part of it that is called `what`, cannot be read.
    """
    import pyarrow.parquet as parquet  # late: an extra
    from pyarrow import BufferReader  # late: as above

    try:
        if addresses.state(file.path) != (file.size, file.changed_ns):
            raise DataError(
                f"{file.path}: changed while it was in use; wait until it is written, then give the "
                "command again"
            )
        near, large = not addresses.is_address(file.path), file.size > _SMALL
        source: Any = file.path
        if not large:
            with addresses.opened(file.path) as small:
                source = BufferReader(small.read())
        elif not near:
            source = addresses.opened(file.path)
        with parquet.ParquetFile(
            source,
            metadata=_footer(file.path, file.size, file.changed_ns) if large else None,
            memory_map=near,
            pre_buffer=large and not near,
            page_checksum_verification=True,
            read_dictionary=list(text),
        ) as whole:
            yield whole
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:160]
        raise DataError(f"{file.path}: {what}cannot be read ({reason})") from error


@functools.lru_cache(16)
def _footer(path: str, size: int, changed_ns: int) -> Any:
    """Of a file as it was. It tells of every row group, so reading it for each would take their square."""
    import pyarrow.parquet as parquet  # late: an extra

    with addresses.opened(path) as source:
        return parquet.read_metadata(source)


def _numbers(column: Any, na: tuple[str, ...] = ()) -> np.ndarray:
    """Numbers (n,), NaN for what is missing, as all are that `na` names."""
    import pyarrow  # late: an extra

    if pyarrow.types.is_decimal(column.type):
        column = column.cast(pyarrow.float64())
    parts = getattr(column, "chunks", [column])
    chunks = [part.to_numpy(zero_copy_only=False) for part in parts]
    numbers = chunks[0] if len(chunks) == 1 else np.concatenate(chunks)
    numbers = numbers.astype(np.float64) if numbers.dtype.kind not in "iuf" else numbers
    if codes := numbers_of(na):
        numbers = np.where(np.isin(numbers, codes), np.nan, numbers)
    return numbers


def numbers_of(na: Iterable[str]) -> list[float]:
    """Those of words for missing values that are numbers."""
    numbers = []
    for word in na:
        with contextlib.suppress(ValueError):
            numbers.append(float(word))
    return numbers


def _texts(values: "pyarrow.Array", na: tuple[str, ...]) -> list[str | None]:
    """Each of an Arrow array's values as a category calls it; None for what is missing, as `na` are."""
    import pyarrow  # late: an extra

    texts = values.cast(pyarrow.string()).to_pylist()
    if pyarrow.types.is_boolean(values.type):
        texts = [text and text.capitalize() for text in texts]  # as pandas calls them
    return [None if text in na else text for text in texts]


def _codes(column: Any, levels: tuple[str, ...], na: tuple[str, ...]) -> np.ndarray:
    """Numbers (n,) of the levels of categories, NaN for what is missing, or is none of them."""
    import pyarrow  # late: an extra

    place, codes = {level: float(k) for k, level in enumerate(levels)}, []
    for chunk in getattr(column, "chunks", [column]):
        coded = chunk if pyarrow.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
        texts = _texts(coded.dictionary, na)
        # the last of what is missing
        places = np.array([*(np.nan if text is None else place.get(text, np.nan) for text in texts), np.nan])
        index = coded.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False)
        codes.append(places[index.astype(np.int64)])
    return np.concatenate(codes) if codes else np.empty(0)
