"""Functionals that arms estimate, one number each, against what they cost: perplexities and the like."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from flyrun.experiments.report.arms import ArmResult, Run
from flyrun.experiments.report.colours import Look
from flyrun.experiments.report.draws import Draws, at_cost
from flyrun.experiments.report.figures import band, common
from flyrun.experiments.report.metrics import EXACT, Value, table
from flyrun.experiments.report.section import Plot, Row, Section
from flyrun.ground.page.figures import axes, legend_below, round_numbers
from flyrun.ground.page.metrics import Metric, said, word
from flyrun.ground.page.render import NOTHING, View, known

_COSTS = ("queries", "visits", "span", "seconds")
_OTHERS = ("step", "effective", *_COSTS)  # of a snapshot, and of weights


def summarise(draws: Draws) -> Row:
    """functionals: names of the estimands that are one number.  of_<name>: their values by snapshot.
    first_<name>, early_<name>: after one pass over the data, after a quarter; of rows alone.

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
    n_data = draws.facts.get("n_data")  # variables of a graph have none
    rows = {} if n_data is None else {"first": n_data, "early": n_data / 4}
    reached = {
        f"{when}_{name}": at_cost(np.array(spent["spent_visits"]), group[name], rows[when])
        for when in rows
        for name in names
    }
    return {"functionals": names, **spent, **reached} | {f"of_{n}": group[n].tolist() for n in names}


def names_of(arms: list[ArmResult]) -> list[str]:
    """The functionals that these arms estimate, each once, those of most arms first."""
    count = Counter(name for arm in arms for name in arm.cells[0].functionals)
    return [name for name, _ in count.most_common()]


def _step(run: Run, arm: ArmResult) -> str:
    tuned = arm.infos[0].get("tuning", {})
    return ", ".join(f"{key} = {value:.3g}" for key, value in tuned.items())


def _last(name: str) -> Value:
    """What the cells stored last under this name, (S,), None where they have none."""
    return lambda run, arm: np.array([vars(c)[name][-1] for c in arm.cells]) if arm.has(name) else None


_EXACT = replace(EXACT, means="whether what is handed in follows the posterior, but for the number of draws")
_TUNED = word("step", "tuned", of=_step)
_TOPICS, _BETWEEN = 8, " | "


def _top_words(run: Run, arm: ArmResult) -> str:
    """Of the first topics of the first seed."""
    return _BETWEEN.join(arm.fact("top_words", [])[:_TOPICS])


def _topics(rows: list[Row]) -> list[View]:
    """The likeliest words of the first arm whose vocabulary is known."""
    for row in rows:
        if topics := said(row["top_words"]):
            listed = tuple((str(i), topic) for i, topic in enumerate(topics.split(_BETWEEN), 1))
            return [View(f"Likeliest words of the first topics: {row['arm']}", ("topic", "words"), listed)]
    return []


_COLUMNS = [
    Metric(
        "run_visits", "data visited", _last("spent_visits"), "by a seed, set-up left out", by_seed=True,
        alone=True,
    ),
    Metric(
        "run_queries", "queries", _last("spent_queries"), by_seed=True, alone=True,
        means="of a seed, set-up left out; the method says what one likelihood evaluation is",
    ),
    Metric("run_seconds", "seconds", _last("spent_seconds"), by_seed=True),
    Metric("setup_queries", "set-up queries"),
    Metric("setup_s", "set-up s", digits=2),
    _EXACT,
]  # fmt: skip


def _functionals(names: Iterable[str]) -> list[Metric]:
    return [Metric(name, name.replace("_", " "), _last(f"of_{name}"), by_seed=True) for name in names]


def _on_the_way(names: Iterable[str]) -> list[Metric]:
    """Columns alone: after a quarter of a pass over the data, and after one."""
    whens = {"early": "quarter_pass", "first": "one_pass"}
    return [
        Metric(f"{name}_{column}", "", _cells(f"{when}_{name}"), by_seed=True)
        for name in names
        for when, column in whens.items()
    ]


def _cells(name: str) -> Value:
    """What the cells have under this name, (S,), None where they have none."""
    return lambda run, arm: arm.each(name) if arm.has(name) else None


def _tried(run: Run, arm: ArmResult) -> list[list[float]]:
    """The steps that an arm's method tried, (a, b, c, perplexity) each."""
    return arm.fact("searched", [])


