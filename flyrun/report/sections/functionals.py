"""Functionals that arms estimate, one number each, against what they cost: perplexities and the like."""

from collections import Counter
from typing import Any

import numpy as np

from flyrun.report import words
from flyrun.report.arms import ArmResult, Run
from flyrun.report.colours import Look
from flyrun.report.draws import Draws
from flyrun.report.figures import axes, band, common, legend_below, round_numbers
from flyrun.report.render import ARM, SEEDS, Column, View, exact, known, measured, plain, table_view
from flyrun.report.section import Plot, Row, Section
from flyrun.report.table import put

_COSTS = ("queries", "visits", "span", "seconds")
_OTHERS = ("step", "effective", *_COSTS)  # of a snapshot, and of weights


def summarise(draws: Draws) -> Row:
    """functionals: names of the estimands that are one number.  of_<name>: their values by snapshot.
    spent_*: queries, visits and seconds up to there, without what setting up cost.
    """
    group = {name: draws.file["estimate"][name][:] for name in draws.names("estimate")}
    names = [name for name in group if group[name].ndim == 1 and name not in _OTHERS]
    if not names:
        return {}
    setup = draws.facts.get("setup_queries", 0.0)
    visits, seconds = draws.facts.get("setup_visits", setup), draws.facts.get("setup_s", 0.0)
    before = {"queries": setup, "visits": visits, "span": setup, "seconds": seconds}
    spent = {f"spent_{cost}": (group[cost] - before[cost]).tolist() for cost in _COSTS}
    return {"functionals": names, **spent} | {f"of_{name}": group[name].tolist() for name in names}


def names_of(arms: list[ArmResult]) -> list[str]:
    """The functionals that these arms estimate, each once, those of most arms first."""
    count = Counter(name for arm in arms for name in arm.cells[0].functionals)
    return [name for name, _ in count.most_common()]


def _row(run: Run, arm: ArmResult) -> Row:
    row: Row = {"functionals": " ".join(arm.cells[0].functionals), "step": _step(arm)}
    for cost in ("queries", "visits", "seconds"):
        put(row, f"run_{cost}", np.array([getattr(cell, f"spent_{cost}")[-1] for cell in arm.cells]))
    for name in arm.cells[0].functionals:
        put(row, name, np.array([getattr(cell, f"of_{name}")[-1] for cell in arm.cells]))
    return row


def _step(arm: ArmResult) -> str:
    """What was tuned, in words."""
    tuned = arm.infos[0].get("tuning", {})
    return ", ".join(f"{key} = {value:.3g}" for key, value in tuned.items())


def _columns(run: Run) -> str:
    named = " ".join(f"{name} {name}_sd" for name in names_of(SECTION.arms(run)))
    return f"""
        experiment dataset model update arm n_data n_params seeds seeds_wanted note iterations exact
        functionals {named} run_visits run_queries run_seconds run_seconds_sd setup_queries setup_s step
    """


def _views(rows: list[Row]) -> list[View]:
    told = [str(row["functionals"]).split() for row in rows if isinstance(row["functionals"], str)]
    names = dict.fromkeys(name for one in told for name in one)
    columns = [
        ARM,
        *(Column(name.replace("_", " "), measured(name)) for name in names),
        Column("data visited", plain("run_visits")),
        Column("queries", plain("run_queries")),
        Column("seconds", measured("run_seconds")),
        Column("set-up queries", plain("setup_queries")),
        Column("set-up s", plain("setup_s", 2)),
        exact("no"),
        SEEDS,
    ]
    steps = [row for row in rows if isinstance(row["step"], str) and row["step"]]
    chosen = [ARM, Column("tuned", lambda row: str(row["step"]))]
    tuned = [table_view("What was tuned", chosen, steps)] if steps else []
    return [table_view("At the end (mean ± sd over seeds)", columns, rows), *tuned]


_LEGEND = """
data visited, queries, seconds: of a seed, without what setting up cost, which stands beside; a query is what
the method says one likelihood evaluation is. exact: whether what is handed in follows the posterior, but for
the number of draws.
"""


def _positive(arms: list[ArmResult], name: str) -> bool:
    told = [getattr(cell, f"of_{name}", [1.0]) for arm in arms for cell in arm.cells]
    return all(min(values) > 0 for values in told)


def _against(cost: str, name: str, caption: str) -> Plot:
    def plot(arms: list[ArmResult], styles: dict[str, Look], title: str) -> Any:
        several = [
            name for name in names_of(arms) if sum(name in arm.cells[0].functionals for arm in arms) > 1
        ]
        # what one arm alone tells stands in the table; so does what has no logarithm, as that of an evidence
        names = [name for name in several or names_of(arms) if _positive(arms, name)]
        if not names:
            return None
        figure, panels = axes(len(names), title, height=1.4 + 2.4 * len(names))
        for axis, functional in zip(panels, names, strict=True):
            for arm in (arm for arm in arms if functional in arm.cells[0].functionals):
                _, values = common(arm, f"spent_{cost}", f"of_{functional}")
                spent = common(arm, f"spent_{cost}", f"spent_{cost}")[1].mean(axis=0)
                band(axis, spent, values, styles[arm.name], arm.name, positive=True)
            truth = arms[0].fact(f"known_{functional}")
            if known(truth):
                axis.axhline(truth, color="grey", linewidth=0.8, linestyle=":", label="the truth")
            axis.set(xscale="log", yscale="log", ylabel=functional.replace("_", " "))
            round_numbers(axis.yaxis)
        panels[-1].set_xlabel(name)
        legend_below(figure, *panels)
        return figure

    plot.__doc__ = f"{caption} Mean ± 1 sd over seeds; what setting up cost is left out."
    return plot


_FIGURES = {
    "functionals_visits": _against("visits", "data visited", "What is estimated, against data visited."),
    "functionals_queries": _against("queries", "likelihood queries", "What is estimated, against queries."),
}

SECTION = Section(
    "functionals", reads=("functionals",), summarise=summarise, row=_row, views=_views, columns=_columns,
    figures=_FIGURES, legend=lambda run: words.lines(_LEGEND),
)  # fmt: skip
