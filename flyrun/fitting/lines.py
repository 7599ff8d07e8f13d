"""What a fit says of the table that it read, a line each."""

from pathlib import Path

from flyrun.fitting.groups.grouped_table import OfCategory, OfTable, OfTerms
from flyrun.fitting.rows_posterior import Posterior
from flyrun.tables.dataset import Dataset
from flyrun.tables.layout import INTERCEPT, Column, Layout, plain
from flyrun.tables.options import Table

MOST_SHOWN = 12  # columns that a fit says a line of, and levels that are named
_LONGEST = 10  # letters of a number


def of_table(table: Table, dataset: Dataset, layout: Layout, posterior: Posterior) -> list[str]:
    """What was read and what is fitted to it."""
    family, target = posterior.family, layout.target
    model = f"{family.words} of {layout.explained}"
    if family.domain.ordered:
        model += f": {' < '.join(target.levels or [])}"
    elif family.domain.nominal:
        against, *others = target.levels or []
        model += f": {', '.join(others)}, each against {against}"
    elif target.levels is not None:
        against, *others = target.levels
        model += f" = {others[0]} ({int((dataset.target > 0).sum()):,} rows) against {against}"
    if isinstance(posterior, OfTable | OfTerms):
        model += f", with {posterior.words}"
    further = [
        f"{name} by {', '.join(part.names[:-1]) or INTERCEPT}" for name, part in layout.parameters.items()
    ]
    model += f"; {'; '.join(further)}" if further else ""
    return [*shape(table, layout, posterior), *taken(layout, MOST_SHOWN, posterior), model]


def shape(table: Table, layout: Layout, posterior: Posterior) -> list[str]:
    """How large a table is, and what was left out."""
    lost = f" of {layout.of:,}, where {table.where}" if layout.of else ""
    lost += f" ({layout.dropped:,} dropped for missing values)" if layout.dropped else ""
    lost += f", standing for {layout.copies:,.0f}" if layout.copies != layout.rows else ""
    shape = f"{layout.rows:,} rows{lost}, {size(layout, posterior)}"
    shape += " a class" if layout.task == "classes" else ""
    return [f"{Path(str(table.path)).name}: {shape}", *left_out(layout)]


def size(layout: Layout, posterior: Posterior) -> str:
    """How many columns and coefficients there are."""
    columns, many = {column.name for column in layout.columns}, _categories(posterior)
    columns |= {column.name for _, column in many}
    count = sum(len(part.names) for part in (layout, *layout.parameters.values()))
    count += sum(len(column.encoded) for _, column in many)
    if not columns:
        return "no columns, the intercept alone"
    return f"{len(columns)} column{'s' if len(columns) > 1 else ''}, {count:,} coefficients"


def left_out(layout: Layout) -> list[str]:
    """Which columns were left out for they count the rows."""
    names = ", ".join(layout.row_numbers)
    return [f"left out: {names}, without a name and counting the rows"] if names else []


def _categories(posterior: Posterior | None) -> list[tuple[str, Column]]:
    """Of many levels, as of OfTerms."""
    return posterior.categories if isinstance(posterior, OfTerms | OfCategory) else []


def taken(layout: Layout, most: int | None = None, posterior: Posterior | None = None) -> list[str]:
    """What each column was taken for, the target first; features in at most so many lines."""
    columns = [layout.target, *layout.columns, *dict(_categories(posterior)).values()]
    shown = columns if most is None or len(columns) <= most else columns[: most - 1]
    lines = [_taken(column) + (" (the target)" if column is layout.target else "") for column in shown]
    beside = ((role.replace("_", " "), column) for role, column in layout.beside.items())
    lines[1:1] = [f"{_taken(column)} (the {role}, no feature)" for role, column in beside]
    if more := len(columns) - len(shown):
        lines.append(f"  and {more:,} more columns, which --check shows")
    return lines


def _short(value: float) -> str:
    """A number as it was typed, or to six digits where that is long."""
    return text if len(text := plain(value)) <= _LONGEST else f"{value:.6g}"


def _taken(column: Column) -> str:
    if column.levels is None:
        return f"  {column.name}: number {_short(column.low)} … {_short(column.high)}"
    first, *others = column.levels
    more = f" and {len(others) - MOST_SHOWN:,} more" if len(others) > MOST_SHOWN else ""
    return f"  {column.name}: {first} (the reference), {', '.join(others[:MOST_SHOWN])}{more}"
