"""A number of an arm, said once: column of table.csv, heading, value, how it is shown, what it means."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from flyrun.experiments.report.arms import ArmResult, Run
from flyrun.ground.diagnostics.psis import HEAVY
from flyrun.ground.page.metrics import Metric, Row
from flyrun.ground.page.metrics import table as metrics_table
from flyrun.ground.page.render import NOTHING, View, seeds_text

#: of a run's arm: a number or text; or one number a seed, (S,), where the metric has `by_seed`
Value = Callable[[Run, ArmResult], Any]


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
    """The metrics between the arms' names and their seeds."""
    seeds = [SEEDS] if any("seeds_wanted" in row for row in rows) else []
    return metrics_table(title, first, metrics, rows, *seeds)
