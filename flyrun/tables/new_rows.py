"""Rows of a new table checked against what a fitted table held: columns, types, levels, nothing missing.

They are arrays, not a frame, so that a service needs no pandas, and one row no milliseconds.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Number
from typing import TYPE_CHECKING, Any

import numpy as np

from flyrun.families import domains
from flyrun.ground.errors import DataError
from flyrun.ground.schema import did_you_mean, listing
from flyrun.tables.layout import Column, Layout, plain

if TYPE_CHECKING:
    import pandas as pd

#: how a row of the new table is called, given its index
Place = Callable[[object], str]
_MOST_SHOWN = 12
_OF_TARGETS = (
    "weights",
    "event",
    "cens",
    "high",
    "entry",
    "most",
)  # roles of which a prediction knows nothing


@dataclass(frozen=True)
class Rows:
    """Rows that were checked. index: what each is called, (n,); columns: numbers as float64, of categories
    numbers of levels, (n,) each; texts: levels of groups, (n,) each.
    """

    index: Sequence[Any]
    columns: Mapping[str, np.ndarray]
    texts: Mapping[str, np.ndarray]

    def __len__(self) -> int:
        """How many."""
        return len(self.index)

    def part(self, first: int, last: int) -> "Rows":
        """Those from first to before last."""
        columns, texts = (
            {name: values[first:last] for name, values in each.items()} for each in (self.columns, self.texts)
        )
        return Rows(self.index[first:last], columns, texts)

    @staticmethod
    def together(parts: Sequence["Rows"]) -> "Rows":
        """One after the other; there is one at least."""
        if len(parts) == 1:
            return parts[0]
        columns, texts = (
            {name: np.concatenate([each[name] for each in those]) for name in those[0]}
            for those in ([part.columns for part in parts], [part.texts for part in parts])
        )
        return Rows([label for part in parts for label in part.index], columns, texts)


def of_frame(frame: "pd.DataFrame", names: Iterable[str]) -> dict[str, np.ndarray]:
    """These columns of a frame, (n,) each; as objects what NumPy has no numbers of."""
    return {name: _of_series(frame[name]) for name in names}


def _of_series(values: "pd.Series") -> np.ndarray:
    kind = values.dtype.kind
    if isinstance(values.dtype, np.dtype) or (kind in "iuf" and not values.hasnans):
        return values.to_numpy()
    return values.to_numpy(object)


def of_mapping(row: Mapping[str, object]) -> dict[str, np.ndarray]:
    """A row by its columns, as frames of one row have it, (1,) each. Raises DataError for several rows."""
    values = {str(name): np.empty(1, object) for name in row}
    for name, value in row.items():
        if hasattr(value, "__len__") and not isinstance(value, str | bytes):
            raise DataError(f"the new row: {name} holds several values; write pandas.DataFrame(...) of rows")
        if isinstance(value, Number | np.generic) and not isinstance(value, bool | complex):
            values[str(name)] = np.asarray([value])
        else:
            values[str(name)][0] = value
    return values


def needed(layout: Layout) -> list[str]:
    """Columns that rows must have for a prediction: what explains the target, offset, exposure, trials."""
    beside = [column.name for role, column in _beside(layout)]
    return list(dict.fromkeys([*(column.name for column in layout.columns), *beside]))


def _beside(layout: Layout) -> list[tuple[str, Column]]:
    """The columns that a prediction needs beside those that explain, each with its role."""
    layouts = [layout, *layout.parameters.values()]
    return [pair for part in layouts for pair in part.beside.items() if pair[0] not in _OF_TARGETS]


def lacking(layout: Layout, known: list[str], what: str, further: Sequence[str] = ()) -> None:
    """Raise DataError for a column that rows must have and a table `what` with columns `known` has not."""
    for name in (*needed(layout), *further):
        if name not in known:
            raise DataError(f"{what}: has no column {name!r}, which the fit needs{did_you_mean(name, known)}")


def checked(
    table: Mapping[str, np.ndarray],
    index: Sequence[Any],
    layout: Layout,
    what: str,
    place: Place,
    further: Sequence[str] = (),
) -> Rows:
    """The columns that the fit needs of a table, (n,) each by name; further ones as words.

    index: what rows are called. Raises DataError naming row and column for a missing or infinite value, text
    where the fit has numbers, a level that the fit has not seen, an exposure that is not above 0, or trials
    that are no whole numbers.
    """
    lacking(layout, [*table], what, further)

    def at(row: int) -> str:
        return place(index[row])

    columns = {column.name: _checked(table[column.name], column, what, at) for column in layout.columns}
    for role, column in _beside(layout):
        values = columns[column.name] = _checked(table[column.name], Column(column.name), what, at)
        if role != "offset" and (refusal := domains.BESIDE[role].refusal(values)):
            row, rule = refusal
            where = f"{at(row)}, column {column.name}"
            raise DataError(f"{what}: {where} is {plain(values[row])}, but {rule}; mend it")
    return Rows(index, columns, {name: words(_filled(table[name], name, what, at)) for name in further})


def _checked(values: np.ndarray, column: Column, what: str, at: Callable[[int], str]) -> np.ndarray:
    """Numbers as float64, or the numbers of levels."""
    where = f"column {column.name}"
    values = _filled(values, column.name, what, at)
    if values.dtype.kind == "c" or (values.dtype.kind == "O" and any(isinstance(v, complex) for v in values)):
        raise DataError(f"{what}: {where} holds complex numbers, but held others in the fit; mend it")
    levels = column.levels or []
    if column.text:
        spelled = words(values)
        known = {level: number for number, level in enumerate(levels)}
        codes = np.fromiter((known.get(level, -1) for level in spelled), np.int64, len(spelled))
        if (codes < 0).any():
            row = int(codes.argmin())
            raise _unknown(spelled[row], column, what, at(row))
        return codes
    numbers = _numbers(values)
    if not (finite := np.isfinite(numbers)).all():
        row = int(finite.argmin())
        cell = values[row : row + 1].tolist()[0]
        raise DataError(f"{what}: {at(row)}, {where} holds {cell!r}, but held numbers in the fit; mend it")
    if column.levels is None:
        return numbers
    of_levels = np.array([float(level) for level in levels])
    order = np.argsort(of_levels)
    codes = order[np.searchsorted(of_levels, numbers, sorter=order).clip(max=len(levels) - 1)]
    if (unknown := of_levels[codes] != numbers).any():
        row = int(unknown.argmax())
        raise _unknown(f"{numbers[row]:g}", column, what, at(row))
    return codes


def _numbers(values: np.ndarray) -> np.ndarray:
    """As float64; NaN where a cell is no number."""
    if values.dtype.kind in "iufb":
        return values.astype(np.float64)
    return np.array([_number(value) for value in values], np.float64)


def _number(value: object) -> float:
    try:
        # 1_000 is none in a file
        return np.nan if isinstance(value, str) and "_" in value else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return np.nan


def _filled(values: np.ndarray, name: str, what: str, at: Callable[[int], str]) -> np.ndarray:
    if values.dtype.kind == "O":
        empty = np.fromiter(map(_missing, values), bool, len(values))
    else:
        empty = values != values
    if empty.any():
        place = at(int(empty.argmax()))
        raise DataError(f"{what}: {place}, column {name} has no value; fill it in, or leave the row out")
    return values


def _missing(value: object) -> bool:
    """Whether a cell has no value: None, NaN, NaT, or pandas' NA, which is neither equal nor unequal."""
    if value is None or type(value).__name__ == "NAType":
        return True
    return not isinstance(value, str) and bool(value != value)


def words(values: np.ndarray) -> np.ndarray:
    """Values (n,) as a file's text has them: whole numbers without a point."""
    texts = np.empty(len(values), object)
    if values.dtype.kind in "iufc":
        texts[:] = [str(value).removesuffix(".0") for value in values.tolist()]
    else:
        texts[:] = [str(value).strip() for value in values]
    return texts


def _unknown(level: str, column: Column, what: str, at: str) -> DataError:
    levels = column.levels or []
    shown = listing(levels) if len(levels) <= _MOST_SHOWN else f"{', '.join(levels[:_MOST_SHOWN])}, …"
    fault = f"column {column.name} holds {level!r}{did_you_mean(level, levels)}, a level that the fit has not"
    return DataError(f"{what}: {at}, {fault} seen, so that nothing is known of it; it has seen {shown}")
