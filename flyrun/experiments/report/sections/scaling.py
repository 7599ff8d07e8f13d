"""What an update costs as Δ, D, L and Ψ grow (De Sa et al. 2018, Table 1), and where minibatches win.

What grows is read from the sweeps of the experiment: along an axis the one of the four that is not the same
at all points. Arms that no sweep of three points holds show, graph by graph, where minibatches win.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from flyrun.experiments.report.arms import ArmResult, Run
from flyrun.experiments.report.colours import Look
from flyrun.experiments.report.metrics import table
from flyrun.experiments.report.section import Row, Section
from flyrun.experiments.report.sections import arms as heads
from flyrun.experiments.report.sections import marginal_error as errors
from flyrun.experiments.report.sections.marginal_error import MARKERS, sampler_of
from flyrun.ground.page import words
from flyrun.ground.page.figures import axes, grid, legend_below
from flyrun.ground.page.metrics import Metric, word
from flyrun.ground.page.render import View, number, plus_minus

Sizes = Mapping[str, float]
#: parameter -> (symbol, the fact that tells it, what it is)
PARAMETERS = {
    "Delta": ("Δ", "largest_degree", "largest degree"),
    "D": ("D", "n_values", "values of a variable"),
    "L": ("L", "local_energy_bound", "local energy bound"),
    "Psi": ("Ψ", "total_energy_bound", "total energy bound"),
}
SYMBOL = {name: symbol for name, (symbol, *_) in PARAMETERS.items()}
_ALIKE = 0.01  # sizes that differ by less count as equal


@dataclass(frozen=True)
class Cost:
    """An algorithm's cost of an update as published in `paper`. text: its O(); terms: what is added up."""

    text: str
    terms: tuple[Callable[[Sizes], float], ...]
    paper: str = "De Sa et al. 2018, Table 1"

    def at(self, sizes: Sizes) -> float:
        """The formula's value, constants left out."""
        return sum(term(sizes) for term in self.terms)

    def exponent(self, name: str) -> str:
        """ "2", or "0 to 2" where terms grow unlike each other with the parameter."""
        ones = dict.fromkeys(PARAMETERS, 1.0)
        powers = {int(np.rint(np.log2(term({**ones, name: 2.0})))) for term in self.terms}
        return f"{min(powers)} to {max(powers)}" if len(powers) > 1 else str(powers.pop())


COSTS = {
    "gibbs": Cost("DΔ", (lambda s: s["D"] * s["Delta"],)),
    "min_gibbs": Cost("DΨ²", (lambda s: s["D"] * s["Psi"] ** 2,)),
    "local_minibatch": Cost("D", (lambda s: s["D"],), "the B of its batch held"),
    "mgpmh": Cost("DL² + Δ", (lambda s: s["D"] * s["L"] ** 2, lambda s: s["Delta"])),
    "double_min": Cost("DL² + Ψ²", (lambda s: s["D"] * s["L"] ** 2, lambda s: s["Psi"] ** 2)),
    "poisson_gibbs": Cost("DL²", (lambda s: s["D"] * s["L"] ** 2,), "Zhang & De Sa 2019"),
}


