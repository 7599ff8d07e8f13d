"""A number of a table, said once: column of table.csv, heading, value, how it is shown, what it means."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from flyrun.ground.page.render import NOTHING, View, known, measured, plain, spec

Row = dict[str, Any]


@dataclass(frozen=True)
class Metric:
    """name: its column in table.csv, "" for what only the page shows.  head: its heading, "" for what only
    table.csv has.

    of: its value, None where the section's own `row` gives it.  means: what stands for it below the table.
    by_seed: the column holds the mean over seeds, and <name>_sd the sd.  alone: the mean is shown without it.
    spread: another column that is shown after ±.  text: how a row shows it, where that is not as usual.
    delta: how ours differs from the value there, and whether that is within uncertainty.
    """

    name: str
    head: str = ""
    of: Callable[..., Any] | None = None
    means: str = ""
    by_seed: bool = False
    alone: bool = False
    spread: str = ""
    digits: int = 3
    text: Callable[[Row], str] | None = None
    delta: Callable[[Row], tuple[str, bool] | None] | None = None

    @property
    def columns(self) -> list[str]:
        """Its columns of table.csv."""
        return [name for name in (self.name, f"{self.name}_sd" * self.by_seed) if name]

    def put(self, row: Row, value: Any) -> None:
        """Write a value into its columns."""
        if self.by_seed:
            put(row, self.name, value)
        else:
            row[self.name] = value

    def show(self, row: Row) -> str:
        """The cell of a row of the table."""
        if self.text is not None:
            return self.text(row)
        with_spread = (self.by_seed and not self.alone) or self.spread
        show = measured(self.name, self.spread) if with_spread else plain(self.name, self.digits)
        return show(row)


def mean_sd(values: np.ndarray) -> tuple[float, float]:
    """Mean and sample sd; the sd of one value, or where one is infinite, is NaN."""
    if len(values) < 2 or not np.isfinite(values).all():
        return float(np.mean(values)), np.nan
    if not np.ptp(values):  # equal values, whose mean rounds
        return float(values[0]), 0.0
    return float(np.mean(values)), float(np.std(values, ddof=1))


def put(row: Row, name: str, values: np.ndarray) -> None:
    """Mean and sd over seeds as the columns `name` and `name`_sd."""
    row[name], row[f"{name}_sd"] = mean_sd(values)


def word(name: str, head: str, **more: Any) -> Metric:
    """A metric whose value is text."""
    return Metric(name, head, text=lambda row: said(row.get(name)) or NOTHING, **more)


def said(value: object) -> str:
    """A text of the table, "" where it has none."""
    return value if isinstance(value, str) else ""


def per_cent(name: str, places: int) -> Callable[[Row], str]:
    """A share as "12.3 %", with its sd over seeds where the table has one."""

    form = f".{places}f"

    def text(row: Row) -> str:
        value, sd = row.get(name), row.get(f"{name}_sd")
        spread = f" ± {spec(100 * sd, form)}" if known(sd) else ""  # type: ignore[operator]
        return f"{spec(100 * value, form)}{spread} %" if known(value) else NOTHING  # type: ignore[operator]

    return text


def table(title: str, first: Metric, metrics: Iterable[Metric], rows: Sequence[Row], *last: Metric) -> View:
    """The metrics that have a heading, as text, between the first and the last.

    Columns that say nothing for any of these rows are left out, but the first and the last; what the others
    mean stands below.
    """
    shown = [first, *(metric for metric in metrics if metric.head), *last]
    cells = {metric: [metric.show(row) for row in rows] for metric in shown}
    shown = [metric for metric in shown if metric in (first, *last) or set(cells[metric]) - {NOTHING}]
    deltas = {
        (i, k): difference
        for i, row in enumerate(rows)
        for k, metric in enumerate(shown)
        if metric.delta and (difference := metric.delta(row))
    }
    notes = tuple((metric.head, metric.means) for metric in shown if metric.means)
    texts = tuple(zip(*(cells[metric] for metric in shown), strict=True))
    return View(title, tuple(metric.head for metric in shown), texts, deltas, notes)
