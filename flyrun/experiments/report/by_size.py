"""Errors of means and ratios of sds against the number of rows, or of shards, of arms run at several."""

from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from flyrun.experiments.report.arms import ArmResult
from flyrun.experiments.report.colours import Look
from flyrun.experiments.report.figures import MOST_LINES, band
from flyrun.ground.page.figures import INK, grid, legend_below, round_numbers

FEWEST = 3
_FEW, _LARGE = 8, 10_000  # so many sizes, so small, are ticks


def lines_of(
    arms: list[ArmResult], rows: Callable[[ArmResult], float], first: Collection[str] = ()
) -> dict[str, list[ArmResult]]:
    """Arms that differ in their number of rows alone, by name, fewest rows first; FEWEST of them at least.

    Of as many names as can be told apart in a figure, beside a floor: those in `first` before others.
    """
    lines: dict[str, list[ArmResult]] = {}
    for arm in sorted(arms, key=rows):
        lines.setdefault(arm.sweep["arm"] if arm.sweep else arm.name, []).append(arm)
    long = [name for name, points in lines.items() if len({rows(arm) for arm in points}) >= FEWEST]
    long.sort(key=lambda name: name not in first)
    return {name: lines[name] for name in long[: MOST_LINES - 1]}


def draw(
    lines: dict[str, list[ArmResult]],
    rows: Callable[[ArmResult], float],
    values: Callable[[ArmResult], tuple[np.ndarray, np.ndarray]],
    styles: dict[str, Look],
    labels: tuple[str, str, str],
    title: str,
    floor: dict[float, float] | None = None,
    floor_of: str = "the reference itself",
) -> Any:
    """The figure; None without lines. values: an arm's errors and ratios, (S,) each; labels: of the axes, the
    one of rows first; floor: by number of rows, the error that what they are held against has itself,
    or `floor_of` has. Lines are means over seeds, bands one sd.
    """
    if not lines:
        return None
    figure, panels = grid((8.0, 3.6), title, columns=2)
    for name, points in lines.items():
        fewest, pairs = min(arm.done for arm in points), [values(arm) for arm in points]
        sizes, look = [rows(arm) for arm in points], styles[points[0].name]
        for k, axis in enumerate(panels):
            each = np.array([pair[k][:fewest] for pair in pairs]).T
            band(axis, sizes, each, look, name, positive=True, marker="o")
    for axis, label in zip(panels, labels[1:], strict=True):
        axis.set(xscale="log", yscale="log", xlabel=labels[0], ylabel=label)
        sizes = sorted({rows(arm) for points in lines.values() for arm in points})
        if len(sizes) <= _FEW and sizes[-1] < _LARGE:
            axis.set_xticks(sizes, [f"{size:g}" for size in sizes])
            axis.set_xticks([], minor=True)
    round_numbers(panels[1].yaxis)
    if floor:
        at = sorted(floor.items())
        panels[0].plot(*zip(*at, strict=True), color=INK, linestyle=":", label=floor_of)
    panels[1].axhline(1.0, color=INK, linewidth=0.8)
    legend_below(figure, panels[0])
    return figure
