"""Rows of a new table checked against what a fitted table held: columns, types, levels, nothing missing."""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from flyrun.families import domains
from flyrun.ground.errors import DataError
from flyrun.ground.schema import did_you_mean, listing
from flyrun.tables.cells import is_complex
from flyrun.tables.columns import is_number
from flyrun.tables.layout import Column, Layout, plain

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
    frame: pd.DataFrame, layout: Layout, what: str, place: Place, further: Sequence[str] = ()
) -> pd.DataFrame:
    """The columns that the fit needs, numbers as float64 and levels as they are spelled in it; further ones
    as words.

    Raises DataError naming row and column for a missing or infinite value, text where the fit has numbers, a
    level that the fit has not seen, an exposure that is not above 0, or trials that are no whole numbers.
    """
    lacking(layout, [str(name) for name in frame.columns], what, further)
    columns = {column.name: _checked(frame[column.name], column, what, place) for column in layout.columns}
    columns |= {name: words(_filled(frame[name], what, place)) for name in further}
    for role, column in _beside(layout):
        values = columns[column.name] = _checked(frame[column.name], Column(column.name), what, place)
        if role != "offset" and (refusal := domains.BESIDE[role].refusal(values.to_numpy())):
            at, rule = refusal
            where = f"{place(values.index[at])}, column {column.name}"
            raise DataError(f"{what}: {where} is {plain(values.iloc[at])}, but {rule}; mend it")
    return pd.DataFrame(columns, index=frame.index)


def _checked(values: pd.Series, column: Column, what: str, place: Place) -> pd.Series:
    where = f"column {column.name}"
    values = _filled(values, what, place)
    if is_complex(values):
        raise DataError(f"{what}: {where} holds complex numbers, but held others in the fit; mend it")
    if column.text:
        spelled = words(values)
        unknown = ~spelled.isin(column.levels or [])
        if unknown.any():
            raise _unknown(str(spelled[unknown].iloc[0]), column, what, place(unknown.idxmax()))
        return spelled
    numbers = pd.to_numeric(values, errors="coerce") if not is_number(values) else values
    numbers = numbers.astype(np.float64)
    wrong = ~np.isfinite(numbers)
    if wrong.any():
        cell, at = values[wrong].iloc[0], place(wrong.idxmax())
        raise DataError(f"{what}: {at}, {where} holds {cell!r}, but held numbers in the fit; mend it")
    if column.levels is not None:
        unknown = ~numbers.isin([float(level) for level in column.levels])
        if unknown.any():
            raise _unknown(f"{numbers[unknown].iloc[0]:g}", column, what, place(unknown.idxmax()))
    return numbers


def _filled(values: pd.Series, what: str, place: Place) -> pd.Series:
    if (empty := values.isna()).any():
        at = place(empty.idxmax())
        raise DataError(f"{what}: {at}, column {values.name} has no value; fill it in, or leave the row out")
    return values


def words(values: pd.Series) -> pd.Series:
    """Values as a file's text has them: whole numbers without a point."""
    if is_number(values):
        return pd.Series([str(value).removesuffix(".0") for value in values.tolist()], values.index)
    return values.astype(str).str.strip()


def _unknown(level: str, column: Column, what: str, at: str) -> DataError:
    levels = column.levels or []
    shown = listing(levels) if len(levels) <= _MOST_SHOWN else f"{', '.join(levels[:_MOST_SHOWN])}, …"
    fault = f"column {column.name} holds {level!r}{did_you_mean(level, levels)}, a level that the fit has not"
    return DataError(f"{what}: {at}, {fault} seen, so that nothing is known of it; it has seen {shown}")
