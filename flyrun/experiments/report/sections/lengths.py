"""Effective draws per query against the length of the chain that R-CODA sees: the same chains cut short.

R-CODA fits an autoregression whose order is at most 10 log10 T to T draws, so of a slow chain it sees the
more effective draws per iteration the shorter it is. Figures of different lengths cannot be compared.
"""

from typing import Any

import numpy as np

from flyrun.experiments.report.arms import ArmResult, Run
from flyrun.experiments.report.colours import Look
from flyrun.experiments.report.draws import Draws
from flyrun.experiments.report.figures import band
from flyrun.experiments.report.metrics import table
from flyrun.experiments.report.section import Row, Section
from flyrun.experiments.report.sections import ess
from flyrun.ground.page import words
from flyrun.ground.page.figures import axes, legend_below, round_numbers
from flyrun.ground.page.metrics import Metric, put
from flyrun.ground.page.render import View

#: iterations after burn-in that chains are cut to
LENGTHS = tuple(digit * 10**power for power in (3, 4, 5, 6) for digit in (1, 2, 5))
#: table's word for what is over coordinates, as its columns begin
_OVER = {"mean": "speedup_at", "median": "speedup_median_at"}


def summarise(draws: Draws) -> Row:
    """cut_to: lengths in iterations. cut_mean, cut_median: R-CODA's effective draws of so many first
    iterations after burn-in per 1,000 of them, over coordinates. cut_queries: their queries per iteration.

    {} where draws are thinned: R-CODA would see another chain.
    """
    queries = draws.values("sample_stats", "queries")
    if not draws.real() or queries is None or draws.info.get("thin", 1) != 1:
        return {}
    positions = draws.positions()
    cut_to = [n for n in LENGTHS if n <= len(positions)]
    per_1000 = [1000 * ess.sizes(positions[:n]) / n for n in cut_to]
    return {
        "cut_to": cut_to,
        "cut_mean": [float(np.mean(sizes)) for sizes in per_1000],
        "cut_median": [float(np.median(sizes)) for sizes in per_1000],
        "cut_queries": [float(np.mean(queries[:n])) for n in cut_to],
    }


def _cut(arm: ArmResult, name: str, length: int) -> np.ndarray:
    """A value by seed, (S,), of chains cut to a length that all of them have."""
    return np.array([getattr(cell, f"cut_{name}")[cell.cut_to.index(length)] for cell in arm.cells])


def _lengths(arm: ArmResult) -> list[int]:
    return min((cell.cut_to for cell in arm.cells), key=len) if arm.has("cut_to") else []


def _row(run: Run, arm: ArmResult) -> Row:
    row: Row = {}
    base = ess.base_of(run, arm)
    for length in _lengths(arm):
        put(row, f"ess_at_{length}", _cut(arm, "mean", length))
        for over, name in _OVER.items():
            if base is not None and length in _lengths(base):

                def of(side: ArmResult, over: str = over, length: int = length) -> tuple[np.ndarray, ...]:
                    return _cut(side, over, length), _cut(side, "queries", length)

                ess.put_ratio(row, f"{name}_{length}", arm, base, of)
    return row


def _metrics(run: Run) -> list[Metric]:
    lengths = sorted({length for arm in run.arms for length in _lengths(arm)})
    names = ("ess_at", *_OVER.values())
    return [Metric(f"{name}_{length}", f"{length:,}", by_seed=True) for name in names for length in lengths]


def _views(rows: list[Row]) -> list[View]:
    titles = {"ess_at": "ESS/1000 iter against the length that R-CODA sees, mean over coordinates"}
    titles |= {name: f"Speedup against the length that R-CODA sees, {over} over coordinates"
               for over, name in _OVER.items()}  # fmt: skip
    views = []
    for name, title in titles.items():
        there = [length for length in LENGTHS if f"{name}_{length}" in rows[0]]
        shown = [Metric(f"{name}_{length}", f"{length:,}", by_seed=True) for length in there]
        views.append(table(title, shown, rows))
    return views


_LEGEND = """
Length: iterations after burn-in, of the same chains cut short, every draw kept. R-CODA's autoregression has
an order of at most 10 log10 of the length, so of a slow chain it sees the more effective draws per iteration
the shorter it is: compare equal lengths.
"""


def _figure(arms: list[ArmResult], styles: dict[str, Look], title: str) -> Any:
    """R-CODA's effective draws per 1,000 iterations, mean over coordinates (above), and per query relative to
    the regular arm, mean (middle) and median (below), against the length that chains are cut to; mean ± 1 sd
    over seeds. Dotted: what the paper gives, whose lengths are not known.
    """
    base = next((arm for arm in arms if arm.own_name == "regular"), None)
    drawn = [arm for arm in arms if len(_lengths(arm)) > 1]
    if base is None or not drawn:
        return None
    figure, panels = axes(3, title, height=7.0)
    for arm in drawn:
        look = styles[arm.name]
        lengths = [length for length in _lengths(arm) if length in _lengths(base)]
        both = [(arm, base, length) for length in lengths]
        values = np.array([_cut(arm, "mean", length) for length in lengths]).T
        band(panels[0], lengths, values, look, arm.name, positive=True, marker="o")
        for panel, over in zip(panels[1:], _OVER, strict=True):
            speedups = np.array([_speedups(over, *pair) for pair in both]).T
            band(panel, lengths, speedups, look, arm.name, positive=True, marker="o")
        for panel, key in zip(panels[:2], ("ess_per_1000", "speedup"), strict=True):
            if key in arm.paper:
                panel.axhline(arm.paper[key], color=look.colour, linewidth=1.0, linestyle=":")
    labels = ("ESS/1000 iter", "speedup, mean", "speedup, median")
    for panel, label in zip(panels, labels, strict=True):
        panel.set(xscale="log", yscale="log", ylabel=label)
        round_numbers(panel.yaxis)
    panels[-1].set_xlabel("iterations after burn-in")
    round_numbers(panels[-1].xaxis)
    legend_below(figure, panels[0])
    return figure


def _speedups(over: str, arm: ArmResult, base: ArmResult, length: int) -> np.ndarray:
    """An arm's effective draws per query by seed, (S,), relative to the mean over seeds of the base's."""
    ours, theirs = (_cut(side, over, length) / _cut(side, "queries", length) for side in (arm, base))
    return ours / theirs.mean()


SECTION = Section(
    "lengths", place=210,
    reads=("cut_to",), only="reference_name", summarise=summarise, metrics=_metrics, row=_row,
    views=_views, figures={"lengths": _figure}, legend=lambda run: words.lines(_LEGEND),
    code=("flyrun.ground.diagnostics.coda",),
    when=lambda run: any(len(_lengths(arm)) > 1 for arm in run.arms),
)  # fmt: skip
