"""Figures are drawn, in one style, and saved twice; what lines, bands and legends share."""

import importlib
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from flyrun.experiments.config.catalogue import illustrations
from flyrun.experiments.report.arms import ArmResult, Run
from flyrun.experiments.report.colours import Look, styles_of
from flyrun.experiments.report.section import Section
from flyrun.ground.page.figures import MOST_LINES, drawn

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw(
    run: Run,
    folder: Path,
    sections: list[Section],
    each: Callable[..., Iterable] = map,
    pdf: bool = False,
) -> tuple[dict[str, tuple[str, str]], list[str], list[str]]:
    """Write every figure of these parts, and those that the experiment asks for by name, as .png and .svg,
    and as .pdf where asked for.

    Returns name -> (caption, SVG text), why some are left out, and what speaks against publishing some.
    each: `map`, or what does its work.
    """
    title, styles = str(run.info.get("title") or run.info.get("name") or ""), styles_of(run.arms)
    plots: dict[str, partial] = {}
    left_out = []
    for file in run.info.get("figures") or ():
        if file in illustrations():
            figures = importlib.import_module(f"flyrun.experiments.report.illustrations.{file}").FIGURES
            plots |= {name: partial(plot, run, folder) for name, plot in figures.items()}
        else:
            left_out.append(f"figures: {file} is no figure that this flyrun draws.")
    chosen = [arm for arm in run.done if arm.own_name in (run.info.get("drawn") or ())] or run.done
    for section in sections:
        if arms := [arm for arm in chosen if section.about(arm)]:
            few = _few(arms)
            some = f"{title} ({len(few)} of {len(arms)} arms)" if len(few) < len(arms) else title
            for name, plot in section.figures.items():
                by_sweep = name in section.by_sweep
                plots[name] = partial(plot, arms if by_sweep else few, styles, title if by_sweep else some)
    paths, more, against = drawn(plots, folder / "figures", each, pdf)
    return paths, left_out + more, against


def _few(arms: list[ArmResult]) -> list[ArmResult]:
    """As many arms as can be told apart, the first ones, those that no sweep made before others."""
    own = [arm for arm in arms if arm.sweep is None] + [arm for arm in arms if arm.sweep is not None]
    return [arm for arm in arms if arm in own[:MOST_LINES]]


def bands(
    axis: "Axes", arms: Iterable[ArmResult], styles: dict[str, Look], x: str, y: str, positive: bool = False
) -> None:
    """A band of each arm: what its cells call y against what they call x."""
    for arm in arms:
        band(axis, *common(arm, x, y), styles[arm.name], arm.name, positive=positive)


def common(arm: ArmResult, x: str, y: str) -> tuple[np.ndarray, np.ndarray]:
    """x (G,) of the shortest seed and y (S, G) of all seeds."""
    size = min(len(getattr(cell, x)) for cell in arm.cells)
    values = np.array([getattr(cell, y)[:size] for cell in arm.cells], dtype=float)
    return np.array(getattr(arm.cells[0], x)[:size], dtype=float), values


def band(axis, x, values, look: Look, label: str, positive: bool = False, marker: str | None = None) -> None:
    """Mean line and a band of one sd; on a logarithmic axis the band stays above 0.

    One method's lines on other data have one look: each is paler than the one before.
    """
    mean = values.mean(axis=0)
    if positive and not (mean > 0).any():
        return  # a chain at rest, or of too few draws, has nothing to show there
    before = [Look(line.get_color(), line.get_linestyle()) for line in axis.lines]
    axis.plot(
        x, mean, color=look.colour, linestyle=look.line, label=label.replace("_", " "), linewidth=1.4,
        marker=marker, markersize=3, alpha=0.7 ** before.count(look),
    )  # fmt: skip
    if len(values) > 1:
        sd = values.std(axis=0, ddof=1)
        low = np.maximum(mean - sd, 0.1 * mean) if positive else mean - sd
        axis.fill_between(x, low, mean + sd, color=look.colour, alpha=0.25, linewidth=0)
