"""How far combined subposteriors are from the posterior as shards, or coefficients, grow many."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from flyrun.experiments.accuracy.posterior_errors import errors
from flyrun.experiments.accuracy.truth import drawn, exact_arm, truth_of, with_draws
from flyrun.experiments.report import by_size
from flyrun.experiments.report.arms import ArmResult, Run
from flyrun.experiments.report.colours import styles_of


def _shards(arm: ArmResult) -> float:
    return float(arm.fact("workers"))


def _coefficients(arm: ArmResult) -> float:
    return float(arm.fact("n_params"))


def against_shards(run: Run, run_dir: Path) -> Any:
    """Errors of the draws' means (root mean square over coordinates, in sds of the posterior) and sds over
    the posterior's (geometric mean) against the number of shards. Bands are one sd over seeds, each of which
    has a split of its own; dots are the exact chain's error.
    """
    return _against(run, _shards, "shards")


def against_coefficients(run: Run, run_dir: Path) -> Any:
    """The same against the number of coefficients, each with as many shards."""
    return _against(run, _coefficients, "coefficients")


def _against(run: Run, place: Callable[[ArmResult], float], what: str) -> Any:
    truths = {arm.name: truth_of(run, arm) for arm in run.done if with_draws(arm)}

    def values(arm: ArmResult) -> tuple[np.ndarray, np.ndarray]:
        gap = errors(drawn(arm), truths[arm.name])  # type: ignore[arg-type]
        return gap.rms, gap.sd_ratio

    judged = [arm for arm in run.done if (known := truths.get(arm.name)) and known.classes == 1]
    arms = [arm for arm in judged if arm.fact("workers") is not None]
    exact = next((match for arm in arms if (match := exact_arm(run, arm)) is not None), None)
    floor = {}
    if exact in judged and truths[exact.name].source != f"arm {exact.name}":  # type: ignore[union-attr]
        floor = {place(arm): float(values(exact)[0].mean()) for arm in arms}
    lines = by_size.lines_of(arms, place, run.info.get("drawn") or ())
    labels = (what, "off, sds", "sd ratio")
    title = str(run.info.get("title") or "")
    return by_size.draw(
        lines, place, values, styles_of(run.arms), labels, title, floor, "the exact chain itself"
    )


FIGURES = {"error_by_shards": against_shards, "error_by_coefficients": against_coefficients}
