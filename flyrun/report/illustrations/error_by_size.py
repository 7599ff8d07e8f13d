"""How far answers are from the posterior as data grow."""

from pathlib import Path
from typing import Any

import numpy as np

from flyrun.report import by_size
from flyrun.report.arms import ArmResult, Run
from flyrun.report.colours import styles_of
from flyrun.report.sections import estimates


def _rows(arm: ArmResult) -> float:
    return float(arm.fact("n_data"))


def against_size(run: Run, run_dir: Path) -> Any:
    """Distance of E θ from the stored reference's in sds of the posterior, root mean square over coordinates,
    and the least of a coordinate's sd over the posterior's, against the number of rows; bands: one sd over
    seeds; dots: the reference's own error. Arms whose last answer is of another shape than the reference's
    are left out.
    """
    truths = {arm.name: estimates.truth(run, arm) for arm in run.done}

    def errors(arm: ArmResult) -> tuple[np.ndarray, np.ndarray]:
        known = truths[arm.name]
        assert known is not None
        off, share = estimates.errors(arm, known)
        return np.sqrt((off**2).mean(axis=1)), share.min(axis=1)

    arms = [
        arm
        for arm in run.done
        if (known := truths[arm.name]) is not None
        and known.classes == 1
        and all(len(cell.final_mean) == len(cell.final_sd) == len(known.mean) for cell in arm.cells)
    ]
    lines, labels = by_size.lines_of(arms, _rows), ("rows", "mean off, sds", "least sd ratio")
    floor = {
        _rows(arm): float(np.sqrt(np.mean(known.error**2))) for arm in arms if (known := truths[arm.name])
    }
    title = str(run.info.get("title") or "")
    return by_size.draw(lines, _rows, errors, styles_of(run.arms), labels, title, floor)


FIGURES = {"error_by_size": against_size}
