"""The numbers that a likelihood is given for a table's rows; layout.py says what becomes of each column."""

from typing import Any

import numpy as np
import pandas as pd

from flyrun.data.table.layout import Column, Layout
from flyrun.errors import DataError


def encode(piece: pd.DataFrame, layout: Layout) -> tuple[np.ndarray, np.ndarray]:
    """(features (n, D), target (n,)) of a piece: float64 ±1, class numbers, or standardised values."""
    parts = [_parts(piece[column.name], column) for column in layout.features]
    rows = np.column_stack([*parts, np.ones(len(piece))])
    aim = layout.target
    if aim.levels is None:
        return rows, (piece[aim.name].to_numpy(np.float64) - aim.mean) / aim.sd
    codes = _codes(piece[aim.name], aim)
    return rows, codes * 2.0 - 1.0 if layout.task == "binary" else codes


def _parts(values: pd.Series, column: Column) -> np.ndarray:
    if column.levels is None:
        return (values.to_numpy(np.float64) - column.mean) / column.sd
    return _codes(values, column)[:, None] == np.arange(1, len(column.levels))


def _codes(values: pd.Series, column: Column) -> np.ndarray:
    """Number of each value's level, (n,) int64."""
    assert column.levels is not None
    known: list[Any] = column.levels if column.text else [float(level) for level in column.levels]
    codes = pd.Categorical(values.astype(str if column.text else np.float64), categories=known).codes
    if (codes < 0).any():
        raise DataError(f"column {column.name} holds other values than a moment ago; leave the file as it is")
    return codes.astype(np.int64)
