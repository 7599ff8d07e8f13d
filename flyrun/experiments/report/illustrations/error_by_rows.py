"""How far answers are from the posterior's mean, against rows read."""

from pathlib import Path
from typing import Any

import numpy as np

from flyrun.experiments.accuracy.posterior_errors import rms
from flyrun.experiments.accuracy.truth import truth_of
from flyrun.experiments.report.arms import Run
from flyrun.experiments.report.colours import styles_of
from flyrun.experiments.report.draws import Draws
from flyrun.experiments.report.figures import band
from flyrun.experiments.runner.store import open_cells
from flyrun.ground.page.figures import grid, legend_below


def against_rows(run: Run, run_dir: Path) -> Any:
    """Distance of what would be handed in from the posterior's mean, in its sds, root mean square over
    coordinates, against rows read, set-up included: mean and one sd over seeds. Steps that stay long hover;
    those that shrink too soon stop on the way.
    """
    looks = styles_of(run.arms)
    figure, (axis,) = grid((6.4, 4.2), str(run.info.get("title") or ""))
    cells = [cell for cell in open_cells(run_dir, run.info) if cell.state == "done"]
    for arm in run.done:
        if (truth := truth_of(run, arm)) is None:
            continue
        ways = []
        for cell in (cell for cell in cells if cell.arm == arm.name):
            draws = Draws(cell)
            cost, mean = (draws.values("estimate", name) for name in ("visits", "mean"))
            draws.close()
            if cost is not None and mean is not None and len(cost):
                ways.append((np.asarray(cost, float), rms((np.asarray(mean) - truth.mean) / truth.sd)))
        if not ways:
            continue
        first, last = max(cost[0] for cost, _ in ways), min(cost[-1] for cost, _ in ways)
        at = np.geomspace(first, last, 60)
        off = np.array([np.interp(at, cost, values) for cost, values in ways])
        band(axis, at, off, looks[arm.name], arm.name, positive=True)
    if not axis.lines:
        return None
    axis.set(xscale="log", yscale="log", xlabel="rows read", ylabel="off, sds")
    legend_below(figure, axis)
    return figure


FIGURES = {"error_by_rows": against_rows}
