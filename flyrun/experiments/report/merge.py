"""Several runs of one problem as one: every arm of all of them on one page."""

import shlex
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from flyrun.experiments.report.arms import Run
from flyrun.experiments.report.build import ReportResult, load, write
from flyrun.experiments.runner.store import read_chains
from flyrun.ground import files
from flyrun.ground.errors import ConfigError
from flyrun.ground.schema import flat, show

_PROBLEM = ("dataset", "model", "prior")


def build_of_several(
    folders: list[Path], out: Path, console: Console | None = None, pdf: bool = False
) -> ReportResult:
    """Write the report of runs of one problem to the folder `out`, and print it when a console is given.

    pdf: write figures as .pdf, too.
    An arm keeps its name where no other has it, else it is run/arm. Raises ConfigError where the runs'
    problems differ or one is named twice, StoreError where one is missing or a fit's, or `out` cannot be
    written.
    """
    names = [folder.name for folder in folders]
    if len(set(names)) < len(names):
        raise ConfigError(f"report: {max(names, key=names.count)} is named twice; name each run once")
    for folder in folders:
        read_chains(folder)  # a fit has none
    runs = [load(folder) for folder in folders]
    _refuse_other_problems(names, runs)
    with files.writing(out, "choose another out="):
        files.make_folder(out)
    return write(merged(names, runs), out, console, pdf=pdf)


def merged(names: list[str], runs: list[Run]) -> Run:
    """All arms of these runs as those of one."""
    count = Counter(arm.name for run in runs for arm in run.arms)
    arms = []
    for run_name, run in zip(names, runs, strict=True):
        renamed = {name: f"{run_name}/{name}" if times > 1 else name for name, times in count.items()}
        for arm in run.arms:
            sweep = arm.sweep and arm.sweep | {"arm": renamed.get(arm.sweep["arm"], arm.sweep["arm"])}
            arms.append(replace(arm, name=renamed[arm.name], sweep=sweep))

    def common(key: str, joint: str) -> str:
        return joint.join(dict.fromkeys(str(run.info[key]) for run in runs if run.info.get(key)))

    info: dict[str, Any] = {
        "name": "+".join(names),
        **{key: common(key, "; ") for key in ("title", "paper")},
        "experiment": common("experiment", "+"),
        "command": common("command", "\n"),
        "arena": any(run.info.get("arena") for run in runs),
        "held_out": any(run.info.get("held_out") for run in runs),
        "quadrature": any(run.info.get("quadrature") for run in runs),
        "bounded": any(run.info.get("bounded") for run in runs),
        "again": shlex.join(["flyrun", "report", *names]),
        "arms": [entry for run in runs for entry in run.info["arms"]],
    }
    return Run(info, tuple(arms), "; ".join(dict.fromkeys(run.source for run in runs if run.source)))


def _refuse_other_problems(names: list[str], runs: list[Run]) -> None:
    (place, problem), *others = (
        (
            f"{name}, arm {arm['name']}",
            flat({group: arm.get("problem", {}).get(group) or {} for group in _PROBLEM}),
        )
        for name, run in zip(names, runs, strict=True)
        for arm in run.info["arms"]
    )
    for other_place, other in others:
        key = next((key for key in {**problem, **other} if problem.get(key) != other.get(key)), None)
        if key is not None:
            raise ConfigError(
                f"report {' '.join(names)}: {key} is {show(problem.get(key))} in {place} and "
                f"{show(other.get(key))} in {other_place}; only runs of one dataset, model and prior make one"
            )
