"""From a table and a target to a job: the model, the exact sampler that serves it best, four chains."""

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from flyrun import paths
from flyrun.config.arm import Arm, Job
from flyrun.config.compose import compose_job
from flyrun.config.dataset import Table
from flyrun.config.overrides import read as read_words
from flyrun.config.sampler.chain import ThetaUpdate
from flyrun.config.schema import Choice, chosen_by, keys, listing, quoted, schema
from flyrun.data.dataset import Dataset
from flyrun.data.table.layout import Layout
from flyrun.errors import ConfigError
from flyrun.fitting import identified
from flyrun.fitting.priors import INTERCEPT_SD
from flyrun.fitting.read_table import (
    MOST_SHOWN,
    ReadTable,
    model_of,
    priors_of,
    read,
    run_name,
    settings_of,
    shape,
    taken,
)
from flyrun.fitting.request import Request
from flyrun.fitting.table_posterior import refuse_many
from flyrun.models.problem import Fit, Problem, bind, look_at_map, prior_curvature
from flyrun.samplers.chain.bounds.map import expected_pseudo
from flyrun.threads import one_blas_thread

# Firefly pays from N = PAYS·B² rows on; B: how many are bright at the MAP, by the bounds' own account, over
# the number of linear predictors. Bulk ESS/s of Firefly-HMC over that of HMC on all rows, 20 columns, a core:
#   two classes, B = 5:                   N = 300: 4.2   1,000: 9.9    2,000: 11.8   5,000: 27
#   two classes, nearly separable, 31:    N = 300: 0.1   1,000: 0.2    2,000: 0.4    5,000: 0.9
#   three classes, 12:                    N = 500: 2.0   1,000: 1.9    2,000: 3.1    5,000: 6.1
#   three classes, nearly separable, 70:  N = 500: 0.01  1,000: 0.01   2,000: 0.01   5,000: 0.2
#   breast cancer, B = 81, N = 569: 0.04; wine, B = 53, N = 178: 0.001
PAYS = 4.0
# From here on an iteration on all rows is too slow for any table, and nothing is asked.
TALL = 100_000
_SHORT = ("bound=none", "brightness=none", "sampler=hmc", "sampler.metric=hessian", "sampler.n_steps=8")
_FIREFLY = ("brightness=per_datum", "sampler=hmc")
# Of P coefficients of classes, local bounds pay from N = P²/LOCAL_PAYS rows on; else few of them are tighter
# than Böhning's, whose product is quicker to move by. Bulk ESS/s over that of bound=map, a core:
#   P = 63: N = 3,000: 1.6   10,000: 7.7   100,000: 69
#   P = 255: N = 20,000: 2.8
LOCAL_PAYS = 4


@dataclass(frozen=True)
class PreparedFit:
    """A job to run in rounds, and what its draws mean. set_up_s: seconds that its mode took."""

    job: Job
    layout: Layout
    lines: list[str]
    n_params: int
    caveats: list[str]
    set_up_s: float
    settings: dict[str, Any]
    priors: list[dict[str, Any]]

    @property
    def link(self) -> str:
        """The scale on which coefficients add up."""
        return "identity" if self.layout.task == "regression" else "logit"


def problem(request: Request, found: ReadTable | None = None) -> PreparedFit:
    """Make the job of a table, read here if not yet. Raises DataError or ConfigError in one line."""
    table, dataset, layout = found or read(request)
    model = model_of(request, dataset.task)
    if request.priors:
        raise ConfigError(
            f"--prior {quoted(str(request.priors[0]))}: the chains that are asked for have one prior for all "
            "columns; set it with --prior-scale, or leave settings of chains out"
        )
    if dataset.beside.keys() - set(schema("model", model).beside):  # type: ignore[attr-defined]
        role, column = next(iter(layout.beside.items()))
        asked = listing(word for word in request.overrides if not word.startswith("dataset."))
        raise ConfigError(
            f"{table.say(role, column.name)}: the chains of {model} that are asked for take no {role}; leave "
            f"{asked} out: the draws that then answer take it"
        )
    classes = dataset.n_classes if dataset.task == "classes" else 1
    n_params = classes * dataset.features.shape[1]
    refuse_many(n_params)
    settings = settings_of(request, ReadTable(table, dataset, layout), model)
    told = priors_of(request, layout).table
    if "dataset.ones" not in _keys(request):
        # the chains' prior has one scale: a larger number in the column of ones widens the intercept's
        layout = replace(layout, ones=max(INTERCEPT_SD / request.prior_scale, 1.0))
        table = replace(table, ones=layout.ones)
    words = [f"model={model}", "prior=gaussian", f"prior.scale={request.prior_scale:g}"]
    if model == "student_t" and "model.scale" not in _keys(request):
        words.append("model.scale=estimated")
    title = f"{Path(request.file).name}: {layout.explained}"
    rows = len(dataset.target)
    local = model != "softmax" or LOCAL_PAYS * rows >= n_params**2
    bound = ("bound=local",) if local else ("bound=map", "bound.slack=0.3")
    on_all_rows = {"bound=none", "brightness=none"} & set(request.overrides)
    job = _job(request, table, title, [*words, *(_SHORT if on_all_rows else (*bound, *_FIREFLY))])
    started = time.monotonic()
    fitted, curvature = _at_mode(job.arms[0])
    if not on_all_rows and rows < TALL and rows < PAYS * _bright(job, fitted, curvature) ** 2:
        job = _job(request, table, title, [*words, *_SHORT])
    caveats = _caveats(job.arms[0], fitted, layout, curvature)
    if len(fitted.fit.shares) > 1:
        caveats.append(_several_modes(fitted.fit.shares.tolist()))
    lines = [*_lines(dataset, layout, job, fitted.fit), *caveats]
    seconds = time.monotonic() - started
    return PreparedFit(job, layout, lines, n_params, caveats, seconds, settings, told)


