"""What an update costs as Δ, D, L and Ψ grow (De Sa et al. 2018, Table 1), and where minibatches win.

What grows is read from the sweeps of the experiment: along an axis the one of the four that is not the same
at all points. Arms that no sweep of three points holds show, graph by graph, where minibatches win.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from flyrun.report.arms import ArmResult, Run
from flyrun.report.colours import Look
from flyrun.report.figures import axes, band, common, legend_below, new_figure, round_numbers
from flyrun.report.render import ARM, SEEDS, Column, View, measured, number, plain, plus_minus, table_view
from flyrun.report.section import Figures, Row, Section
from flyrun.report.sections import arms as heads
from flyrun.report.sections import marginal_error as errors
from flyrun.report.sections.marginal_error import MARKERS, batch_text, sampler_of

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
    """An algorithm's cost of an update as published. text: its O(); terms: what is added up in it.

    paper: where it stands.
    """

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
    """Least-squares slope of log y on log x, and its standard error from the scatter (NaN for two points)."""
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


def _about(run: Run) -> list[ArmResult]:
    return [arm for arm in run.arms if SECTION.about(arm)]


def _when(run: Run) -> bool:
    return bool(swept(_about(run)))


def _row(run: Run, arm: ArmResult) -> Row:
    row = errors.row(run, arm)
    row |= {"graph": arm.problem, "sampler": sampler_of(arm), "batch": batch_text(arm), "D": row["n_values"]}
    sweeps = swept(_about(run))
    grows = {parameter for (_, parameter), own in sweeps.items() if arm in own}
    row["compared"] = " ".join(name for name in PARAMETERS if name in grows)
    if not row["compared"] and arm.problem not in {one.problem for own in sweeps.values() for one in own}:
        row["compared"] = "regime"
    alike = [one for one in _about(run) if one.problem == arm.problem and sampler_of(one) == "gibbs"]
    if alike:
        base = alike[0]
        row["speedup_per_update"] = base.each("us_per_update").mean() / row["us_per_update"]
        row["gibbs_error_s"], row["speedup_equal_error"] = equal_error(arm, base)
    return row


def equal_error(arm: ArmResult, base: ArmResult) -> tuple[float, float]:
    """Seconds until the arm's error is down to where plain Gibbs ends, and how many times sooner that is.

    Errors are means over seeds; the last time that the arm's falls through, read between points on
    logarithmic scales. NaN where it never does.
    """
    error, seconds = _curve(base)
    goal, whole = error[-1], seconds[-1]
    if arm is base:
        return float(whole), 1.0
    error, seconds = _curve(arm)
    above = np.flatnonzero(error > goal)
    if not above.size or above[-1] + 1 == error.size:
        return math.nan, math.nan
    k = above[-1]
    logs = np.log(error[k : k + 2]), np.log(seconds[k : k + 2])
    share = (logs[0][0] - math.log(goal)) / (logs[0][0] - logs[0][1])
    reached = math.exp(logs[1][0] + share * (logs[1][1] - logs[1][0]))
    return reached, float(whole / reached)


def _curve(arm: ArmResult) -> tuple[np.ndarray, np.ndarray]:
    error, seconds = (
        common(arm, "curve_updates", name)[1].mean(axis=0) for name in ("curve_error", "curve_seconds")
    )
    return error, seconds


def sweeps_of(rows: list[Row]) -> list[tuple[str, str, list[Row]]]:
    """(sampler, parameter, its rows, smallest first), of rows of the table."""
    sweeps = []
    for parameter in PARAMETERS:
        growing = [row for row in rows if parameter in str(row["compared"]).split()]
        for sampler in dict.fromkeys(row["sampler"] for row in growing):
            own = [row for row in growing if row["sampler"] == sampler]
            sweeps.append((sampler, parameter, sorted(own, key=lambda row: row[parameter])))
    return sweeps


def _views(rows: list[Row]) -> list[View]:
    """Slopes, a table for each parameter; what each regime gives; and the arms that are not finished."""
    views = []
    grown: dict[str, list[Row]] = {}
    for sampler, parameter, own in sweeps_of(rows):
        grown.setdefault(parameter, []).append(_slopes(sampler, parameter, own))
    for parameter, own in grown.items():
        views.append(table_view(_grown_title(parameter, own[0]), _SLOPES, own))
    regimes: dict[str, list[Row]] = {}
    for row in rows:
        if row["compared"] == "regime":
            regimes.setdefault(row["graph"], []).append(row)
    views += [table_view(_regime_title(own[0]), _REGIME, own) for own in regimes.values()]
    unfinished = [row for row in rows if row["seeds"] < row["seeds_wanted"]]
    if unfinished:
        columns = [ARM, SEEDS, Column("why", lambda row: str(row["note"]))]
        views.append(table_view("Not finished", columns, unfinished))
    return views


def _slopes(sampler: str, parameter: str, rows: list[Row]) -> Row:
    """One row of the table of slopes."""
    sizes = np.array([row[parameter] for row in rows], float)
    slopes: Row = {"update": rows[0]["update"], "sizes": sizes, "held": rows[0]}
    for name, column in (("factors", "factors_actual"), ("time", "us_per_update")):
        cost = np.array([one[column] for one in rows], float)
        slopes[name], slopes[f"{name}_se"] = slope(sizes, cost)
        slopes[f"{name}_times"] = cost[-1] / cost[0]
    slopes["formula"] = slope(sizes, np.array([COSTS[sampler].at(one) for one in rows], float))[0]
    slopes["exponent"] = COSTS[sampler].exponent(parameter)
    return slopes


def _grown_title(parameter: str, row: Row) -> str:
    held = row["held"]
    others = ", ".join(f"{SYMBOL[name]} = {held[name]:,.4g}" for name in PARAMETERS if name != parameter)
    first, last = row["sizes"][0], row["sizes"][-1]
    return f"Slopes as {SYMBOL[parameter]} grows from {first:,.4g} to {last:,.6g} ({others})"


def _regime_title(row: Row) -> str:
    sizes = ", ".join(f"{SYMBOL[name]} = {row[name]:,.6g}" for name in PARAMETERS)
    return f"Where minibatches can win: {row['n_variables']:,} variables, {sizes}"


def _times(name: str) -> Column:
    return Column(f"{name}, last / first", lambda row: f"{number(row[f'{name}_times'])} ×")


def _fitted(name: str) -> Column:
    def text(row: Row) -> str:
        value, se = row[name], row[f"{name}_se"]
        return plus_minus(value, se) if se >= 0.005 else f"{value:.2f}"

    return Column(f"slope of {name}", text)


def _won(head: str, name: str) -> Column:
    return Column(head, lambda row: "1" if row["sampler"] == "gibbs" else number(row[name]))


_SLOPES = [
    Column("algorithm", lambda row: str(row["update"])),
    _fitted("factors"),
    Column("as published", lambda row: str(row["exponent"])),
    Column("formula here", lambda row: f"{abs(row['formula']):.2f}"),
    _fitted("time"),
    _times("factors"),
    _times("time"),
]
_REGIME = [
    Column("algorithm", lambda row: row["update"] + ("" if row.get("exact", True) else " (biased)")),
    Column("batch", lambda row: row["batch"] or "-"),
    Column("factors", plain("factors_actual", 4)),
    Column("µs", measured("us_per_update")),
    _won("× faster an update", "speedup_per_update"),
    Column("accepted", plain("accept_rate", 3)),
    Column("error", measured("error")),
    _won("× faster at equal error", "speedup_equal_error"),
]


def _costs(arms: list[ArmResult], styles: dict[str, Look], title: str) -> Any:
    lines = swept(arms)
    columns = [name for name in PARAMETERS if any(parameter == name for _, parameter in lines)]
    figure = new_figure(figsize=(max(6.4, 2.4 * len(columns) + 0.6), 5.6), layout="constrained")
    panels = figure.subplots(2, len(columns), sharex="col", sharey="row", squeeze=False)
    figure.suptitle(title, parse_math=False, fontsize=10)
    for column, parameter in enumerate(columns):
        ticks: set[float] = set()
        for own in (own for (_, grows), own in lines.items() if grows == parameter):
            sizes = [sizes_of(arm)[parameter] for arm in own]
            ticks |= set(sizes)
            style: dict[str, Any] = {
                "color": styles[own[0].name].colour,
                "marker": _marker(own[0]),
                "markersize": 4,
                "linewidth": 1.4,
                "label": str(own[0].fact("update")) + ("" if own[0].fact("exact") else " (biased)"),
            }
            for row, name in enumerate(("actual", "us_per_update")):
                panels[row, column].plot(sizes, [arm.each(name).mean() for arm in own], **style)
        axis = panels[1, column]
        axis.set(xscale="log", xlabel=f"{SYMBOL[parameter]}, {PARAMETERS[parameter][2]}")
        axis.set_xticks(sorted(ticks), [_short(tick) for tick in sorted(ticks)])
        axis.minorticks_off()
        for row in (0, 1):
            panels[row, column].set_yscale("log")
            panels[row, column].grid(axis="y", linewidth=0.4, alpha=0.4)
    panels[0, 0].set_ylabel("factor evaluations an update")
    panels[1, 0].set_ylabel("µs an update")
    legend_below(figure, *panels[0])
    return figure


def _marker(arm: ArmResult) -> str:
    return MARKERS[list(COSTS).index(sampler_of(arm)) % len(MARKERS)]


def _short(size: float) -> str:
    return f"{size / 1000:g}k" if size >= 1000 else f"{size:.4g}"


def _regimes(arms: list[ArmResult], styles: dict[str, Look], title: str) -> Any:
    in_sweeps = {arm.problem for own in swept(arms).values() for arm in own}
    graphs: dict[str, list[ArmResult]] = {}
    for arm in arms:
        if arm.problem not in in_sweeps and sampler_of(arm) in COSTS:
            graphs.setdefault(arm.problem, []).append(arm)
    if not graphs:
        return None
    figure, panels = axes(len(graphs), title, height=0.6 + 3.2 * len(graphs))
    for axis, own in zip(panels, graphs.values(), strict=True):
        for arm in own:
            _, error = common(arm, "curve_updates", "curve_error")
            seconds = common(arm, "curve_updates", "curve_seconds")[1].mean(axis=0)
            band(axis, seconds, error, styles[arm.name], errors.label(arm), positive=True)
            axis.lines[-1].set(marker=_marker(arm), markersize=4, markevery=max(1, len(seconds) // 6))
        sizes = ", ".join(
            f"{SYMBOL[name]} = {size:{',.0f' if size >= 1000 else '.4g'}}"
            for name, size in sizes_of(own[0]).items()
        )
        axis.annotate(
            f"{own[0].fact('n_variables'):,} variables, {sizes}", (1, 1), xycoords="axes fraction",
            ha="right", va="bottom", fontsize=8,
        )  # fmt: skip
        axis.set(xscale="log", yscale="log", ylabel="error: mean ℓ2 distance\nof marginals to uniform")
        round_numbers(axis.yaxis)
    panels[-1].set_xlabel("seconds of sampling")
    legend_below(figure, *panels)
    # The graph's sizes stand above each panel: the figure's title goes above the first one's.
    panels[0].set_title(panels[0].get_title(), parse_math=False, wrap=True, pad=16)
    return figure


_FIGURES: Figures = {
    "costs": (
        "Cost of an update as one of Δ, D, L and Ψ grows and the others stay: factor evaluations counted "
        "(above) and time (below), mean over seeds, both axes logarithmic. Slopes are in the tables.",
        _costs,
    ),
    "regimes": (
        "Error of the running marginals against seconds of sampling, one chain on one core, mean ± 1 sd over "
        "seeds, where minibatches can win. By symmetry the true marginals are uniform.",
        _regimes,
    ),
}


def _lead(run: Run) -> list[str]:
    arms = _about(run)
    return [
        f"{len(arms)} arms on {len({arm.problem for arm in arms})} graphs. From one graph to the next one of "
        "Δ, D, L and Ψ grows while the others stay; costs are means over a whole chain. One cell at a time, "
        "as cells that run side by side slow each other down (executor.workers=1)."
    ]


def _legend(run: Run) -> list[str]:
    published = "; ".join(f"{name} O({cost.text}) ({cost.paper})" for name, cost in COSTS.items())
    return [
        "factors: factor evaluations per update, counted as done, all estimators faithful on these graphs. "
        "µs: per update, sampling only. Slopes: least squares of log cost on log size ± standard error from "
        "the scatter. as published: exponent of the parameter in the published cost, a range where only one "
        "of its terms grows; formula here: slope of that formula over the same graphs, constants left out.",
        f"Published costs: {published}.",
        "Batches λ of MIN-Gibbs Ψ², of MGPMH and Poisson-Gibbs L², of DoubleMIN-Gibbs L² and Ψ² (our "
        "choice), so that they grow as the published costs have it. L is varied at fixed Ψ, and Ψ at "
        "fixed L, by the number of variables: Ψ = nL/k for factors of k variables.",
        "Time follows the count of factors where it is most of the work. A minibatch's factors lie anywhere "
        "in memory, plain Gibbs reads its own in order: a factor costs a minibatch more, the more so the "
        "larger the graph, which is why its time may grow with Δ while its count does not.",
        "× faster an update: plain Gibbs' time by this one's. × faster at equal error: plain Gibbs' time by "
        "the time until this one's mean error is down to where plain Gibbs ends; '-' where its chain ends "
        "before that.",
        *_left_out([heads.row(run, arm) | _row(run, arm) for arm in _about(run)]),
    ]


def _left_out(rows: list[Row]) -> list[str]:
    """Where a method is not run because it cannot win, its cost by formula; and where one lost."""
    lines = []
    regimes = [row for row in rows if row["compared"] == "regime"]
    for graph in dict.fromkeys(row["graph"] for row in regimes):
        own = {row["sampler"]: row for row in regimes if row["graph"] == graph}
        some = next(iter(own.values()))
        gibbs, batch = some["D"] * some["Delta"], some["Psi"] ** 2
        if batch > gibbs and not {"min_gibbs", "double_min"} & set(own):
            lines.append(
                f"MIN-Gibbs and DoubleMIN-Gibbs are left out at n = {some['n_variables']:,}: they do not win "
                f"there. A batch of Ψ² is {batch:.3g} evaluations, {batch / gibbs:,.0f} times plain Gibbs' "
                "DΔ; they are for few variables with many factors, where Ψ is small."
            )
        lines += [
            f"{row['update']} does not win at n = {some['n_variables']:,}, Δ = {some['Delta']:,}: its "
            f"updates take {1 / row['speedup_per_update']:.2g} times plain Gibbs'."
            for row in own.values()
            if row.get("speedup_per_update", math.nan) < 1
        ]
    lost: dict[str, list[str]] = {}
    for row in rows:
        if row["compared"] not in ("", "regime") and row.get("speedup_per_update", math.nan) < 1:
            sizes = ", ".join(f"{symbol} = {row[name]:,.4g}" for name, symbol in SYMBOL.items())
            lost.setdefault(row["update"], []).append(f"({sizes})")
    if lost:
        listed = "; ".join(f"{name} at {', '.join(where)}" for name, where in lost.items())
        lines.append(
            f"Where they do not win: an update took longer than plain Gibbs' on the same graph for {listed}."
        )
    return lines


def _arm_caveats(run: Run, arm: ArmResult) -> list[str]:
    return errors.sticks(arm)


def _caveats(run: Run) -> list[str]:
    biased = dict.fromkeys(arm.fact("update") for arm in _about(run) if arm.fact("exact") is False)
    return [f"{name} is biased: its draws do not follow the model exactly." for name in biased]


# fmt: off
SECTION = Section(
    "scaling",
    reads=errors.SECTION.reads, when=_when, replaces=("marginal_error", "long_run"),
    columns=(
        "experiment", "graph", "arm", "sampler", "update", "exact", "seeds", "seeds_wanted", "updates",
        "n_variables", "D", "Delta", "L", "Psi", "batch", "mean_batches", "estimator", "factors_nominal",
        "factors_nominal_sd", "factors_actual", "factors_actual_sd", "us_per_update", "us_per_update_sd",
        "accept_rate", "error", "error_sd", "speedup_per_update", "gibbs_error_s", "speedup_equal_error",
        "compared", "note",
    ),
    row=_row, views=_views, figures=_FIGURES, lead=_lead, legend=_legend, arm_caveats=_arm_caveats,
    caveats=_caveats,
)
# fmt: on
