"""Checks that every loader's rows pass before a sampler sees them; each failure is one DataError."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from flyrun.ground.errors import DataError
from flyrun.tables.dataset import Dataset

BLOCK = 65_536  # rows looked at together: a check of mapped files must not fill the memory


def finite(values: np.ndarray, what: str, columns: Sequence[str] | None = None) -> None:
    """Raise DataError naming the first row and column of `values`, (N,) or (N, D), that is NaN or infinite.

    what: the file or table, for the message.  columns: D names; column numbers are given without them.
    Rows and columns count from 0, as in numpy.
    """
    bad: list[int] = []
    for start in range(0, len(values), BLOCK):
        good = np.isfinite(values[start : start + BLOCK])
        if not good.all():
            bad += (start + np.flatnonzero(~good.reshape(len(good), -1).all(axis=1))).tolist()
    if not bad:
        return
    row = bad[0]
    where, value = f"row {row}", values[row]
    if values.ndim == 2:
        column = int(np.argmin(np.isfinite(values[row])))
        where += f", column {columns[column] if columns else column}"
        value = values[row, column]
    rest = f" ({len(bad)} such rows)" if len(bad) > 1 else ""
    raise DataError(f"{what}: {where} is {value}{rest}; mend or drop such rows (rows count from 0)")


def not_constant(columns: np.ndarray, what: str, names: Sequence[str]) -> None:
    """Raise DataError naming the first of the columns (N, D), called `names`, that holds one value only."""
    constant = np.flatnonzero(columns.min(axis=0) == columns.max(axis=0))
    if len(constant):
        first = int(constant[0])
        more = f" ({len(constant)} such columns)" if len(constant) > 1 else ""
        raise DataError(
            f"{what}: {names[first]} is {columns[0, first]:g} in every row{more}; "
            "a constant column cannot be standardised: leave it out, or add rows that differ in it"
        )


def two_or_more_classes(target: np.ndarray, what: str) -> None:
    """Raise DataError when the labels in `target`, (N,), are all the same, or none."""
    if len(target) == 0 or target.min() == target.max():
        seen = f"only the class {target[0]}" if len(target) else "no row"
        raise DataError(f"{what}: target holds {seen}; a classifier needs rows of at least two classes")


def plus_minus_one(target: np.ndarray, what: str) -> None:
    """Raise DataError naming the first row whose label in `target`, (N,), is neither -1 nor +1."""
    wrong = (target != 1) & (target != -1)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(f"{what}: target in row {row} is {target[row]}; labels must be -1 or +1")


def classes_from_zero(target: np.ndarray, what: str) -> None:
    """Raise DataError unless `target`, (N,), holds integers 0..K-1, each of them at least once."""
    if not np.issubdtype(target.dtype, np.integer) or (len(target) and target.min() < 0):
        raise DataError(f"{what}: target must hold class numbers 0, 1, ... (integers)")
    empty = np.flatnonzero(np.bincount(target) == 0) if len(target) else target
    if len(empty):
        raise DataError(f"{what}: target has no row of class {empty[0]}; number the classes 0, 1, ... K-1")


def same_length(features: np.ndarray, target: np.ndarray, what: str) -> None:
    """Raise DataError unless `features` is (N, D) and `target` (N,) with the same N."""
    if features.ndim != 2 or target.ndim != 1 or len(features) != len(target):
        raise DataError(f"{what}: features {features.shape} and target {target.shape} do not match")


def prepared(data: Dataset) -> Dataset:
    """`data` with arrays as the samplers need them, or DataError.

    Arrays become C-contiguous, writeable and of the dtype that Dataset promises: a compiled loop
    treats any other kind of array as another type. Features mapped from a file stay there, in the
    precision that they have there.
    """
    what, kind = f"dataset {data.name}", np.int64 if data.domain.classes > 2 else np.float64
    for part, features, target in (
        ("", data.features, data.target),
        (", test rows", data.test_features, data.test_target),
    ):
        same_length(features, target, what + part)
        finite(features, what + part, data.feature_names)
        finite(target, f"{what}{part}, target")
    if len(data.features) == 0:
        raise DataError(f"{what}: has no training row")
    widths = {data.features.shape[1], data.test_features.shape[1], len(data.feature_names)}
    if len(widths) != 1:
        raise DataError(f"{what}: training rows, test rows and feature names differ in number of columns")
    if data.domain.classes == 2:
        plus_minus_one(data.target, what)
        plus_minus_one(data.test_target, f"{what}, test rows")
    for name, values in data.beside.items():
        same_length(data.features, values, f"{what}, {name}")
        finite(values[values < np.inf] if name == "high" else values, f"{what}, {name}")
    if kind is np.int64:
        classes_from_zero(data.target, what)
        if not np.isin(data.test_target, data.target).all():
            raise DataError(f"{what}: the test rows hold a class that no training row has")
    if data.n_classes:
        two_or_more_classes(data.target, what)
    beside: dict[str, Any] = {name: _owned(values, np.float64) for name, values in data.beside.items()}
    return replace(
        data,
        features=_owned(data.features, np.float64),
        test_features=_owned(data.test_features, np.float64),
        target=_owned(data.target, kind),
        test_target=_owned(data.test_target, kind),
        **beside,
    )


def _owned(values: np.ndarray, kind: type) -> np.ndarray:
    if isinstance(values, np.memmap) and values.dtype == np.float32 and kind is np.float64:
        kind = np.float32
        values = np.asarray(values)  # a plain view of the same pages: compiled loops know no memmap
    return np.require(values, dtype=kind, requirements=["C", "W", "A"])
