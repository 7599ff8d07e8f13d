"""How far answers are from the posterior as data grow."""

from pathlib import Path
from typing import Any

import numpy as np

from flyrun.experiments.accuracy.posterior_errors import errors, rms
from flyrun.experiments.accuracy.truth import handed_in, truth_of
from flyrun.experiments.report import by_size
from flyrun.experiments.report.arms import ArmResult, Run
from flyrun.experiments.report.colours import styles_of


def _rows(arm: ArmResult) -> float:
    return float(arm.fact("n_data"))


def against_size(run: Run, run_dir: Path) -> Any:
    """Distance of E θ from the stored reference's in sds of the posterior, root mean square over coordinates,
    and the least of a coordinate's sd over the posterior's, against the number of rows; bands: one sd over
    seeds; dots: the reference's own error. Arms whose last answer is of another shape than the reference's
    are left out.
    """
    truths = {arm.name: truth for arm in run.done if (truth := truth_of(run, arm)) and truth.classes == 1}
    answers = {name: handed_in(arm, truths[name]) for arm in run.done if (name := arm.name) in truths}

    def values(arm: ArmResult) -> tuple[np.ndarray, np.ndarray]:
        gap = errors(answers[arm.name], truths[arm.name])  # type: ignore[arg-type]
        return gap.rms, gap.ratio.min(axis=1)

    judged = {name for name, answer in answers.items() if answer is not None and answer.sd.size}
    lines = by_size.lines_of([arm for arm in run.done if arm.name in judged], _rows)
    floor = {_rows(arm): float(rms(truths[arm.name].error)) for arm in run.done if arm.name in judged}
    title, labels = str(run.info.get("title") or ""), ("rows", "off, sds", "least sd ratio")
    return by_size.draw(lines, _rows, values, styles_of(run.arms), labels, title, floor)


FIGURES = {"error_by_size": against_size}
