"""What the number of data costs: queries per effective sample, effective samples a second, set-up, memory."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from flyrun.experiments.report.arms import Run
from flyrun.experiments.report.colours import KNOWN
from flyrun.experiments.report.sections import cost as of_cost
from flyrun.experiments.runner.store import swept
from flyrun.ground.page.figures import INK, grid, round_numbers

BYTES = 4  # of a stored feature


def against_size(run: Run, run_dir: Path) -> Any:
    """Against the number of data: likelihood queries per effective sample and effective samples per second of
    sampling, mean ± 1 sd over chains; seconds of set-up (MAP, bounds, rates); the most memory that a process
    held, pages of the mapped features included. Dashed: as bright data fall with local bounds, and the memory
    of the features alone.

    None where fewer than two sizes along the axis n are done. N is what each arm read, for a typed
    dataset.n_data counts more than the axis' point.
    """
    along = swept(run.info, "n")
    rows = [
        {name: arm.fact_mean(name) for name in ("n_data", "n_params", "setup_s")}
        | of_cost.SECTION.cells_of(run, arm)
        for arm in run.arms
        if arm.name in along and of_cost.SECTION.about(arm)
    ]
    if len({row["n_data"] for row in rows}) < 2:
        return None
    table = pd.DataFrame(rows).sort_values("n_data")
    sizes = table["n_data"].to_numpy(dtype=float)
    figure, (cost, speed, setup, memory) = grid((6.8, 5.0), "", 2, 2, sharex=True)
    for axis, name, label in (
        (cost, "queries_per_ess", "likelihood queries\nper effective sample"),
        (speed, "ess_per_s", "effective samples\nper second"),
        (setup, "setup_s", "set-up (s)"),
        (memory, "peak_mb", "peak memory (MB)"),
    ):
        values = table[name].to_numpy(dtype=float)
        spread = np.nan_to_num(table.get(f"{name}_sd", 0.0 * table[name]).to_numpy(dtype=float))
        colour = KNOWN["firefly_hmc"]
        axis.errorbar(sizes, values, spread, color=colour, marker="o", capsize=3, linewidth=1.5)
        for x, y, top in zip(sizes, values, values + spread, strict=True):
            text = f"{y:,.0f}" if y >= 10 else f"{y:.2g}"
            axis.annotate(text, (x, top), (0, 6), textcoords="offset points", fontsize=8, ha="center")
        axis.set(xscale="log", yscale="log", ylabel=label)
        axis.margins(x=0.2)
        axis.set_ylim(0.4 * np.nanmin(values), 3.0 * np.nanmax(values))
        round_numbers(axis.yaxis)
    slope = table["queries_per_ess"].iloc[-1] * np.sqrt(sizes[-1] / sizes)
    cost.plot(sizes, slope, color=INK, linewidth=1.0, linestyle="--", label="as $N^{-1/2}$")
    cost.legend(loc="lower left")
    rows = sizes * table["n_params"].to_numpy(dtype=float) * BYTES / 1e6
    memory.plot(sizes, rows, color=INK, linewidth=1.0, linestyle="--", label="the features alone")
    memory.set_ylim(bottom=0.5 * rows.min())
    round_numbers(memory.yaxis)
    memory.legend(loc="lower right")
    for axis in (setup, memory):
        axis.set_xlabel("number of data")
    return figure


FIGURES = {"tall_scaling": against_size}
