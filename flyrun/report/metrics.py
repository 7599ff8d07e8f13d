"""A number of an arm, said once: column of table.csv, heading, value, how it is shown, what it means."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from flyrun.diagnostics.psis import HEAVY
from flyrun.report.arms import ArmResult, Run
from flyrun.report.render import NOTHING, View, known, measured, plain, seeds_text, spec

Row = dict[str, Any]
#: of a run's arm: a number or text; or one number a seed, (S,), where the metric has `by_seed`
Value = Callable[[Run, ArmResult], Any]


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
    of: Value | None = None
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


def mean(name: str) -> Value:
    """Mean over seeds of what a cell's summary calls so."""
    return lambda run, arm: float(np.mean(arm.each(name)))


def each(name: str) -> Value:
    """What cells' summaries call so, by seed."""
    return lambda run, arm: arm.each(name)


def fact(name: str) -> Value:
    """Mean over seeds of a number that the method told."""
    return lambda run, arm: arm.fact_mean(name)


def of_cells(name: str, head: str = "", means: str = "", said: str = "", **more: Any) -> Metric:
    """A metric that cells' summaries call so, or `said`, by seed."""
    return Metric(name, head, each(said or name), means, by_seed=True, **more)


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


def said(value: Any) -> str:
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


def k_hat(name: str, of: Value | None = None) -> Metric:
    """The shape of importance weights' tail."""
    means = f"Pareto shape of the weights' tail; above {HEAVY} their means cannot be trusted"
    return Metric(name, "k̂", of, means, digits=2)


EFFECTIVE = of_cells("effective", "effective", "effective number of weights")
# What several sections have, each with words of its own for what it is measured against: `replace`.
OFF, OFF_WORST = Metric("off", "off (sds)", by_seed=True), Metric("off_worst", "worst", by_seed=True)
SD_RATIO = Metric("sd_ratio", "sd ratio", by_seed=True)
SD_RATIO_LEAST, SD_RATIO_MOST = Metric("sd_ratio_least", "least"), Metric("sd_ratio_most", "most")
EXPECTED_SD_RATIO = Metric("expected_sd_ratio", "by the step")
TRUTH, TRUTH_ERROR = Metric("truth"), Metric("truth_error")
TOTAL_QUERIES = Metric("total_queries", "queries", means="of a seed, with set-up", by_seed=True, alone=True)
TOTAL_VISITS = Metric("total_visits", "visits", means="rows read", by_seed=True, alone=True)
TOTAL_SECONDS = Metric("total_seconds", "seconds", by_seed=True)
KERNELS = Metric("kernel_evaluations", by_seed=True, alone=True)
ARM = Metric("arm", "arm", text=lambda row: str(row["arm"]))
SEEDS = Metric("seeds", "seeds", text=seeds_text)
_EXACT = {True: "yes", False: "no", "unknown": "unknown"}
EXACT = Metric("exact", "exact", text=lambda row: _EXACT.get(row["exact"], NOTHING))


def table(title: str, metrics: Iterable[Metric], rows: Sequence[Row], first: Metric = ARM) -> View:
    """The metrics that have a heading, as text, between the arms' names and their seeds.

    Columns that say nothing for any of these rows are left out; what the others mean stands below.
    """
    seeds = [SEEDS] if any("seeds_wanted" in row for row in rows) else []
    shown = [first, *(one for one in metrics if one.head), *seeds]
    cells = {one: [one.show(row) for row in rows] for one in shown}
    shown = [one for one in shown if one in (first, SEEDS) or set(cells[one]) - {NOTHING}]
    deltas = {
        (i, k): difference
        for i, row in enumerate(rows)
        for k, one in enumerate(shown)
        if one.delta and (difference := one.delta(row))
    }
    notes = tuple((one.head, one.means) for one in shown if one.means)
    texts = tuple(zip(*(cells[one] for one in shown), strict=True))
    return View(title, tuple(one.head for one in shown), texts, deltas, notes)
