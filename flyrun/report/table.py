"""table.csv: a row per arm, the columns of all parts that a report shows."""

import math
from typing import Any

import numpy as np
import pandas as pd

from flyrun.report.arms import ArmResult, Run
from flyrun.report.metrics import Row
from flyrun.report.section import Section


def frame(run: Run, sections: list[Section]) -> pd.DataFrame:
    """The table of these sections, arms in the run's order; whole numbers, numbers or text by column.

    Where an arm lacks what a column tells there is NaN, or nothing. `note` is what all of them say.
    """
    own = next((section.table for section in sections if section.table), None)
    rows = own(run) if own else [_row(run, arm, sections) for arm in run.arms]
    metrics = (one for section in sections for one in section.metrics_of(run))
    columns = dict.fromkeys(name for one in metrics for name in one.columns)
    table = pd.DataFrame(rows, columns=list(columns), dtype=object)
    return table if own else table.apply(_typed)


def _row(run: Run, arm: ArmResult, sections: list[Section]) -> Row:
    parts = [section.cells_of(run, arm) for section in sections]
    row = {name: value for part in parts for name, value in part.items()}
    return row | {"note": "; ".join(part["note"] for part in parts if part.get("note"))}


def _typed(column: pd.Series) -> pd.Series:
    known = [value for value in column if value is not None and value == value]
    if not all(isinstance(value, int | float | np.number) and not isinstance(value, bool) for value in known):
        return column
    whole = known and all(isinstance(value, int | np.integer) for value in known)
    return column.astype("Int64" if whole else float)


def plain(value: Any) -> Any:
    """A table's value for JSON, which knows neither NaN nor infinity."""
    if value is None or value is pd.NA:
        return None
    if isinstance(value, float):
        return value if math.isfinite(value) else None if math.isnan(value) else str(value)
    return value.item() if hasattr(value, "item") else value