def slope(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Least-squares slope of log y on log x, (n,), and its error by the scatter (NaN for two points)."""
    if len(x) < 2 or min(x) <= 0 or min(y) <= 0 or min(x) == max(x):
        return math.nan, math.nan
    # Not scipy's linregress: of costs that do not grow it knows no error, of exact powers one of 1e-8.
    off, level = np.log(x) - np.log(x).mean(), np.log(y) - np.log(y).mean()
    fitted = float(off @ level / (off @ off))
    rest = level - fitted * off
    se = float(np.sqrt(rest @ rest / (len(x) - 2) / (off @ off))) if len(x) > 2 else math.nan
    return fitted, se


def sizes_of(arm: ArmResult) -> dict[str, float]:
    """Δ, D, L and Ψ of an arm's graph."""
    return {name: float(arm.fact(fact)) for name, (_, fact, _) in PARAMETERS.items()}


def swept(arms: list[ArmResult]) -> dict[tuple[str, str], list[ArmResult]]:
    """(base arm, parameter) -> the arms of a sweep in which that one alone grows, smallest first.

    Of at least three sizes, the base arm's among them.
    """
    named = {arm.name: arm for arm in arms if sampler_of(arm) in COSTS}
    along: dict[tuple[str, str], list[ArmResult]] = {}
    for arm in named.values():
        if arm.sweep and arm.sweep["arm"] in named:
            start = [named[arm.sweep["arm"]]]
            along.setdefault((arm.sweep["arm"], arm.sweep["axis"]), start).append(arm)
    sweeps = {}
    for (base, _), points in along.items():
        sizes = [sizes_of(arm) for arm in points]
        ends = {p: (min(size[p] for size in sizes), max(size[p] for size in sizes)) for p in PARAMETERS}
        growing = [name for name, (low, high) in ends.items() if high > (1 + _ALIKE) * low]
        if len(growing) == 1 and len(points) > 2:
            sweeps[base, growing[0]] = sorted(points, key=lambda arm: sizes_of(arm)[growing[0]])
    return sweeps


def _row(run: Run, arm: ArmResult) -> Row:
    row: Row = {"graph": arm.problem, "sampler": sampler_of(arm), "D": arm.fact("n_values")}
    row["note"] = errors.note(arm)
    arms = SECTION.arms(run)
    sweeps = swept(arms)
    grows = {parameter for (_, parameter), line in sweeps.items() if arm in line}
    row["compared"] = " ".join(name for name in PARAMETERS if name in grows)
    if not row["compared"] and arm.problem not in {arm.problem for line in sweeps.values() for arm in line}:
        row["compared"] = "regime"
    alike = (other for other in arms if other.problem == arm.problem and sampler_of(other) == "gibbs")
    if base := next(alike, None):
        row["speedup_per_update"] = base.each("us_per_update").mean() / arm.each("us_per_update").mean()
        row["gibbs_error_s"], row["speedup_equal_error"] = equal_error(arm, base)
    return row


def equal_error(arm: ArmResult, base: ArmResult) -> tuple[float, float]:
    """Seconds until the arm's error is down to where plain Gibbs ends, and how many times sooner that is.

    Errors are means over seeds; the last time that the arm's falls through, read between points on
    logarithmic scales. NaN where it never does.
    """
    goal, whole = (errors.mean_curve(base, name)[-1] for name in ("curve_error", "curve_seconds"))
    if arm is base:
        return float(whole), 1.0
    error, seconds = (errors.mean_curve(arm, name) for name in ("curve_error", "curve_seconds"))
    above = np.flatnonzero(error > goal)
    if not above.size or above[-1] + 1 == error.size:
        return math.nan, math.nan
    around = slice(above[-1], above[-1] + 2)
    (high, low), (earlier, later) = np.log(error[around]), np.log(seconds[around])
    share = (high - math.log(goal)) / (high - low)
    reached = math.exp(earlier + share * (later - earlier))
    return reached, float(whole / reached)


def sweeps_of(rows: list[Row]) -> list[tuple[str, str, list[Row]]]:
    """(sampler, parameter, its rows, smallest first), of rows of the table."""
    sweeps = []
    for parameter in PARAMETERS:
        growing = [row for row in rows if parameter in str(row["compared"]).split()]
        for sampler in dict.fromkeys(row["sampler"] for row in growing):
            of_sampler = [row for row in growing if row["sampler"] == sampler]
            sweeps.append((sampler, parameter, sorted(of_sampler, key=lambda row: row[parameter])))
    return sweeps


def _views(rows: list[Row]) -> list[View]:
    """Slopes, a table for each parameter; what each regime gives; and the arms that are not finished."""
    grown: dict[str, list[tuple[str, list[Row]]]] = {}
    for sampler, parameter, sweep in sweeps_of(rows):
        grown.setdefault(parameter, []).append((sampler, sweep))
    views = [_slopes_view(parameter, sweeps) for parameter, sweeps in grown.items()]
    views += map(_regime_view, _by_graph(rows).values())
    unfinished = [row for row in rows if row["seeds"] < row["seeds_wanted"]]
    if unfinished:
        views.append(table("Not finished", [word("note", "why")], unfinished))
    return views


def _by_graph(rows: list[Row]) -> dict[str, list[Row]]:
    """The rows that show where minibatches win, graph by graph."""
    graphs: dict[str, list[Row]] = {}
    for row in rows:
        if row["compared"] == "regime":
            graphs.setdefault(row["graph"], []).append(row)
    return graphs


def _slopes_view(parameter: str, sweeps: list[tuple[str, list[Row]]]) -> View:
    rows = [_slopes(sampler, parameter, sweep) for sampler, sweep in sweeps]
    smallest, *_, largest = sweeps[0][1]
    others = ", ".join(f"{SYMBOL[name]} = {smallest[name]:,.4g}" for name in PARAMETERS if name != parameter)
    title = (
        f"Slopes as {SYMBOL[parameter]} grows from {smallest[parameter]:,.4g} to {largest[parameter]:,.6g} "
        f"({others})"
    )
    return View(title, tuple(rows[0]), tuple(tuple(row.values()) for row in rows))


def _slopes(sampler: str, parameter: str, rows: list[Row]) -> dict[str, str]:
    """One row of the table of slopes, by heading."""
    sizes, factors, time = (
        np.array([row[name] for row in rows], float)
        for name in (parameter, "factors_actual", "us_per_update")
    )
    formula, _ = slope(sizes, np.array([COSTS[sampler].at(row) for row in rows], float))
    return {
        "algorithm": str(rows[0]["update"]),
        "slope of factors": _fitted(sizes, factors),
        "as published": COSTS[sampler].exponent(parameter),
        "formula here": f"{abs(formula):.2f}",
        "slope of time": _fitted(sizes, time),
        "factors, last / first": f"{number(factors[-1] / factors[0])} ×",
        "time, last / first": f"{number(time[-1] / time[0])} ×",
    }


def _fitted(sizes: np.ndarray, cost: np.ndarray) -> str:
    value, se = slope(sizes, cost)
    return plus_minus(value, se) if se >= 0.005 else f"{value:.2f}"


def _regime_view(rows: list[Row]) -> View:
    sizes = ", ".join(f"{SYMBOL[name]} = {rows[0][name]:,.6g}" for name in PARAMETERS)
    title = f"Where minibatches can win: {rows[0]['n_variables']:,} variables, {sizes}"
    return table(title, _REGIME, rows, _ALGORITHM)


def _won(head: str, name: str, means: str) -> Metric:
    return Metric(
        name, head, text=lambda row: "1" if row["sampler"] == "gibbs" else number(row.get(name)), means=means
    )


_ALGORITHM = Metric(
    "update", "algorithm", text=lambda row: row["update"] + " (biased)" * (row["exact"] is False)
)
_REGIME = [
    word("batch", "batch"),
    Metric("factors_actual", "factors", means="factor evaluations per update as done", digits=4),
    Metric("us_per_update", "µs", means="per update, sampling only", spread="us_per_update_sd"),
    _won("× faster an update", "speedup_per_update", "plain Gibbs' time by this one's"),
    Metric("accept_rate", "accepted"),
    Metric("error", "error", spread="error_sd"),
    _won(
        "× faster at equal error", "speedup_equal_error",
        "plain Gibbs' time by the time until this one's mean error is down to where plain Gibbs ends",
    ),
]  # fmt: skip
METRICS = [
    *(Metric(name) for name in ("graph", "sampler", "D")),
    *errors.METRICS,
    *(Metric(name) for name in ("speedup_per_update", "gibbs_error_s", "speedup_equal_error", "compared")),
]


def _costs(arms: list[ArmResult], styles: dict[str, Look], title: str) -> Any:
    """Cost of an update as one of Δ, D, L and Ψ grows and the others stay: factor evaluations counted (above)
    and time (below), mean over seeds, both axes logarithmic. Slopes are in the tables.
    """
    lines = swept(arms)
    columns = [name for name in PARAMETERS if any(parameter == name for _, parameter in lines)]
    size = (max(6.4, 2.4 * len(columns) + 0.6), 5.6)
    figure, panels = grid(size, title, 2, len(columns), sharex="col", sharey="row")
    panels = panels.reshape(2, -1)
    for parameter, pair in zip(columns, panels.T, strict=True):
        ticks: set[float] = set()
        for line in (line for (_, grows), line in lines.items() if grows == parameter):
            sizes = [sizes_of(arm)[parameter] for arm in line]
            ticks |= set(sizes)
            label = str(line[0].fact("update")) + (" (biased)" if line[0].exact is False else "")
            for axis, name in zip(pair, ("actual", "us_per_update"), strict=True):
                axis.plot(
                    sizes, [arm.each(name).mean() for arm in line], color=styles[line[0].name].colour,
                    marker=_marker(line[0]), markersize=4, linewidth=1.4, label=label,
                )  # fmt: skip
        pair[1].set(xscale="log", xlabel=f"{SYMBOL[parameter]}, {PARAMETERS[parameter][2]}")
        pair[1].set_xticks(
            sorted(ticks), [f"{tick / 1000:g}k" if tick >= 1000 else f"{tick:.4g}" for tick in sorted(ticks)]
        )
        pair[1].minorticks_off()
        for axis in pair:
            axis.set_yscale("log")
            axis.grid(axis="y", linewidth=0.4, alpha=0.4)
    panels[0, 0].set_ylabel("factor evaluations an update")
    panels[1, 0].set_ylabel("µs an update")
    legend_below(figure, *panels[0])
    return figure


def _marker(arm: ArmResult) -> str:
    return MARKERS[list(COSTS).index(sampler_of(arm)) % len(MARKERS)]


def _regimes(arms: list[ArmResult], styles: dict[str, Look], title: str) -> Any:
    """Error of the running marginals against seconds of sampling, one chain on one core, mean ± 1 sd over
    seeds, where minibatches can win. By symmetry the true marginals are uniform.
    """
    in_sweeps = {arm.problem for line in swept(arms).values() for arm in line}
    graphs: dict[str, list[ArmResult]] = {}
    for arm in arms:
        if arm.problem not in in_sweeps and sampler_of(arm) in COSTS:
            graphs.setdefault(arm.problem, []).append(arm)
    if not graphs:
        return None
    figure, panels = axes(len(graphs), title, height=0.6 + 3.2 * len(graphs))
    for axis, shown in zip(panels, graphs.values(), strict=True):
        for arm in shown:
            line = errors.plot_error(axis, arm, "curve_seconds", styles[arm.name])
            line.set(marker=_marker(arm), markersize=4, markevery=max(1, len(line.get_xdata()) // 6))
        sizes = [
            f"{SYMBOL[name]} = {size:{',.0f' if size >= 1000 else '.4g'}}"
            for name, size in sizes_of(shown[0]).items()
        ]
        text = ", ".join([f"{shown[0].fact('n_variables'):,} variables", *sizes])
        axis.annotate(text, (1, 1), xycoords="axes fraction", ha="right", va="bottom", fontsize=8)
        errors.error_axes(axis)
    panels[-1].set_xlabel("seconds of sampling")
    legend_below(figure, *panels)
    # The graph's sizes stand above each panel: the figure's title goes above the first one's.
    panels[0].set_title(panels[0].get_title(), parse_math=False, wrap=True, pad=16)
    return figure


_LEAD = """
{{ n_arms }} arms on {{ n_graphs }} graphs. From one graph to the next one of Δ, D, L and Ψ grows while the
others stay; costs are means over a whole chain. One cell at a time, as cells that run side by side slow each
other down (executor.workers=1).
"""


def _lead(run: Run) -> list[str]:
    graphs = [arm.problem for arm in SECTION.arms(run)]
    return words.lines(_LEAD, n_arms=len(graphs), n_graphs=len(set(graphs)))


_LEGEND = """
Slopes: least squares of log cost on log size ± standard error from the scatter. as published: exponent of
the parameter in the published cost, a range where only one of its terms grows; formula here: slope of that
formula over the same graphs, constants left out.

Published costs: {% for name, cost in costs.items() %}{{ name }} O({{ cost.text }}) ({{ cost.paper }})
{{- "; " if not loop.last }}{% endfor %}.

Batches λ of MIN-Gibbs Ψ², of MGPMH and Poisson-Gibbs L², of DoubleMIN-Gibbs L² and Ψ² (our choice), so that
they grow as the published costs have it. L is varied at fixed Ψ, and Ψ at fixed L, by the number of
variables: Ψ = nL/k for factors of k variables.

Time follows the count of factors where it is most of the work. A minibatch's factors lie anywhere in memory,
plain Gibbs reads its own in order: a factor costs a minibatch more, the more so the larger the graph, which
is why its time may grow with Δ while its count does not.

{% for graph in regimes %}
{% if graph.whole_batch > graph.gibbs and not graph.has_whole_batch %}
MIN-Gibbs and DoubleMIN-Gibbs are left out at n = {{ graph.n_variables | spec(",") }}: they do not win there.
A batch of Ψ² is {{ graph.whole_batch | spec(".3g") }} evaluations, {{ (graph.whole_batch / graph.gibbs) |
spec(",.0f") }} times plain Gibbs' DΔ; they are for few variables with many factors, where Ψ is small.

{% endif %}
{% for row in graph.slower %}
{{ row["update"] }} does not win at n = {{ graph.n_variables | spec(",") }}, Δ = {{ graph.Delta | spec(",")
}}: its updates take {{ (1 / row.speedup_per_update) | spec(".2g") }} times plain Gibbs'.

{% endfor %}
{% endfor %}
{% if slower %}
Where they do not win: an update took longer than plain Gibbs' on the same graph for
{% for update, sizes in slower.items() %}
{{ update }} at {{ sizes | join(", ") }}{{ "." if loop.last else ";" }}
{% endfor %}
{% endif %}
"""


def _legend(run: Run) -> list[str]:
    rows = [heads.row(run, arm) | SECTION.cells_of(run, arm) for arm in SECTION.arms(run)]
    slower: dict[str, list[str]] = {}
    for row in rows:
        if row["compared"] not in ("", "regime") and _loses(row):
            sizes = ", ".join(f"{symbol} = {row[name]:,.4g}" for name, symbol in SYMBOL.items())
            slower.setdefault(row["update"], []).append(f"({sizes})")
    regimes = [_regime(graph) for graph in _by_graph(rows).values()]
    return words.lines(_LEGEND, costs=COSTS, regimes=regimes, slower=slower)


def _regime(rows: list[Row]) -> Row:
    """What a graph's methods are held against: plain Gibbs' evaluations, and those of a batch of Ψ²."""
    by_sampler = {row["sampler"]: row for row in rows}
    return {
        **rows[0],
        "gibbs": rows[0]["D"] * rows[0]["Delta"],
        "whole_batch": rows[0]["Psi"] ** 2,
        "has_whole_batch": bool({"min_gibbs", "double_min"} & set(by_sampler)),
        "slower": [row for row in by_sampler.values() if _loses(row)],
    }


def _loses(row: Row) -> bool:
    return row.get("speedup_per_update", math.nan) < 1


def _caveats(run: Run) -> list[str]:
    biased = dict.fromkeys(arm.fact("update") for arm in SECTION.arms(run) if arm.fact("exact") is False)
    return [f"{name} is biased: its draws do not follow the model exactly." for name in biased]


SECTION: Section = Section(
    "scaling", place=100, metrics=METRICS, reads=errors.SECTION.reads,
    when=lambda run: bool(swept(SECTION.arms(run))), replaces=("marginal_error", "long_run"), row=_row,
    views=_views, lead=_lead, legend=_legend, figures={"costs": _costs, "regimes": _regimes},
    by_sweep=("costs", "regimes"),
    arm_caveats=lambda run, arm: errors.sticks(arm), caveats=_caveats,
)  # fmt: skip
