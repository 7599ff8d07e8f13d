"""One row that has most of a column's variance: a claim of 10⁸ among thousands decides coefficients alone."""

from collections.abc import Sequence

from flyrun.families.family import Family
from flyrun.tables.layout import Column, Layout, plain

_SHARE = 0.5  # of the sum of squares about the mean
_FEWEST = 20  # rows


def caveats(
    layout: Layout, family: Family, ends: tuple[float, float], mean: float, variance: float
) -> list[str]:
    """A line for each such column.

    ends, mean, variance: of the target, as it is explained. Features have theirs, where they are known.
    """
    lines = []
    resistant = family.outliers or family.of_logs
    if not (resistant or layout.domain.classes or layout.domain.of_trials):
        lines = _line(layout.explained, layout.rows, *ends, mean, variance)
    for column in _numbers(layout.features):
        lines += _line(column.name, layout.rows, column.low, column.high, column.mean, column.sd**2)
    return lines


def _numbers(columns: Sequence[Column]) -> list[Column]:
    """Those of numbers of more than two values, whose ends are known."""
    return [
        column
        for column in columns
        if column.levels is None and column.high > column.low and column.sd != column.high - column.low
    ]


def _line(name: str, rows: int, low: float, high: float, mean: float, variance: float) -> list[str]:
    value = high if high - mean > mean - low else low
    if rows < _FEWEST or not (value - mean) ** 2 > _SHARE * rows * variance > 0.0:
        return []
    share = min((value - mean) ** 2 / (rows * variance), 1.0)
    return [
        f"{name}: one row, {plain(value)}, has {100 * share:.3g} % of the variance of all, so that it "
        "alone may decide coefficients; see whether it is right, and what a fit without it says"
    ]
