"""The numbers that a likelihood is given for rows, in memory or on shards; layout.py says what each column
becomes. Shards' rows come as arrays, whose categories are numbers of levels.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from flyrun.tables import by_name
from flyrun.tables.layout import Column, Layout

if TYPE_CHECKING:
    import pandas as pd

    from flyrun.tables.new_rows import Rows


#: what columns beside the features become, by role, where it has another name
PARTS = {"exposure": "offset", "event": "censored", "cens": "censored"}


def encode(piece: "pd.DataFrame", layout: Layout) -> tuple[np.ndarray, np.ndarray]:
    """Features (n, D) of a piece, and its target with what is beside, (n, 1 + B), all float64.

    The target: ±1, class numbers, standardised values, or counts and the like as they are. Offsets are in the
    standardised target's unit.
    """
    parts = features(_columns(piece, layout), layout.features)
    rows = np.vstack([*parts, np.full(len(piece), layout.ones)]).T  # in half the time of columns side by side
    aim = target(layout.target.coded(piece[layout.target.name]), layout)
    aim = aim * 2.0 - 1.0 if layout.domain.classes == 2 else aim
    others = [
        beside(role, piece[column.name].to_numpy(np.float64), layout)
        for role, column in layout.beside.items()
    ]
    return rows, np.column_stack([aim, *others]).astype(np.float64, copy=False)


def design(rows: "Rows", layout: Layout, what: str = "the new rows") -> np.ndarray:
    """Features (n, D) of checked rows as coefficients on the columns' own scales take them, ones last."""
    if layout.formula is None:
        columns: Iterable[np.ndarray] = [rows.columns[column.name] for column in layout.features]
    elif (by_names := by_name.values(layout, rows.columns)) is not None:
        columns = by_names
    else:
        from flyrun.tables import formula  # late: half a second

        matrix = formula.matrix(layout.formula, layout.sources, layout.state)
        columns = matrix.of_codes(rows.columns, rows.index, what)[1].T
    plain = [
        values if column.levels is None else zero_one(values, len(column.levels))
        for values, column in zip(columns, layout.features, strict=True)
    ]
    return np.vstack([*plain, np.ones(len(rows))]).T.astype(np.float64, "C")


def features(columns: Iterable[np.ndarray], layout: Sequence[Column]) -> list[np.ndarray]:
    """What columns (n,) become: a number's (n,), standardised; a category's (levels - 1, n), of 0 and 1."""
    return [
        (values - column.mean) / column.sd if column.levels is None else zero_one(values, len(column.levels))
        for values, column in zip(columns, layout, strict=True)
    ]


def zero_one(codes: np.ndarray, levels: int) -> np.ndarray:
    """Whether codes (n,) are of each level but the first, (L - 1, n), NaN where a code is."""
    indicators = (codes == np.arange(1, levels)[:, None]).astype(np.float64)
    indicators[:, np.isnan(codes)] = np.nan
    return indicators


def target(values: np.ndarray, layout: Layout) -> np.ndarray:
    """Of values (n,), numbers of levels where it has classes: these, or numbers as they are explained."""
    aim = layout.target
    if aim.levels is not None:
        return values
    numbers: np.ndarray = ((np.log(values) if layout.log_target else values) - aim.mean) / aim.sd
    return numbers


def beside(role: str, values: np.ndarray, layout: Layout) -> np.ndarray:
    """Of values (n,): offsets in the unit of the target's predictor, other targets on the target's scale."""
    if role in ("offset", "exposure"):
        return np.asarray(np.log(values) if role == "exposure" else values) / layout.target.sd
    if role == "event":
        return 1.0 - values
    return target(values, layout) if role in ("high", "entry", "most") else values


def copies(columns: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """How many rows each stands for in columns' means and sds, (n,), of columns by role; None of one each."""
    counts = [values for role, values in columns.items() if role in ("trials", "weights")]
    return np.prod(counts, axis=0) if counts else None


def _columns(piece: "pd.DataFrame", layout: Layout) -> list[np.ndarray]:
    """What features are made of, (n,) each: a formula's matrix, or the table's own columns."""
    if layout.formula is not None:
        from flyrun.tables import formula  # late: few fits have one

        piece = formula.matrix(layout.formula, layout.sources, layout.state).columns(piece, "the file")
    return [column.coded(piece[column.name]) for column in layout.features]
