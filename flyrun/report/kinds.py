"""What kinds of run there are, and what makes the report of each.

A run is of the kind that its experiment asks for (`report: graph_cost`), or else of the fact "kind" of its
cells.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

DEFAULT = "likelihood"


@dataclass(frozen=True)
class Kind:
    """The makers of a report's parts. They take the run, but for those of summaries and `views`.

    cell_summary: of the Draws of one cell.  arm_summary: of those of all of an arm's finished cells.
    frame: the table, one row per arm.  views: what is printed of it.  caveats: warnings, a sentence each.
    plots: figure -> (caption, plot).  looks: arm -> look.  lead, legend: lines above and below.
    """

    cell_summary: Callable[..., Any]
    arm_summary: Callable[..., Any]
    frame: Callable[..., Any]
    views: Callable[..., Any]
    caveats: Callable[..., list[str]]
    plots: dict[str, tuple[str, Callable[..., Any]]]
    looks: Callable[..., dict[str, Any]]
    lead: Callable[..., list[str]]
    legend: Callable[..., list[str]]


def kind(name: str | None) -> Kind:
    """The kind of this name; without one, that of chains on parameters which evaluate likelihoods."""
    return _KINDS.get(name or DEFAULT, _likelihood)()


def of(draws: Any) -> Kind:
    """The kind of a cell, by its Draws."""
    return kind(draws.cell.info.get("facts", {}).get("kind"))


def _likelihood() -> Kind:
    from flyrun.report import caveats, document, figures, render, summaries, table

    return _of_parts(summaries, table, render.views, caveats.caveats, figures, document)


def _graph() -> Kind:
    from flyrun.report import gibbs_figures, gibbs_summaries, gibbs_table, gibbs_words

    words = gibbs_words
    return _of_parts(gibbs_summaries, gibbs_table, gibbs_table.views, words.caveats, gibbs_figures, words)


def _graph_cost() -> Kind:
    from flyrun.report import gibbs_cost_figures, gibbs_cost_table, gibbs_cost_words, gibbs_summaries

    table, words = gibbs_cost_table, gibbs_cost_words
    return _of_parts(gibbs_summaries, table, table.views, words.caveats, gibbs_cost_figures, words)


def _fit() -> Kind:
    from flyrun.report import figures, fit_report, summaries

    made = _of_parts(summaries, fit_report, fit_report.views, fit_report.caveats, figures, fit_report)
    return replace(made, plots={name: made.plots[name] for name in ("convergence", "autocorrelation")})


def _of_parts(summaries: Any, table: Any, views: Any, caveats: Any, figures: Any, words: Any) -> Kind:
    return Kind(
        summaries.cell_summary,
        summaries.arm_summary,
        table.frame,
        views,
        caveats,
        figures.FIGURES,
        figures.looks_of,
        words.lead,
        words.legend,
    )


_KINDS: dict[str, Callable[[], Kind]] = {
    DEFAULT: _likelihood,
    "graph": _graph,
    "graph_cost": _graph_cost,
    "fit": _fit,
}
#: kinds that an experiment asks for by `report:`; the others follow from what was run
ASKED = ("graph_cost",)
