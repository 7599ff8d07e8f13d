"""What a scan of many files does not take, each in a line that says what to do."""

from flyrun.families.family import Family
from flyrun.fitting import parameters
from flyrun.fitting import table_posterior as posteriors
from flyrun.fitting.bars import Bar
from flyrun.fitting.request import Request, TypedTable, dashed
from flyrun.fitting.smooths import Smooth
from flyrun.ground.errors import ConfigError
from flyrun.tables.columns import MOST_LEVELS
from flyrun.tables.options import ROLES

#: options that a scan knows
_TAKEN = (
    *ROLES,
    "features",
    "drop",
    "categorical",
    "numeric",
    "reference",
    "order",
    "missing",
    "na",
    "where",
)


def refuse_beside(request: Request, table: TypedTable, model_family: Family) -> None:
    """ConfigError for a column beside the features that a model does not take."""
    from flyrun.tables.possible import refused_beside  # late: pandas takes half a second

    if refusal := refused_beside(model_family.domain, table, counts=False):
        raise ConfigError(f"{request.file}: target {request.target} {refusal}")
    parameters.refuse_weights(table, model_family)
    if upper := sorted({"high", "most"} & table.beside.keys()):
        what = table.say(upper[0], table.beside[upper[0]])
        raise ConfigError(f"fit: {what}: is not for a scan of many files; write them as one file")
    if {"event", "cens", "entry"} & table.beside.keys():
        posteriors.refuse_uncensored(model_family)
    if request.groups and "precision_weights" in table.beside:
        what = table.say("precision_weights", table.beside["precision_weights"])
        raise ConfigError(
            f"{what}: is not for groups of many files, as {request.groups[0]}; write them as one file"
        )
    role = next((role for role in ("offset", "exposure") if role in table.beside), None)
    if role and model_family.domain.standardized:
        raise ConfigError(
            f"--{role}: is not for --model {model_family.name} in a scan; take it off the target in the files"
        )


def refuse_options(request: Request) -> None:
    """ConfigError for an option that a scan does not know."""
    if bar := next((bar for bar in request.groups if isinstance(bar, Smooth)), None):
        raise ConfigError(
            f"fit: smooths, as {bar}, are not for a scan of many files; fit them as one file, or write "
            f"{bar.instead}"
        )
    if request.groups and (key := next((key for key in ("by", "folds") if getattr(request, key)), None)):
        raise ConfigError(f"--{key}: is not for groups of many files, as {request.groups[0]}; leave it out")
    if other := next((bar for bar in request.groups if isinstance(bar, Bar) and bar.of), None):
        raise ConfigError(
            f"fit: {other}: groups in the formula of {request.target} alone are for a scan of many files; "
            f"fit them as one file, or write {other.instead}, where that has at most {MOST_LEVELS} levels"
        )
    if request.budget.typed and request.budget.iterations is not None:
        raise ConfigError(f"--budget {request.budget}: chains have these; a scan takes a time, as 10m")
    for name, options in request.formulas.items():
        if "formula" not in request.table:
            raise ConfigError(
                f"formula of {name}: a scan takes it beside a formula of the target; write that as "
                f"'{request.target} ~ …'"
            )
        if role := next((role for role in ("offset", "exposure") if role in options), None):
            raise ConfigError(f"formula of {name}: its {role} is not for a scan of many files; leave it out")
    if request.by is not None and "formula" in request.table:
        raise ConfigError(
            "--by: a formula is not for levels of many files; name columns with --target and --features"
        )
    for key in request.table:
        if key == "log_target":
            raise ConfigError(
                "fit: the log of the target is not for a scan of many files; name "
                f"{request.target} itself, as with --model gamma, whose coefficients are of the log of its "
                "mean, or write a column of the log"
            )
        if key not in (*_TAKEN, "formula", "written"):
            raise ConfigError(
                f"{dashed('rows' if key == 'limit' else key)}: is not for a scan of many files; leave it out"
            )
    for override in request.typed.values():
        if override.key != "model" and override.group != "executor" and override.key != "executor":
            raise ConfigError(f"{override.text}: is not for a scan of many files; leave it out")