def _edge(run: Run, arm: ArmResult) -> str:
    """Which number of the best step is the least or largest that was tried. b and c range from constant steps
    to 1/t, so that the size a alone can be at an edge.
    """
    if not (tried := _tried(run, arm)):
        return ""
    size = min(tried, key=lambda trial: trial[-1])[0]
    return "a" if size in (min(tried)[0], max(tried)[0]) else ""


def _steps_tried(rows: list[Row]) -> list[View]:
    """What each step was worth on the documents that choose, a column an arm."""
    searched = {
        row["arm"]: dict(trial.split(":") for trial in trials.split(_BETWEEN))
        for row in rows
        if (trials := said(row["steps"]))
    }
    steps = dict.fromkeys(step for values in searched.values() for step in values)
    lines = tuple((step, *(values.get(step, NOTHING) for values in searched.values())) for step in steps)
    title = "Steps tried, a, b, c of a(1 + t/b)^−c: perplexity of the documents that choose"
    return [View(title, ("step", *searched), lines)] if lines else []


def _metrics(run: Run) -> list[Metric]:
    names = names_of(SECTION.arms(run))
    named = Metric("functionals", of=lambda run, arm: " ".join(arm.cells[0].functionals))
    return [
        named,
        *_functionals(names),
        *_on_the_way(names),
        *_COLUMNS,
        _TUNED,
        Metric("tries", of=lambda run, arm: len(_tried(run, arm)) or None),
        word("best_at_edge", "", of=_edge),
        word(
            "steps",
            "",
            of=lambda run, arm: _BETWEEN.join(
                "{:g} {:g} {:g}:{:.1f}".format(*trial) for trial in _tried(run, arm)
            ),
        ),
        word("top_words", "", of=_top_words),
    ]


def _views(rows: list[Row]) -> list[View]:
    names = dict.fromkeys(name for row in rows for name in said(row["functionals"]).split())
    views = [table("At the end (mean ± sd over seeds)", [*_functionals(names), *_COLUMNS], rows)]
    tuned = [row for row in rows if said(row["step"])]
    views += [table("What was tuned", [_TUNED], tuned)] if tuned else []
    return views + _steps_tried(rows) + _topics(rows)


def _positive(arms: list[ArmResult], name: str, cost: str) -> bool:
    """Whether all these values have a logarithm, and somewhere a cost that has one."""
    courses = [getattr(cell, f"of_{name}", [1.0]) for arm in arms for cell in arm.cells]
    spent = [getattr(cell, f"spent_{cost}") for arm in arms for cell in arm.cells if name in cell.functionals]
    return all(min(values) > 0 for values in courses) and any(max(values) > 0 for values in spent)


def _lines(
    arms: list[ArmResult], functional: str, truth: float | None, cost: str
) -> dict[str, tuple[ArmResult, np.ndarray]]:
    """Names -> arm and values (S, G), of arms that have one truth; those of one line are named together."""
    lines: dict[str, tuple[ArmResult, np.ndarray]] = {}
    for arm in arms:
        if known(truth) and arm.fact(f"known_{functional}") != truth:
            continue
        values = common(arm, f"spent_{cost}", f"of_{functional}")[1]
        same = next((name for name, (_, other) in lines.items() if np.array_equal(other, values)), None)
        lines |= {arm.name: (arm, values)} if same is None else {f"{same}, {arm.name}": lines.pop(same)}
    return lines


def _against(cost: str, name: str, caption: str) -> Plot:
    def plot(arms: list[ArmResult], styles: dict[str, Look], title: str) -> Any:
        several = [
            name for name in names_of(arms) if sum(name in arm.cells[0].functionals for arm in arms) > 1
        ]
        # what one arm alone tells is in the table; so is what has no logarithm, as that of an evidence
        names = [functional for functional in several or names_of(arms) if _positive(arms, functional, cost)]
        if not names:
            return None
        figure, panels = axes(len(names), title, height=1.4 + 2.4 * len(names))
        for axis, functional in zip(panels, names, strict=True):
            about = [arm for arm in arms if functional in arm.cells[0].functionals]
            truth = about[0].fact(f"known_{functional}")
            for label, (arm, values) in _lines(about, functional, truth, cost).items():
                spent = common(arm, f"spent_{cost}", f"spent_{cost}")[1].mean(axis=0)
                band(axis, spent, values, styles[arm.name], label, positive=True)
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
    "functionals",
    place=90,
    metrics=_metrics,
    reads=("functionals",),
    summarise=summarise,
    views=_views,
    figures=_FIGURES,
)
