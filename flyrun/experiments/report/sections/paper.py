"""Queries per iteration, ESS per 1,000 and the speedup of ESS per query, beside the paper's values."""

from dataclasses import replace

import pandas as pd

from flyrun.experiments.report import metrics as columns
from flyrun.experiments.report.arms import ArmResult, Run
from flyrun.experiments.report.metrics import ARM
from flyrun.experiments.report.section import Row, Section
from flyrun.experiments.report.sections import ess
from flyrun.ground.page import words
from flyrun.ground.page.metrics import Metric
from flyrun.ground.page.render import View, bounded, delta_from_paper, known


def _speedup(run: Run, arm: ArmResult) -> Row:
    row = _published(run, arm)
    ess.put_speedup(row, "speedup", arm, ess.base_of(run, arm), "ess_per_1000")
    return row


def _published(run: Run, arm: ArmResult) -> Row:
    row: Row = {f"paper_{key}": float(value) for key, value in arm.paper.items()}
    base = run.baseline
    if base is None:
        row["note"] = "no speedup: this run has no arm to compare with"
    elif not base.done:
        row["note"] = f"no speedup: arm '{base.name}' has no finished seed"
    elif base.done < base.wanted and arm is not base:
        row["note"] = f"speedup against {base.done}/{base.wanted} seeds of '{base.name}'"
    return row


_MEASURED = [
    Metric(
        "queries_per_iter", "queries/iter", ess.each("queries_per_iter"),
        "likelihoods evaluated per iteration after burn-in, without set-up", by_seed=True,
    ),
    Metric(
        "ess_per_1000", "ESS/1000 iter", ess.each("ess_per_1000"),
        "R-CODA's effective draws per 1,000 iterations, mean over coordinates", by_seed=True,
    ),
    Metric(
        "speedup", "speedup", means="effective draws per query, relative to the regular arm", by_seed=True,
        text=bounded("speedup"),
    ),
]  # fmt: skip
_PAPERS = [Metric(f"paper_{ours.name}", "paper", delta=delta_from_paper(ours.name)) for ours in _MEASURED]
METRICS = [metric for pair in zip(_MEASURED, _PAPERS, strict=True) for metric in pair]


def against_the_paper(rows: list[Row], first: Metric) -> View:
    """Ours beside the paper's; ours alone where it has no values."""
    paper = any(known(row[f"paper_{name}"]) for row in rows for name in ("queries_per_iter", "ess_per_1000"))
    title = "Against the paper (mean ± sd over seeds)" if paper else "Efficiency (mean ± sd over seeds)"
    pairs = zip(_MEASURED, _PAPERS, strict=True)
    return columns.table(title, [metric for pair in pairs for metric in _beside(*pair, rows)], rows, first)


def _beside(ours: Metric, theirs: Metric, rows: list[Row]) -> tuple[Metric, Metric]:
    """A column of the paper's beside ours, or under a heading that says what it is where ours is empty."""
    alone = not any(known(row[ours.name]) for row in rows)
    return ours, replace(theirs, head=f"paper's {ours.head}") if alone else theirs


def views_of_several(table: pd.DataFrame) -> list[View]:
    """Tables of several experiments, one after the other: against the paper, and by the worse ESS."""
    views, first = [], Metric("arm", "arm", text=lambda row: row["arm"] + " *" * bool(row["beyond_paper"]))
    for experiment, part in table.groupby("experiment", sort=False):
        rows = part.to_dict("records")
        judged = [row for row in rows if row["gradients"] is True]
        star = " (*: not in the paper)" if part["beyond_paper"].any() else ""
        for view in (against_the_paper(rows, first), *ess.judged_by_the_worse(judged, first)):
            views.append(replace(view, title=f"{experiment}{star}: {view.title[0].lower()}{view.title[1:]}"))
    return views


def _caveats(run: Run) -> list[str]:
    missing = bool(run.done) and run.baseline is None
    return ["No arm of this run is the baseline, so there is no speedup."] if missing else []


_LEGEND = """
{% if source %}
paper: {{ source }}.
{% endif %}
"""

SECTION = Section(
    "paper",
    place=200,
    metrics=METRICS,
    reads=("ess",),
    row=_speedup,
    planned=_published,
    caveats=_caveats,
    views=lambda rows: [against_the_paper(rows, ARM)],
    legend=lambda run: words.lines(_LEGEND, source=run.source),
)
