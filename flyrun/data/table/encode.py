"""The numbers that a likelihood is given for a table's rows; layout.py says what becomes of each column."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from flyrun.data.table.layout import Column, Layout
from flyrun.errors import DataError


def encode(piece: pd.DataFrame, layout: Layout) -> tuple[np.ndarray, np.ndarray]:
    """Features (n, D) of a piece, and its target with what is beside, (n, 1 + B), all float64.

    The target: ±1, class numbers, standardised values, or counts and the like as they are. Offsets are in the
    standardised target's unit.
    """
    matrix = _matrix(piece, layout)
    parts = [_parts(matrix[column.name], column) for column in layout.features]
    rows = np.vstack([*parts, np.full(len(piece), layout.ones)]).T  # in half the time of columns side by side
    aim = layout.target
    if aim.levels is None:
        values = piece[aim.name].to_numpy(np.float64)
        target = ((np.log(values) if layout.log_target else values) - aim.mean) / aim.sd
    else:
        codes = _codes(piece[aim.name], aim)
        target = codes * 2.0 - 1.0 if layout.task == "binary" else codes
    beside = [_beside(role, piece[column.name], aim.sd) for role, column in layout.beside.items()]
    return rows, np.column_stack([target, *beside]).astype(np.float64, copy=False)


def design(piece: pd.DataFrame, layout: Layout, what: str = "the new rows") -> np.ndarray:
    """Features (n, D) of checked rows as coefficients on the columns' own scales take them, ones last."""
    matrix = _matrix(piece, layout, what)
    parts = [_parts(matrix[column.name], replace(column, mean=0.0, sd=1.0)) for column in layout.features]
    return np.vstack([*parts, np.ones(len(piece))]).T.astype(np.float64, "C")


def _matrix(piece: pd.DataFrame, layout: Layout, what: str = "the file") -> pd.DataFrame:
    """The columns that features are made of: a formula's, or the table's own."""
    if layout.formula is None:
        return piece
    from flyrun.data.table import formula  # late: few fits have one

    read = formula.read(layout.formula, [one.name for one in layout.sources])
    return formula.Matrix(read, layout.sources, layout.state).columns(piece, what)


def _beside(role: str, values: pd.Series, unit: float) -> np.ndarray:
    """unit: the target's, by which it was divided; an offset is added to the predictor of what it became."""
    numbers = values.to_numpy(np.float64)
    if role in ("offset", "exposure"):
        numbers = (np.log(numbers) if role == "exposure" else numbers) / unit
    return numbers


def _parts(values: pd.Series, column: Column) -> np.ndarray:
    """A number's (n,), a category's (levels - 1, n)."""
    if column.levels is None:
        return (values.to_numpy(np.float64) - column.mean) / column.sd
    return _codes(values, column) == np.arange(1, len(column.levels))[:, None]


def _codes(values: pd.Series, column: Column) -> np.ndarray:
    """Number of each value's level, (n,) int64."""
    assert column.levels is not None
    known: list[Any] = column.levels if column.text else [float(level) for level in column.levels]
    codes = pd.Categorical(values.astype(str if column.text else np.float64), categories=known).codes
    if (codes < 0).any():
        raise DataError(f"column {column.name} holds other values than a moment ago; leave the file as it is")
    return codes.astype(np.int64)
