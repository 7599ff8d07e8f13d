"""What an effective draw costs as data grow, of arms exact and biased."""

from pathlib import Path
from typing import Any

import numpy as np

from flyrun.experiments.report.arms import Run
from flyrun.experiments.report.colours import styles_of
from flyrun.experiments.report.sections import accuracy, weights
from flyrun.ground.page.figures import grid, legend_below

#: what tells of an arm's cost, and by which name
_COSTS = (accuracy.SECTION, "queries_per_draw"), (weights.SECTION, "queries_per_effective")


def against_size(run: Run, run_dir: Path) -> Any:
    """Likelihood queries an effective draw, by the worse of means and squares, or of weighted draws by their
    weights, against the number of data: once set up, and with set-up spread over 1,000 draws. Round marks
    are exact arms, crosses biased ones; arms that were run at one size alone are left out.
    """
    styles, wanted = styles_of(run.arms), run.info.get("drawn")
    lines: dict[str, list[tuple]] = {}
    for arm in run.done:
        base = arm.sweep["arm"] if arm.sweep else arm.own_name
        if wanted and base not in wanted:
            continue
        costs = [section.cells_of(run, arm).get(key) for section, key in _COSTS if section.about(arm)]
        once = next((cost for cost in costs if cost is not None), None)
        if once is not None:
            setup = arm.fact_mean("setup_queries") / accuracy.DRAWS
            lines.setdefault(base, []).append((arm.fact("n_data"), arm, once, once + setup))
    lines = {base: points for base, points in lines.items() if len({point[0] for point in points}) > 1}
    if not lines:
        return None
    figure, panels = grid((8.6, 4.6), columns=2, sharex=True, sharey=True)
    for base, points in lines.items():
        points.sort(key=lambda point: point[0])
        first = points[0][1]
        look, exact = styles[first.name], first.fact("exact") is not False
        for which, panel in enumerate(panels, start=2):
            x, y = np.array([(point[0], point[which]) for point in points], float).T
            marks = {"marker": "o" if exact else "x", "markersize": 4, "linewidth": 1.4}
            panel.plot(x, y, color=look.colour, linestyle=look.line, label=base, **marks)
    for panel, title in zip(panels, ("once set up", "with set-up, 1,000 draws"), strict=True):
        panel.set(xscale="log", yscale="log", xlabel="number of data")
        panel.set_title(title)
    panels[0].set_ylabel("likelihood queries an effective draw")
    legend_below(figure, panels[0])
    return figure


FIGURES = {"cost_by_size": against_size}
