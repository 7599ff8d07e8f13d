"""A job as it was composed, as YAML: kept with a run, and made a job again elsewhere."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml

from flyrun.experiments.config.arm import ARM_GROUPS, Arm, Job
from flyrun.experiments.config.axes import Swept
from flyrun.experiments.config.job_keys import figures
from flyrun.ground.errors import ConfigError
from flyrun.ground.run_files import folder_name
from flyrun.ground.schema import Choice, build, listing

CONFIG = "config.yaml"
_WORDS = ("title", "paper", "description")
_SWITCHES = ("arena", "held_out", "quadrature", "bounded")
_KEYS = ("name", "experiment", *_WORDS, "figures", "drawn", *_SWITCHES)


def as_yaml(job: Job, before: str, names: list[str]) -> str:
    """The arms of these names with all their settings; of those that `job` lacks, as `before` has them."""
    arms = _read(before, "").get("arms", {}) if before else {}
    for arm in job.arms:
        arms[arm.name] = {**({"sweep": asdict(arm.swept)} if arm.swept else {}), **arm.settings()}
    whole = {key: list(value) if isinstance(value := getattr(job, key), tuple) else value for key in _KEYS}
    return yaml.safe_dump(
        whole | {"arms": {name: arms[name] for name in names if name in arms}},
        sort_keys=False, allow_unicode=True, width=110, default_flow_style=None,
    )  # fmt: skip


def as_job(text: str, where: str, name: str, results_dir: Path, executor: Choice) -> Job:
    """The job of such a YAML, under another name. Nothing in it is run: every value is checked as if typed.

    Raises ConfigError, naming `where` the text is from, for what is no such YAML or unsuitable.
    """
    stored = _read(text, where)
    folder_name(name, f"--name {name}")
    given, experiment = stored["arms"].items(), str(stored.get("experiment"))
    arms = [_arm(str(key), dict(groups), experiment) for key, groups in given]
    if not arms:
        raise ConfigError(f"{where}: has no arm; make it again of a run with arms")
    return Job(
        name=name,
        experiment=None if stored.get("experiment") is None else str(stored["experiment"]),
        arms=tuple(arms),
        executor=executor,
        results_dir=results_dir,
        figures=figures(stored.get("figures") or []),
        drawn=tuple(map(str, stored.get("drawn") or ())),
        dashed=True,
        **{key: str(stored.get(key) or "") for key in _WORDS},  # type: ignore[arg-type]
        **{key: bool(stored.get(key)) for key in _SWITCHES},  # type: ignore[arg-type]
    )


def _arm(name: str, groups: dict[str, Any], experiment: str) -> Arm:
    folder_name(name, f"arms.{name}")
    sweep = groups.pop("sweep", None)
    if unknown := groups.keys() - set(ARM_GROUPS):
        raise ConfigError(f"arms.{name}: {listing(sorted(unknown))} is no key of an arm; take it out")
    chosen = {group: build(group, groups[group]) if group in groups else None for group in ARM_GROUPS}
    return Arm(experiment, name, **chosen, swept=Swept(**sweep) if sweep else None)


def _read(text: str, where: str) -> dict[str, Any]:
    """The YAML's mapping. Raises ConfigError for what has no mapping of arms to mappings."""
    try:
        stored = yaml.safe_load(text)
        whole = isinstance(stored, dict) and isinstance(stored.get("arms"), dict)
        if whole and all(isinstance(groups, dict) for groups in stored["arms"].values()):
            return stored
        problem = "must map arms to their settings"
    except yaml.YAMLError as error:
        problem = " ".join(str(error).split())
    raise ConfigError(f"{where}: {CONFIG} cannot be read ({problem}); make the file again")
