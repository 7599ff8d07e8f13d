"""A bundle's arms run again, and what differs: bit for bit, or by how many standard errors."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

from rich.console import Console

from flyrun.experiments.check import judge
from flyrun.experiments.check.measure import machine
from flyrun.experiments.check.run import show
from flyrun.experiments.compare import LEVEL, MARGIN
from flyrun.experiments.compare.bundle import ORIGIN, TABLE, Bundle, measured, origin, read
from flyrun.experiments.compare.compare import compare
from flyrun.experiments.compare.differences import TIMES
from flyrun.experiments.compare.sides import Side, parsed, read_run
from flyrun.experiments.config.arm import Arm, Job
from flyrun.experiments.config.composed import CONFIG, as_job
from flyrun.experiments.data import fingerprint
from flyrun.experiments.report.build import build, summarise
from flyrun.experiments.runner import store
from flyrun.experiments.runner.launch import run
from flyrun.ground.errors import ConfigError, DataError
from flyrun.ground.executor import Local
from flyrun.ground.schema import listing


def rerun(
    path: Path,
    name: str | None,
    data: Path | None,
    results_dir: Path,
    workers: int | None,
    fresh: bool,
    console: Console,
) -> int:
    """Run a bundle's arms as results_dir/runs/<name> and tell what differs; return the exit code.

    data: where the table that the arms read is here.  fresh: repeat finished cells.
    Raises ConfigError where a package is missing, StoreError where the file is no bundle, DataError where
    the data are others.
    """
    bundle = read(path)
    say = partial(console.print, soft_wrap=True, markup=False)
    for line in _other_versions(bundle):
        say(f"! {line}")
    name = name or f"{bundle.about['run']}_rerun"
    job = as_job(bundle.texts[CONFIG], str(path), name, results_dir, Local(workers=workers))
    again = ["run", str(path), "--name", name, "--results-dir", str(results_dir)]
    again += [] if data is None else ["--data", str(data)]
    job = replace(_with_data(job, bundle, data), fresh=fresh, run_overrides=again)
    result = run(job, console, summarise=summarise)
    if not result.interrupted:
        build(result.run_dir)
    return result.exit_code or _tell(bundle, result.run_dir, say, console)


def _other_versions(bundle: Bundle) -> list[str]:
    """A line on packages whose version is another here. ConfigError where one is missing."""
    others = []
    for package, version in bundle.about["packages"].items():
        if not re.fullmatch(r"[\w.-]+ [\w.!+-]+", f"{package} {version}"):
            raise ConfigError(f"{bundle.path}: {package!r} {version!r} is no package; ask for another bundle")
        try:
            here = metadata.version(package)
        except metadata.PackageNotFoundError:
            remedy = f"type `pip install {package}=={version}`"
            raise ConfigError(
                f"{bundle.path}: needs the package {package} {version}, which is not installed; {remedy}"
            ) from None
        others += [f"{package} {here}, there {version}"] * (here != version)
    return [f"packages have other versions here: {listing(others)}."] if others else []


def _with_data(job: Job, bundle: Bundle, data: Path | None) -> Job:
    """The job with its table where it is here. DataError where that holds other data."""
    settings = {arm["name"]: arm.get("settings", {}) for arm in json.loads(bundle.texts["run.json"])["arms"]}
    arms = []
    for arm in job.arms:
        if arm.dataset.path is not None:
            arm = arm if data is None else replace(arm, dataset=replace(arm.dataset, path=str(data)))
            _refuse_other_data(arm, settings.get(arm.name, {}).get("dataset", {}).get("sha256"))
        arms.append(arm)
    return replace(job, arms=tuple(arms))


def _refuse_other_data(arm: Arm, digest: object) -> None:
    here = fingerprint(arm.dataset)
    if digest != here:
        raise DataError(
            f"dataset.path={arm.dataset.path}: holds other data than the bundle's run read (sha256 "
            f"{here[:12]}, there {str(digest)[:12]}); name the right file with --data FILE"
        )


def _tell(bundle: Bundle, run_dir: Path, say: Callable[..., object], console: Console) -> int:
    """Print the verdicts and, where bits differ, the tables' differences; 1 where an arm is another."""
    cells, there = store.open_cells(run_dir), bundle.about
    ours, theirs = measured(cells), there["arms"]
    for arm in ours.keys() & theirs.keys():
        if ours[arm]["draws"] == theirs[arm]["draws"]:  # then it is the same, whatever else has changed
            ours[arm]["setup"] = theirs[arm]["setup"]
    apart = _apart(there, {"machine": machine(), **origin(cells)})
    comparisons = len(ours) * len(judge.STATISTICS)
    verdicts = {arm: judge.judge(theirs.get(arm), ours[arm], apart, comparisons) for arm in ours}
    made_with = (f"{key} {there['versions'].get(key)}" for key in ("flyrun", "commit"))
    say(f"bundle: {bundle.path} ({', '.join(made_with)})")
    kinds = show(run_dir.name, verdicts, say)
    if set(kinds) != {judge.EXACT}:
        rows, environment = parsed(bundle.texts[TABLE], ".json", str(bundle.path))
        sides = _untimed(Side(bundle.path, rows, origin=environment)), _untimed(read_run(run_dir))
        compare(sides, LEVEL, MARGIN, None, False, console)
    return int(bool({judge.DIFFERS, judge.NEW} & set(kinds)))


def _untimed(side: Side) -> Side:
    """A side without seconds, which a single run on either does not compare."""
    rows = {arm: {key: row[key] for key in row if key not in TIMES} for arm, row in side.rows.items()}
    return replace(side, rows=rows)


def _apart(there: dict[str, Any], here: dict[str, Any]) -> str:
    """Why bits may differ; "" where processor and libraries are the same."""
    changed = {
        key: f"{key} {value}, there {there[part].get(key)}"
        for part in ORIGIN
        for key, value in here[part].items()
        if key not in ("flyrun", "commit") and str(value) != str(there[part].get(key))
    }
    return "; ".join(changed.values())
