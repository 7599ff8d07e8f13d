"""Draws that several workers make together: what an effective one costs in all and on the critical path."""

import numpy as np

from flyrun.experiments.report.arms import ArmResult, Run
from flyrun.experiments.report.draws import Draws
from flyrun.experiments.report.section import Row, Section
from flyrun.experiments.report.sections import ess
from flyrun.ground.page.metrics import Metric


def summarise(draws: Draws) -> Row:
    """shards_span: mean queries of an iteration on the longest path, after burn-in."""
    span = draws.values("sample_stats", "span")
    if span is None or not {"workers", "rounds", "bytes"} <= draws.facts.keys():
        return {}
    return {"shards_span": float(np.mean(span))}


def _row(run: Run, arm: ArmResult) -> Row:
    size = ess.per_seed(arm, "ess_worse_per_1000").mean() / 1000.0
    drawn = size * np.mean([cell.n_iterations for cell in arm.cells])
    return {
        "shards": arm.fact("workers"),
        "queries_per_draw": ess.ratio(arm.each("queries_per_iter").mean(), size),
        "span_per_draw": ess.ratio(arm.each("shards_span").mean(), size),
        "rounds_per_draw": ess.ratio(arm.fact_mean("rounds"), drawn),
        "bytes_per_draw": ess.ratio(arm.fact_mean("bytes"), drawn),
    }


METRICS = [
    Metric("shards", "workers"),
    Metric(
        "queries_per_draw", "queries/draw",
        means="likelihood queries of all workers for an effective draw, by the worse of means and squares",
    ),
    Metric("span_per_draw", "critical/draw", means="those of the busiest worker"),
    Metric("rounds_per_draw", "rounds/draw", means="messages that a worker waits for", digits=2),
    Metric("bytes_per_draw", "bytes/draw", means="that workers send and are sent"),
]  # fmt: skip


def _arm_caveats(run: Run, arm: ArmResult) -> list[str]:
    shards, alike = arm.fact("workers"), arm.fact_mean("one_class")
    if not alike > 0:
        return []
    return [
        f"{alike:.3g} of its {shards} shards have rows of one class only: there the prior dominates, and "
        "averages of draws are worth little."
    ]


SECTION = Section(
    "shards",
    place=160,
    metrics=METRICS,
    title="What workers do together",
    reads=("shards_span", "ess"),
    summarise=summarise,
    row=_row,
    arm_caveats=_arm_caveats,
)
