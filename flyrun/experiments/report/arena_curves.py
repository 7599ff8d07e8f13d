"""Figures of errors against cost, and of what errors are made of."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from flyrun.experiments.report.arena_errors import AFTER, NOISE, PASSES, errors_of, held
from flyrun.experiments.report.arms import ArmResult
from flyrun.experiments.report.colours import Look
from flyrun.experiments.report.figures import MOST_LINES
from flyrun.ground.page.colours import BLACK, LINES, PALETTE, SKY
from flyrun.ground.page.figures import INK, grid, legend_below, round_numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Z = 1.64  # of a two-sided level of 10 %


def _panel(axis: "Axes", arms: list[ArmResult], styles: dict[str, Look], which: int, cost: str) -> None:
    """One error against a cost: a line an arm, named at its end, a kind of line a reference."""
    golds = list(dict.fromkeys(errors_of(arm)["gold"] for arm in arms))
    ends = []
    for arm in arms:
        arena = errors_of(arm)
        y, se = (np.array(arena[name], float)[which] for name in ("mse", "se"))
        x = np.array(arena["seconds"], float) if cost == "seconds" else PASSES
        if cost == "queries":
            x, y, se = AFTER, *(np.array(arena[name], float)[which] for name in ("after", "after_se"))
        if cost == "critical":
            y, se = (np.array(arena[name], float)[which] for name in ("critical", "critical_se"))
        # A line ends where the arm does: what it would hand in later is the same.
        there = ~np.isnan(y) & np.append(True, np.diff(y) != 0)
        if not there.any():
            continue
        x, y, se = x[there], y[there], np.nan_to_num(se[there])
        base = arm.sweep["arm"] if arm.sweep and arm.sweep["arm"] in styles else arm.name
        line = LINES[golds.index(arena["gold"]) % len(LINES)] if len(golds) > 1 else styles[base].line
        look = Look(styles[base].colour, line)
        axis.plot(x, y, color=look.colour, linestyle=look.line, linewidth=1.4)
        axis.plot(x[-1:], y[-1:], color=look.colour, marker="o", markersize=3)
        axis.fill_between(
            x, np.maximum(y - Z * se, 0.1 * y), y + Z * se, color=look.colour, alpha=0.2, linewidth=0
        )
        ends.append((x[-1], y[-1], arm.name.replace("_", " "), look.colour))
    floor = max(errors_of(arm)["floors"][which] for arm in arms)
    axis.set(xscale="log", yscale="log", ylabel=f"squared error of posterior {('means', 'variances')[which]}")
    low = min(axis.get_ylim()[0], 0.2 * floor) if floor > 1e-12 else axis.get_ylim()[0]
    axis.set_ylim(bottom=low)
    if floor > low:
        axis.axhspan(low, floor, color=INK, alpha=0.2, linewidth=0)
        where: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "fontsize": 7, "va": "top"}
        axis.annotate("noise of the reference", (0.02, floor), **where)
    left, right = axis.get_xlim()
    right *= (right / left) ** 0.45  # room for the names
    axis.set_xlim(left, right)
    if right < 1000 * left:  # else the powers of ten alone are named
        round_numbers(axis.xaxis)
    _name_ends(axis, ends)
    worth = axis.secondary_yaxis("right", functions=(_inverse, _inverse))
    worth.set_ylabel("as good as so many independent draws")


def _name_ends(axis: "Axes", ends: list[tuple[float, float, str, str]]) -> None:
    """Names beside the ends of lines, moved apart where they would lie on each other."""
    (low, high), (left, right) = np.log(axis.get_ylim()), np.log(axis.get_xlim())
    gap, letter = (high - low) / 32, (right - left) / 68
    placed: list[tuple[float, float, float]] = []
    for x, y, name, colour in sorted(ends, key=lambda end: end[1]):
        begin, height = math.log(x), math.log(y)
        end = begin + letter * (2 + len(name))
        for other, until, taken in placed:
            if begin < until and other < end and height < taken + gap:
                height = taken + gap
        placed.append((begin, end, height))
        where = (x, math.exp(height))
        style: dict[str, Any] = {
            "textcoords": "offset points",
            "fontsize": 7,
            "va": "center",
            "color": colour,
        }
        axis.annotate(name, where, (5, 0), **style)


def _inverse(values: ArrayLike) -> Any:
    with np.errstate(divide="ignore"):
        return 1 / np.asarray(values, float)


def curves(cost: str, label: str, caption: str) -> Any:
    """Plot of errors against "passes", "critical" ones, where workers share them, or "seconds"; where numbers
    of data are compared, after set-up.
    """

    def plot(arms: list[ArmResult], styles: dict[str, Look], title: str) -> Any:
        arms = held(arms)
        if not arms or (cost == "critical" and not any(errors_of(arm)["workers"] for arm in arms)):
            return None
        figure, panels = grid((10.0, 4.6), title, columns=2)
        for which, axis in enumerate(panels):
            several = len({errors_of(arm)["gold"] for arm in arms}) > 1
            _panel(axis, arms, styles, which, "queries" if several and cost == "passes" else cost)
            axis.set_xlabel("likelihood queries after set-up" if several and cost == "passes" else label)
        return figure

    plot.__doc__ = caption
    return plot


def regimes(arms: list[ArmResult], styles: dict[str, Look], title: str) -> Any:
    """What errors of posterior means are made of: squared bias (dashed, where seeds tell it) and variance
    over seeds (dotted). Left: the exact chain that forgets its start last, all iterations and, as elsewhere,
    the last half of them (the survey's Figures 2.1, 2.2 and 6.1); right: approximate methods against it
    (Figure 6.2), the first six, but those that answer once, and those that are not told from the truth.
    """
    chains = [arm for arm in held(arms) if arm.exact is True and arm.infos[0]["answers"] == "draws"]
    if not chains:
        return None
    exact = max(chains, key=lambda arm: np.nanmax(np.array(errors_of(arm)["bias"], float)[10:]))
    figure, (left, right) = grid((10.0, 4.2), title, columns=2, sharey=True)
    name = exact.name.replace("_", " ")
    biased = (arm for arm in held(arms) if arm.fact("exact") is False and not _at_floor(arm))
    shown = _alike([exact, *biased])[: MOST_LINES - 3]
    *colours, other = _apart([*(styles[alike[0].name].colour for alike in shown), SKY])
    _bias_and_variance(left, errors_of(exact)["early"], other, f"{name}, all iterations")
    for alike, colour in zip(shown, colours, strict=True):
        _bias_and_variance(
            right, _of(alike[0]), colour, ", ".join(arm.name.replace("_", " ") for arm in alike)
        )
    _bias_and_variance(left, _of(exact), colours[0], name)
    for line, label in (("--", "squared bias"), (":", "variance over seeds")):
        right.plot([], [], color=INK, linestyle=line, linewidth=1.2, label=label)
    for axis in (left, right):
        axis.set(xscale="log", yscale="log", xlabel="passes over the data")
        round_numbers(axis.xaxis)
    left.set_ylabel("posterior means: squared error")
    low, floor = left.get_ylim()[0], errors_of(exact)["floors"][0]
    if floor > low:
        for axis in (left, right):
            axis.axhspan(low, floor, color=INK, alpha=0.2, linewidth=0, label="noise of the reference")
        left.set_ylim(bottom=low)
    legend_below(figure, left, right)
    return figure


def _alike(arms: list[ArmResult]) -> list[list[ArmResult]]:
    """Arms of the same line together: the one would hide the other."""
    groups: list[list[ArmResult]] = []
    for arm in arms:
        line = np.array(_of(arm), float)
        same = (group for group in groups if _equal(np.array(_of(group[0]), float), line))
        if (group := next(same, None)) is None:
            groups.append([arm])
        else:
            group.append(arm)
    return groups


def _equal(line: np.ndarray, other: np.ndarray) -> bool:
    return np.allclose(line, other, rtol=1e-6, atol=0.0, equal_nan=True)


def _at_floor(arm: ArmResult) -> bool:
    """Whether its means end at the reference's noise: decades below all that this figure is about."""
    arena = errors_of(arm)
    return float(np.array(arena["end"], float)[:, 0].sum()) < NOISE * float(arena["floors"][0])


def _apart(wanted: list[str]) -> list[str]:
    """These colours, each once: one that was before becomes the next that nobody wants."""
    free = iter([colour for colour in (*PALETTE, BLACK) if colour not in wanted])
    return [next(free, colour) if colour in wanted[:k] else colour for k, colour in enumerate(wanted)]


def _of(arm: ArmResult) -> list[Any]:
    return [errors_of(arm)["bias"], errors_of(arm)["spread"]]


def _bias_and_variance(axis: "Axes", parts: list[Any], colour: str, label: str) -> None:
    bias, spread = np.array(parts, float)
    whole = bias + spread
    there = ~np.isnan(whole) & np.append(True, np.diff(whole) != 0)  # a line ends where its arm does
    if np.count_nonzero(there) < 2:
        return
    lines = {":": spread > 1e-9 * whole, "--": bias > 0.2 * spread}
    axis.plot(PASSES[there], whole[there], color=colour, linewidth=1.6, label=label)
    for (line, seen), values in zip(lines.items(), (spread, bias), strict=True):
        axis.plot(PASSES[there & seen], values[there & seen], color=colour, linestyle=line, linewidth=1.2)
    axis.plot(PASSES[there][-1:], whole[there][-1:], color=colour, marker="o", markersize=3)
