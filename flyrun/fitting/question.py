"""What a fit is to answer: a request's table, model, priors and posterior, resolved once."""

from dataclasses import dataclass, replace
from typing import Any

from flyrun.families.family import Family, family
from flyrun.families.options import for_tables
from flyrun.fitting import lines, parameters, priors, ratios, table_posterior
from flyrun.fitting.groups import grouped_table
from flyrun.fitting.request import Request
from flyrun.fitting.rows_posterior import Posterior
from flyrun.fitting.scan import table_files
from flyrun.ground.errors import ConfigError
from flyrun.ground.schema import quoted
from flyrun.tables import loader, loading
from flyrun.tables.dataset import Dataset
from flyrun.tables.layout import Layout
from flyrun.tables.options import Table


@dataclass(frozen=True)
class Question:
    """A posterior, and the table that it is of.

    table: under the options that name it, its task and digest known; dataset: the rows that were read, None
    where a scan read them. about: what was read and what is fitted, a line each.
    """

    request: Request
    table: Table
    layout: Layout
    posterior: Posterior
    about: list[str]
    dataset: Dataset | None = None

    @property
    def family(self) -> Family:
        """Of the target."""
        return self.posterior.family

    @property
    def settings(self) -> dict[str, Any]:
        """What tells one fit from another, as JSON gives it back."""
        return settings(self.request, self.table, self.family)

    @property
    def priors(self) -> list[dict[str, Any]]:
        """The prior of each coefficient, then of each auxiliary number, a row each."""
        return [*priors_of(self.request, self.layout).table, *priors.auxiliary(self.posterior, self.layout)]


def of(request: Request) -> Question:
    """The question of a request for one table. Raises DataError or ConfigError in one line."""
    table, dataset, layout, posterior = _ungrouped(request)
    if request.exp:
        ratios.name_of(posterior.family.link, layout.target.name, layout.log_target)
    if request.groups:
        with loader.unchanged(table):
            posterior = grouped_table.posterior_of(table, dataset, layout, posterior, request.groups)
    return Question(
        request, table, layout, posterior, lines.of_table(table, dataset, layout, posterior), dataset
    )


def _ungrouped(request: Request) -> tuple[Table, Dataset, Layout, Posterior]:
    """A table, what it holds, and its posterior without effects of groups. Errors: as of `of`."""
    if request.groups:
        parameters.refuse_groups(request.formulas, request.groups[0])
    asked = parameters.complete(request.typed_table, request.formulas)
    dataset = loading.load(asked)
    layout = Layout.from_dict(dataset.info["layout"])
    # all that follows reads the same
    table = replace(asked, task=dataset.task, sha256=dataset.sha256)
    model_family = family(model_of(request, dataset.task))
    parameters.refuse_unknown(request.formulas, model_family, dataset.n_classes)
    datasets = parameters.load(table, request.formulas, dataset)
    layout = parameters.described(layout, datasets)
    numbers = model_family.auxiliary(dataset.n_classes, 1.0)
    further = parameters.further(numbers, datasets, layout, request.prior_scale)
    posterior = table_posterior.posterior_of(dataset, model_family, priors_of(request, layout), further)
    return table, dataset, layout, posterior


def priors_of(request: Request, layout: Layout) -> priors.Priors:
    """The priors of a table's coefficients. Raises ConfigError for one of a term that there is not."""
    return priors.priors(layout, request.priors, request.prior_scale, intercept=layout.task != "ordered")


def model_of(request: Request, task: str) -> str:
    """The model that was asked for, or else the usual one of a task."""
    usual = "gaussian" if request.groups and task == "regression" else for_tables(task)[0]
    return request.model_asked or usual


def settings(request: Request, table: Table, model_family: Family) -> dict[str, Any]:
    """As of Question, before its posterior is known."""
    dataset = table.settings() | {"sha256": table.sha256}
    options: dict[str, Any] = {"dataset": dataset, "model": model_family.name}
    options |= {"prior_scale": request.prior_scale, "prior": [str(prior) for prior in request.priors]}
    options |= {"formulas": request.formulas} if request.formulas else {}
    return options | ({"groups": [str(bar) for bar in request.groups]} if request.groups else {})


def look(request: Request) -> list[str]:
    """What a table holds and what its columns are taken for. Raises DataError or ConfigError in one line."""
    if table_files.several(request.file):
        first = table_files.find(request.file).files[0].path
        raise ConfigError(
            f"--check: looks at one file, and {request.file} names several; name one, as {quoted(first)}"
        )
    table, dataset, layout, posterior = _ungrouped(request)
    note = f"for {model_of(request, dataset.task)}; --check fits nothing"
    table_of_priors = [*priors_of(request, layout).table, *priors.auxiliary(posterior, layout)]
    return [*lines.shape(table, layout), *lines.taken(layout), *priors.lines(table_of_priors), note]
