"""From a table and a target to a job: the model, the exact sampler that serves it best, four chains."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import flyrun.data
from flyrun.config import Job, Table
from flyrun.data.dataset import Dataset
from flyrun.data.table_columns import Layout
from flyrun.errors import ConfigError
from flyrun.experiment import compose_job
from flyrun.fit.arguments import Request
from flyrun.fit.noise import noise_scale

_MODELS = {"binary": "logistic", "classes": "softmax", "regression": "student_t"}
_TASKS = {model: task for task, model in _MODELS.items()}
# Rows from which Firefly pays. Fewer of a classification are passed over as fast as book is kept of which are
# bright, and their posterior is further from the Gaussian that the bounds collapse into than a regression's.
TALL = {"binary": 5_000, "classes": 5_000, "regression": 1}
_MOST_PARAMETERS = 3_000
_SHORT = ("bound=none", "brightness=none", "sampler=hmc", "sampler.metric=hessian", "sampler.n_steps=8")
_LONG = ("bound=map", "brightness=per_datum", "sampler=hmc")


@dataclass(frozen=True)
class Problem:
    """A job to run in rounds, and what its draws mean."""

    job: Job
    layout: Layout
    lines: list[str]
    n_params: int


def problem(request: Request) -> Problem:
    """Read the table and make the job. Raises DataError or ConfigError in one line."""
    task: Any = _TASKS[request.model] if request.model else "auto"
    table = Table(path=request.file, target=request.target, task=task, **request.table)
    dataset = flyrun.data.load(table)
    layout = Layout.from_dict(dataset.info["layout"])
    model = _MODELS[dataset.task]
    classes = dataset.n_classes if dataset.task == "classes" else 1
    n_params = classes * dataset.features.shape[1]
    if n_params > _MOST_PARAMETERS:
        raise ConfigError(
            f"fit: {n_params:,} coefficients are too many to move together (at most {_MOST_PARAMETERS:,}); "
            "name fewer columns with --features, or leave some out with --drop"
        )
    tall = len(dataset.target) >= TALL[dataset.task]
    typed = {word.partition("=")[0] for word in request.overrides}
    words = [
        f"model={model}",
        "prior=gaussian",
        f"prior.scale={request.prior_scale:g}",
        *(_LONG if tall else _SHORT),
    ]
    if model == "student_t" and "model.scale" not in typed:
        words.append(f"model.scale={_noise(dataset):.4g}")
    words = [word for word in words if word.partition("=")[0] not in typed]
    name = request.name if request.name is not None else run_name(request.file)
    job = compose_job(["dataset=table", "protocol=fit", *words, f"name={name}", *request.overrides])
    arm = job.arms[0]
    label = f"firefly_{arm.sampler.name}" if arm.bound.firefly else arm.sampler.name
    job = replace(
        job,
        arms=(replace(arm, name=label, dataset=replace(table, task=dataset.task)),),
        title=f"{Path(request.file).name}: {layout.target.name}",
        results_dir=Path(request.results_dir).expanduser(),
        fresh=request.fresh,
        run_overrides=["fit", *request.words],
        figures=("coefficients",),
        kind="fit",
    )
    return Problem(job, layout, _lines(dataset, layout, job), n_params)


def run_name(file: str) -> str:
    """Folder's name for a file: its own, without ending or unusual letters."""
    stem = re.sub(r"(\.(csv|tsv|txt|npz|parquet|pq|gz))+$", "", Path(file).name, flags=re.IGNORECASE)
    return re.sub(r"[^A-Za-z0-9._+-]+", "_", stem).lstrip(".")[:150] or "fit"


def _noise(dataset: Dataset) -> float:
    from threadpoolctl import threadpool_limits

    from flyrun.config import StudentT

    with threadpool_limits(1):  # the bits of sums depend on the number of BLAS threads
        return noise_scale(dataset.features, dataset.target, StudentT().nu)


def _lines(dataset: Dataset, layout: Layout, job: Job) -> list[str]:
    """What was read and what will be done, in words."""
    arm, target = job.arms[0], layout.target
    lost = f" ({layout.dropped:,} dropped for missing values)" if layout.dropped else ""
    shape = f"{layout.rows:,} rows{lost}, {len(layout.features)} columns, {len(layout.names)} coefficients"
    lines = [
        f"{Path(str(arm.dataset.path)).name}: {shape}" + (" a class" if layout.task == "classes" else "")
    ]
    references = [f"{one.name} against {one.levels[0]}" for one in layout.features if one.levels]
    if references:
        lines.append(f"categories: {', '.join(references)}")
    if layout.task == "binary":
        assert target.levels
        ones = int((dataset.target > 0).sum())
        lines.append(
            f"logistic regression of {target.name} = {target.levels[1]} ({ones:,} rows) against "
            f"{target.levels[0]}"
        )
    elif layout.task == "classes":
        assert target.levels
        lines.append(
            f"softmax regression of {target.name}: {', '.join(target.levels[1:])}, each against "
            f"{target.levels[0]}"
        )
    else:
        lines.append(
            f"regression of {target.name} with Student-t noise of {arm.model.nu:g} degrees of freedom and "
            f"scale {arm.model.scale * target.sd:.4g}, its maximum likelihood value, held fixed"
        )
    per = "sd of the target per sd of a column" if layout.task == "regression" else "per sd of a column"
    prior = (
        f"{arm.prior.name} prior" if arm.prior.name != "gaussian" else f"prior N(0, {arm.prior.scale}²) {per}"
    )
    method = (
        "Firefly-HMC"
        if arm.bound.firefly and arm.sampler.name == "hmc"
        else arm.name.replace("_", " ").upper()
    )
    lines.append(f"{prior}; {method}, {len(arm.protocol.seed_list)} chains")
    return lines
