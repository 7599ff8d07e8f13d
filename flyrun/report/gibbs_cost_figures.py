"""Costs of an update against Δ, D, L and Ψ, and errors against seconds where minibatches can win."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flyrun.report.arms import ArmResult, Run
from flyrun.report.colours import Look, looks
from flyrun.report.figures import Plots, axes, band, common, legend_below, round_numbers
from flyrun.report.gibbs_cost_table import SYMBOL, graph_of, sampler_of
from flyrun.report.gibbs_figures import MARKERS, label
from flyrun.report.gibbs_table import per_seed
from flyrun.report.slopes import COSTS, PARAMETERS, growing

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def looks_of(run: Run) -> dict[str, Look]:
    """A colour for each algorithm; arms on one graph that share it differ in the line."""
    on_graph: dict[str, list[ArmResult]] = {}
    for arm in run.arms:
        on_graph.setdefault(graph_of(arm), []).append(arm)
    found = [looks({arm.name: sampler_of(arm) or arm.name for arm in arms}) for arms in on_graph.values()]
    return {name: look for part in found for name, look in part.items()}


_MEANING = {
    "Delta": "largest degree",
    "D": "values of a variable",
    "L": "local energy bound",
    "Psi": "total energy bound",
}


def _sizes(arm: ArmResult) -> dict[str, float]:
    facts = ("largest_degree", "n_values", "local_energy_bound", "total_energy_bound")
    return {name: float(arm.fact(fact)) for name, fact in zip(PARAMETERS, facts, strict=True)}


def grown(arms: list[ArmResult]) -> dict[tuple[str, str], list[ArmResult]]:
    """(sampler, parameter) -> its arms between which only that parameter grows, smallest first."""
    found = {}
    for sampler in COSTS:
        own = [arm for arm in arms if sampler_of(arm) == sampler]
        for parameter in PARAMETERS:
            places = growing([_sizes(arm) for arm in own], parameter)
            if places:
                found[sampler, parameter] = [own[k] for k in places]
    return found


def _costs(arms: list[ArmResult], styles: dict[str, Look], title: str) -> Figure | None:
    from matplotlib.figure import Figure

    lines = grown(arms)
    shown = [name for name in PARAMETERS if any(parameter == name for _, parameter in lines)]
    if not shown:
        return None
    figure = Figure(figsize=(max(6.4, 2.4 * len(shown) + 0.6), 5.6), layout="constrained")
    panels = figure.subplots(2, len(shown), sharex="col", sharey="row", squeeze=False)
    figure.suptitle(title, parse_math=False, fontsize=10)
    for column, parameter in enumerate(shown):
        ticks: set[float] = set()
        for sampler in [name for name in COSTS if (name, parameter) in lines]:
            own = lines[sampler, parameter]
            sizes = [_sizes(arm)[parameter] for arm in own]
            ticks |= set(sizes)
            look = {
                "color": styles[own[0].name].colour,
                "marker": MARKERS[list(COSTS).index(sampler) % len(MARKERS)],
                "markersize": 4,
                "linewidth": 1.4,
                "label": str(own[0].fact("update")) + ("" if own[0].fact("exact") else " (biased)"),
            }
            for row, name in enumerate(("actual", "us_per_update")):
                panels[row, column].plot(sizes, [per_seed(arm, name).mean() for arm in own], **look)
        axis = panels[1, column]
        axis.set(xscale="log", xlabel=f"{SYMBOL[parameter]}, {_MEANING[parameter]}")
        axis.set_xticks(sorted(ticks), [_short(tick) for tick in sorted(ticks)])
        axis.minorticks_off()
        for row in (0, 1):
            panels[row, column].set_yscale("log")
            panels[row, column].grid(axis="y", linewidth=0.4, alpha=0.4)
    panels[0, 0].set_ylabel("factor evaluations an update")
    panels[1, 0].set_ylabel("µs an update")
    legend_below(figure, *panels[0])
    return figure


def _whole(size: float) -> str:
    return f"{size:,.0f}" if size >= 1000 else f"{size:.4g}"


def _short(size: float) -> str:
    return f"{size / 1000:g}k" if size >= 1000 else f"{size:.4g}"


def _regimes(arms: list[ArmResult], styles: dict[str, Look], title: str) -> Figure | None:
    in_sweeps = {graph_of(arm) for own in grown(arms).values() for arm in own}
    graphs = list(dict.fromkeys(graph_of(arm) for arm in arms if graph_of(arm) not in in_sweeps))
    if not graphs:
        return None
    figure, panels = axes(len(graphs), title, height=0.6 + 3.2 * len(graphs))
    for axis, graph in zip(panels, graphs, strict=True):
        for arm in (arm for arm in arms if graph_of(arm) == graph):
            _, error = common(arm, "curve_updates", "curve_error")
            seconds = common(arm, "curve_updates", "curve_seconds")[1].mean(axis=0)
            band(axis, seconds, error, styles[arm.name], label(arm), positive=True)
            mark = MARKERS[list(COSTS).index(sampler_of(arm)) % len(MARKERS)]
            axis.lines[-1].set(marker=mark, markersize=4, markevery=max(1, len(seconds) // 6))
        first = next(arm for arm in arms if graph_of(arm) == graph)
        sizes = ", ".join(f"{SYMBOL[name]} = {_whole(size)}" for name, size in _sizes(first).items())
        axis.annotate(
            f"{first.fact('n_variables'):,} variables, {sizes}", (1, 1), xycoords="axes fraction", ha="right",
            va="bottom", fontsize=8,
        )  # fmt: skip
        axis.set(xscale="log", yscale="log", ylabel="error: mean ℓ2 distance\nof marginals to uniform")
        round_numbers(axis.yaxis)
    panels[-1].set_xlabel("seconds of sampling")
    legend_below(figure, *panels)
    _room_for_titles(panels)
    return figure


def _room_for_titles(panels) -> None:
    """The graph's sizes stand above each panel: the figure's title goes above the first one's."""
    panels[0].set_title(panels[0].get_title(), parse_math=False, wrap=True, pad=16)


FIGURES: Plots = {
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
