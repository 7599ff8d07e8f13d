"""Queries per iteration, ESS per 1,000 and the speedup of ESS per query, beside the paper's values."""

from dataclasses import replace

import pandas as pd

from flyrun.report import render, words
from flyrun.report.arms import ArmResult, Run
from flyrun.report.render import ARM, SEEDS, Column, View, bounded, known, measured, plain, table_view
from flyrun.report.section import Row, Section
from flyrun.report.sections import ess
from flyrun.report.table import put


def _row(run: Run, arm: ArmResult) -> Row:
    row = _published(run, arm)
    for name in ("queries_per_iter", "ess_per_1000"):
        put(row, name, ess.per_seed(arm, name))
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


def against_the_paper(rows: list[Row], first: Column) -> View:
    """Ours beside the paper's; ours alone where it has no values."""
    paper = any(known(row[f"paper_{name}"]) for row in rows for name in ("queries_per_iter", "ess_per_1000"))
    columns = [first]
    heads = {"queries_per_iter": "queries/iter", "ess_per_1000": "ESS/1000 iter", "speedup": "speedup"}
    for name, head in heads.items():
        columns.append(Column(head, bounded(name) if name == "speedup" else measured(name)))
        if paper:
            columns.append(Column("paper", plain(f"paper_{name}"), render.delta_from_paper(name)))
    title = "Against the paper (mean ± sd over seeds)" if paper else "Efficiency (mean ± sd over seeds)"
    return table_view(title, [*columns, SEEDS], rows)


def views_of_several(table: pd.DataFrame) -> list[View]:
    """Tables of several experiments, one after the other: against the paper, and by the worse ESS."""
    views, first = [], Column("arm", lambda row: f"{row['arm']}{' *' if row['beyond_paper'] else ''}")
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
queries/iter: likelihoods evaluated per iteration after burn-in; set-up work is in its own column. ESS/1000
iter: R-CODA's effective samples per 1,000 iterations, mean over coordinates. speedup: ESS per query relative
to the regular arm; its sd takes both arms' spreads over seeds, speedup · sqrt(cv² + cv_regular²).

{% if source %}
paper: {{ source }}.
{% endif %}
"""

SECTION = Section(
    "paper",
    columns="""
        experiment dataset model update arm n_data n_params seeds iterations queries_per_iter
        queries_per_iter_sd ess_per_1000 ess_per_1000_sd speedup speedup_sd paper_queries_per_iter
        paper_ess_per_1000 paper_speedup ess_bulk_min_per_1000 rhat_max accept_rate bright_mean us_per_iter
        ess_per_s wall_speedup setup_queries setup_s exact
    """,
    reads=("ess",), row=_row, planned=_published, caveats=_caveats,
    views=lambda rows: [against_the_paper(rows, ARM)],
    legend=lambda run: words.lines(_LEGEND, source=run.source),
)  # fmt: skip
