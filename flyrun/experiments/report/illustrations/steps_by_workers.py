"""How far prefetching gets by the number of workers, and what messages leave of it."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from flyrun.experiments.report.arms import ArmResult, Run
from flyrun.experiments.report.colours import Look, styles_of
from flyrun.experiments.report.figures import band
from flyrun.experiments.report.sections import prefetching
from flyrun.ground.page.figures import grid, legend_below, round_numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LABELS = {"workers": ("workers", "steps a round"), "latency": ("latency, evaluations", "speedup")}


def by_workers(run: Run, run_dir: Path) -> Any:
    """Steps a round against the number of simulated workers, without latency (dotted: in theory), and speedup
    against latency; means over seeds, bands: one sd.
    """
    styles = styles_of(run.arms)
    arms = [arm for arm in prefetching.SECTION.arms(run) if prefetching.simulated(arm)]
    several = [arm for arm in arms if arm.setting("sampler", "workers") > 1]
    waiting = [arm for arm in several if arm.setting("sampler", "latency")]
    shown = {"workers": [arm for arm in several if arm not in waiting], "latency": waiting}
    shown = {key: drawn for key, drawn in shown.items() if len({_place(arm, key) for arm in drawn}) > 1}
    if not shown:
        return None
    figure, panels = grid((8.0, 3.6), columns=len(shown))
    for panel, (key, drawn) in zip(panels, shown.items(), strict=True):
        for name, points in _lines(drawn, key).items():
            _draw(panel, key, name, points, styles.get(name, styles[points[0].name]))
        across, up = _LABELS[key]
        panel.set(xscale="log", yscale="log", xlabel=across, ylabel=up)
        places = sorted({_place(arm, key) for arm in drawn})
        panel.set_xticks(places, [f"{place:g}" for place in places])
        panel.minorticks_off()
        round_numbers(panel.yaxis)
    legend_below(figure, panels[0])
    return figure


def _place(arm: ArmResult, key: str) -> float:
    return float(arm.setting("sampler", key))


def _lines(arms: list[ArmResult], key: str) -> dict[str, list[ArmResult]]:
    lines: dict[str, list[ArmResult]] = {}
    for arm in sorted(arms, key=lambda arm: _place(arm, key)):
        lines.setdefault(arm.sweep["arm"] if arm.sweep else arm.own_name, []).append(arm)
    return lines


def _draw(panel: "Axes", key: str, name: str, points: list[ArmResult], look: Look) -> None:
    fewest, places = min(arm.done for arm in points), [_place(arm, key) for arm in points]
    if key == "workers":
        steps = [arm.each("prefetch_steps")[:fewest] for arm in points]
        theory = [arm.fact_mean("expected_steps") for arm in points]
        panel.plot(places, theory, color=look.colour, linestyle=":", linewidth=0.9)
    else:
        steps = [1.0 / arm.each("prefetch_evaluations")[:fewest] for arm in points]
    band(panel, places, np.array(steps).T, look, name, positive=True, marker="o")


FIGURES = {"steps_by_workers": by_workers}
