"""What processors beside each other cost in bias, and bring in time."""

from pathlib import Path
from typing import Any

import numpy as np

from flyrun.experiments.report.arms import ArmResult, Run
from flyrun.experiments.report.colours import styles_of
from flyrun.experiments.report.sections import prefetching
from flyrun.ground.page.colours import BLUE, GREEN, ORANGE
from flyrun.ground.page.figures import INK, grid, legend_below
from flyrun.ground.page.render import known


def bias(run: Run, run_dir: Path) -> Any:
    """How far the correlation of neighbours is from the right one, in percent, against the number of
    processors that draw at once, in lockstep and with one local sweep; bars: two Monte Carlo errors. The
    right value is 0 (dotted).
    """
    lines: dict[float, list[ArmResult]] = {}
    for arm in run.done:
        lockstep = arm.setting("sampler", "schedule") == "bsp" and arm.setting("sampler", "sweeps") == 1
        serial = arm.setting("sampler", "name") == "chromatic" and arm.exact is True
        if arm.has("correlation") and known(arm.fact_mean("right_correlation")) and (lockstep or serial):
            lines.setdefault(arm.setting("model", "beta"), []).append(arm)
    if not any(len({_processors(arm) for arm in arms}) > 1 for arms in lines.values()):
        return None
    figure, (axis,) = grid((6.4, 3.2))
    axis.axhline(0.0, color=INK, linewidth=0.8, linestyle=":")
    for (beta, arms), colour in zip(sorted(lines.items()), (BLUE, GREEN, ORANGE), strict=False):
        arms = sorted(arms, key=_processors)
        right = arms[0].fact_mean("right_correlation")
        off = np.array([100.0 * (arm.each("correlation").mean() / right - 1.0) for arm in arms])
        error = [np.sqrt(np.mean(arm.each("correlation_se") ** 2) / arm.done) for arm in arms]
        bars = 200.0 * np.array(error) / right
        style = {"color": colour, "marker": "o", "markersize": 3, "linewidth": 1.4, "label": f"β = {beta:g}"}
        axis.errorbar([_processors(arm) for arm in arms], off, bars, **style)
    places = sorted({_processors(arm) for arms in lines.values() for arm in arms})
    axis.set(xscale="log", xlabel="processors", ylabel="pair correlation off, %")
    axis.set_xticks(places, [f"{place:g}" for place in places])
    axis.minorticks_off()
    legend_below(figure, axis)
    return figure


def _processors(arm: ArmResult) -> int:
    return int(arm.setting("sampler", "processors", default=1))


def perplexity(run: Run, run_dir: Path) -> Any:
    """Perplexity at the end against the tokens on the critical path of a sweep, those of its largest shard;
    each shard count a point, bars: one sd over seeds. Grey: the serial sampler, mean ± 1 sd.
    """
    measured = [arm for arm in run.done if arm.has("of_perplexity")]
    shards = [arm for arm in measured if known(arm.fact_mean("critical_per_round"))]
    if len(shards) < 2:
        return None
    figure, (axis,) = grid((6.4, 3.2))
    for arm in (arm for arm in measured if arm not in shards):
        mean, sd = _ends(arm)
        axis.axhspan(mean - sd, mean + sd, color=INK, alpha=0.15, linewidth=0)
        axis.axhline(mean, color=INK, linewidth=1.0, label=arm.own_name)
    styles = styles_of(run.arms)
    for arm in shards:
        mean, sd = _ends(arm)
        style = {"color": styles[arm.name].colour, "marker": "o", "markersize": 4}
        axis.errorbar(arm.fact_mean("critical_per_round"), mean, sd, **style)
        where = (arm.fact_mean("critical_per_round"), mean)
        axis.annotate(arm.own_name.replace("_", " "), where, (5, 3), textcoords="offset points", fontsize=7)
    axis.set(xscale="log", xlabel="tokens on the critical path of a sweep", ylabel="perplexity")
    legend_below(figure, axis)
    return figure


def _ends(arm: ArmResult) -> tuple[float, float]:
    values = np.array([cell.of_perplexity[-1] for cell in arm.cells])
    return float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else 0.0


def seconds(run: Run, run_dir: Path) -> Any:
    """Seconds an iteration of one chain, alone and with real workers ahead of it, mean ± 1 sd over seeds;
    crosses: what steps a round and the messages' time allow.
    """
    arms = [arm for arm in prefetching.SECTION.arms(run) if arm.done and not prefetching.simulated(arm)]
    alone = next((arm for arm in arms if arm.setting("sampler", "workers") == 1), None)
    if alone is None or len(arms) < 2:
        return None
    figure, (axis,) = grid((6.4, 1.0 + 0.3 * len(arms)))
    styles, base = styles_of(run.arms), alone.each("prefetch_seconds").mean()
    for place, arm in enumerate(reversed(arms)):
        spent = arm.each("prefetch_seconds")
        error = spent.std(ddof=1) if len(spent) > 1 else None
        axis.barh(place, spent.mean(), xerr=error, height=0.6, color=styles[arm.name].colour, alpha=0.6)
        if arm is not alone:
            axis.plot(base / prefetching.possible(arm), place, color=INK, marker="x", linestyle="")
    axis.set_yticks(range(len(arms)), [arm.own_name.replace("_", " ") for arm in reversed(arms)])
    axis.set(xlabel="seconds an iteration", xlim=(0.0, None))
    return figure


def a_site(run: Run, run_dir: Path) -> Any:
    """Nanoseconds that an update of one variable takes against the number of variables, by one thread and by
    several; mean ± 1 sd over seeds of the median over sweeps. Dotted: half of one thread's.
    """
    lines: dict[int, list[ArmResult]] = {}
    for arm in (arm for arm in run.done if arm.has("us_per_site") and arm.exact is True):
        lines.setdefault(arm.setting("sampler", "threads", default=1), []).append(arm)
    if len(lines) < 2:
        return None
    figure, (axis,) = grid((6.4, 3.2))
    for (threads, arms), colour in zip(sorted(lines.items()), (BLUE, ORANGE, GREEN), strict=False):
        arms = sorted(arms, key=lambda arm: arm.fact("updates_per_round"))
        sites = [arm.fact("updates_per_round") for arm in arms]
        spent = np.array([(arm.each("us_per_site").mean(), arm.each("us_per_site").std()) for arm in arms])
        mean, sd = 1000.0 * spent.T
        label = f"{threads} thread{'s' * (threads > 1)}"
        axis.errorbar(sites, mean, sd, color=colour, marker="o", markersize=3, linewidth=1.4, label=label)
        if threads == 1:
            axis.plot(sites, mean / 2.0, color=colour, linestyle=":", linewidth=1.0)
    axis.set(xscale="log", yscale="log", xlabel="variables", ylabel="ns an update")
    legend_below(figure, axis)
    return figure


FIGURES = {
    "time_a_site": a_site,
    "bias_by_processors": bias,
    "perplexity_by_shards": perplexity,
    "seconds_by_team": seconds,
}