def _at_mode(arm: Arm) -> tuple[Problem, np.ndarray]:
    """The problem, its MAP kept for the chains, and the posterior's curvature there, (P, P)."""
    with one_blas_thread():  # the bits of sums depend on the number of BLAS threads
        fitted = bind(arm, paths.cache_dir("setup"), needs_map=True)
        look = look_at_map(arm, fitted)
    return fitted, prior_curvature(arm, fitted) + fitted.power * look.curvature


def _caveats(arm: Arm, problem: Problem, layout: Layout, curvature: np.ndarray) -> list[str]:
    """What the table says little of. curvature: the posterior's at the mode, (P, P)."""
    size, several = problem.features.rows.shape[1], problem.model.n_predictors
    prior = prior_curvature(arm, problem)
    likelihood = (curvature - prior).reshape(several, size, several, size)
    of_columns = np.einsum("kikj->ij", likelihood) / several
    own = np.diag(prior)[:size]
    return identified.caveats(arm.dataset, layout, problem.dataset, of_columns, own, problem.fit.theta_map)


def _update(request: Request) -> type[Choice]:
    """The options of the chains' update. Raises ConfigError for a method whose rounds nothing could judge."""
    name: Any = "hmc"
    for one in read_words(request.overrides):
        if one.key == "experiment":
            raise ConfigError(f"{one.text}: fit makes an arm of its own; leave this out")
        if one.key == "sampler":
            name = one.value
            if not issubclass(schema("sampler", name), ThetaUpdate):
                chains = chosen_by("sampler", lambda cls: issubclass(cls, ThetaUpdate))
                raise ConfigError(f"{one.text}: fit runs chains until they agree; choose from {chains}")
    return schema("sampler", name)


def _keys(request: Request) -> set[str]:
    return {word.partition("=")[0] for word in request.overrides}


def _job(request: Request, table: Table, title: str, words: list[str]) -> Job:
    """One arm with these words and those typed, which win; its update's settings as far as it has them."""
    typed, known = _keys(request), [f"sampler.{key}" for key in keys(_update(request))]
    words = [
        word
        for word in words
        if (key := word.partition("=")[0]) not in typed and (key in known or not key.startswith("sampler."))
    ]
    others = [word for word in request.overrides if not word.startswith("dataset.")]  # `table` has these
    name = request.name if request.name is not None else run_name(request.file)
    job = compose_job(["dataset=table", "protocol=fit", *words, f"name={name}", *others])
    arm = job.arms[0]
    label = f"firefly_{arm.sampler.name}" if arm.bound.firefly else arm.sampler.name
    return replace(
        job,
        arms=(replace(arm, name=label, dataset=table),),
        title=title,
        results_dir=Path(request.results_dir).expanduser(),
        fresh=request.fresh,
        run_overrides=["fit", *request.words],
        figures=("coefficients",),
        dashed=True,
    )


def _bright(job: Job, problem: Problem, curvature: np.ndarray) -> float:
    """Expected number of rows bright at the MAP, a linear predictor."""
    with one_blas_thread():  # as above
        pseudo = expected_pseudo(job.arms[0], problem, curvature)
    return float((pseudo / (1.0 + pseudo)).sum() / problem.model.n_predictors)


def _lines(dataset: Dataset, layout: Layout, job: Job, fit: Fit) -> list[str]:
    """What was read and what will be done, in words. fit: of a regression it holds the scale."""
    arm, target = job.arms[0], layout.target
    lines = shape(arm.dataset, layout) + taken(layout, MOST_SHOWN)
    against, *others = target.levels or [""]
    if layout.task == "binary":
        ones = f"{others[0]} ({int((dataset.target > 0).sum()):,} rows)"
        lines.append(f"logistic regression of {target.name} = {ones} against {against}")
    elif layout.task == "classes":
        each = f"{', '.join(others)}, each against {against}"
        lines.append(f"softmax regression of {target.name}: {each}")
    else:
        origin = "its maximum likelihood value" if arm.model.scale == "estimated" else "as given"
        lines.append(
            f"regression of {target.name} with Student-t noise of {arm.model.nu:g} degrees of freedom and "
            f"scale {fit.model_scale * target.sd:.4g}, {origin}, held fixed"
        )
    unit = "sd" if arm.dataset.standardize else "unit"
    per = (f"{unit} of the target " if layout.task == "regression" else "") + f"per {unit} of a column"
    gaussian = arm.prior.name == "gaussian"
    prior = f"{arm.prior.name} prior"
    if gaussian:
        intercept = arm.prior.scale * layout.ones
        prior = f"prior N(0, {arm.prior.scale}²) {per}, N(0, {intercept:g}²) for the intercept"
    firefly_hmc = arm.bound.firefly and arm.sampler.name == "hmc"
    method = "Firefly-HMC" if firefly_hmc else arm.name.replace("_", " ").upper()
    lines.append(f"{prior}; {method}, {len(arm.protocol.seed_list)} chains")
    return lines


def _several_modes(shares: list[float]) -> str:
    words = listing(f"{100 * share:.2g} %" for share in shares)
    return (
        f"the posterior has more than one mode: {len(shares)} were found, of about {words} of it by their "
        "heights and widths; chains start about them in turn, and where they do not pass from one to another "
        "each tells of its own only"
    )
