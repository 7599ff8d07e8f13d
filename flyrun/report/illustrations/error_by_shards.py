"""How far combined subposteriors are from the posterior as shards grow many."""

from pathlib import Path
from typing import Any

import numpy as np

from flyrun.report import by_size
from flyrun.report.arms import ArmResult, Run
from flyrun.report.colours import styles_of
from flyrun.report.sections import estimates


def _shards(arm: ArmResult) -> float:
    return float(arm.fact("workers"))


def against_shards(run: Run, run_dir: Path) -> Any:
    """Distance of the draws' means from the reference's in sds of the posterior, root mean square over
    coordinates, and the sds over the posterior's, geometric mean, against the number of shards; bands: one sd
    over seeds, each of which has a split of its own; dots: the same distance of the exact chain.
    """

    def errors(arm: ArmResult) -> tuple[np.ndarray, np.ndarray]:
        known = estimates.truth(run, arm)
        assert known is not None
        means, sds = (np.array([getattr(cell, name) for cell in arm.cells]) for name in _DRAWS)
        off, ratio = (means - known.mean) / known.sd, sds / known.sd
        return np.sqrt((off**2).mean(axis=1)), np.exp(np.log(ratio).mean(axis=1))

    with_draws = [arm for arm in run.done if all(cell.draws_mean for cell in arm.cells)]
    arms = [
        arm
        for arm in with_draws
        if arm.fact("workers") is not None and (known := estimates.truth(run, arm)) and known.classes == 1
    ]
    exact = estimates.reference(run)
    floor = {}
    if exact is not None and (known := estimates.truth(run, exact)) and known.source != f"arm {exact.name}":
        floor = {_shards(arm): float(errors(exact)[0].mean()) for arm in arms}
    lines, labels = by_size.lines_of(arms, _shards), ("shards", "mean off, sds", "sd ratio")
    title = str(run.info.get("title") or "")
    return by_size.draw(
        lines, _shards, errors, styles_of(run.arms), labels, title, floor, "the exact chain itself"
    )


_DRAWS = ("draws_mean", "draws_sd")
FIGURES = {"error_by_shards": against_shards}
