"""What a fit is to answer: a request's table, model, priors and posterior, resolved once."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from flyrun.families.family import Family, family, with_link
from flyrun.families.options import for_tables
from flyrun.fitting import chosen_priors, lines, parameters, priors, ratios, table_posterior, wide_categories
from flyrun.fitting.groups import grouped_table
from flyrun.fitting.groups.grouped_table import OfTable, OfTerms
from flyrun.fitting.request import Request
from flyrun.fitting.rows_posterior import Posterior
from flyrun.ground.errors import ConfigError
from flyrun.tables import loader, loading, row_filter
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
        return table_of_priors(self.request, self.layout, self.posterior)


def of(request: Request, chains: bool = False) -> Question:
    """The question of a request for one table. chains: have effects of groups drawn in any case.

    Raises DataError or ConfigError in one line.
    """
    return wide_categories.parted(request, lambda its: _of(its, chains))


def _of(request: Request, chains: bool) -> Question:
    """As of `of`; ManyLevelsError for a category of many levels."""
    table, dataset, layout, posterior, chosen = _ungrouped(request)
    if request.exp:
        ratios.name_of(posterior.family.link, layout.target.name, layout.log_target)
    if request.groups:
        with loader.unchanged(table):
            posterior = grouped_table.posterior_of(
                table, dataset, layout, posterior, request.groups, chosen.groups, chains
            )
    return Question(
        request, table, layout, posterior, lines.of_table(table, dataset, layout, posterior), dataset
    )


def _ungrouped(request: Request) -> tuple[Table, Dataset, Layout, Posterior, chosen_priors.Chosen]:
    """A table, what it holds, its posterior without effects of groups, typed priors. Errors: as of `of`."""
    asked = parameters.complete(request.typed_table, request.formulas, request.groups)
    dataset = loading.load(asked)
    layout = Layout.from_dict(dataset.info["layout"])
    # all that follows reads the same
    table = replace(asked, task=dataset.task, sha256=dataset.sha256)
    of_units = family(model_of(request, dataset.task))
    of_units = chosen_priors.with_constants(of_units, request.priors, request.formulas)
    model_family = of_units.in_units(layout.target.sd)
    target, of_trials = dataset.target * layout.target.sd + layout.target.mean, dataset.trials is not None
    parameters.refuse_unknown(request.formulas, model_family, dataset.n_classes, target, of_trials)
    parameters.refuse_weights(table, model_family)
    datasets = parameters.load(table, request.formulas, dataset)
    layout = parameters.described(layout, datasets)
    _refuse_unused(table, layout, request)
    terms = grouped_table.terms(request.groups, layout)
    its = table_posterior.under_priors(model_family, request, layout, terms)
    if request.groups:
        chosen_priors.refuse_bounds(request.priors, "a fit with groups or smooths")
    further = parameters.Further(parameters.designs_of(its.family, dataset, datasets, layout), its.slopes)
    posterior = table_posterior.posterior_of(dataset, its.family, its.priors, further)
    return table, dataset, layout, posterior, its.chosen


def _refuse_unused(table: Table, layout: Layout, request: Request) -> None:
    """Raise ConfigError for a column that is called a category, or a number, and that no formula uses."""
    used = {column.name for column in (*layout.columns, *layout.beside.values(), layout.target)}
    used |= {name for bar in request.groups for name in (*bar.columns, *bar.slopes)}
    used |= {*layout.row_numbers, *table.drop, *(row_filter.read(table.where).columns if table.where else ())}
    for key in ("categorical", "numeric"):
        if unused := [name for name in getattr(table, key) if name not in used]:
            raise ConfigError(
                f"{table.say(key)}: nothing that is fitted uses {unused[0]}; leave it out there"
            )


def priors_of(request: Request, layout: Layout, typed: Sequence[priors.Typed]) -> priors.Priors:
    """The priors of a table's coefficients. Raises ConfigError for one of a term that there is not."""
    return priors.priors(layout, typed, request.prior_scale, intercept=layout.task != "ordered")


def table_of_priors(request: Request, layout: Layout, posterior: Posterior) -> list[dict[str, Any]]:
    """The prior of each coefficient, then of each auxiliary number, a row each."""
    known = priors.terms(layout)
    of_coefficients = [typed for typed in request.priors if typed.term in known]
    return [*priors_of(request, layout, of_coefficients).table, *priors.auxiliary(posterior, layout)]


def model_of(request: Request, task: str) -> str:
    """The model that was asked for, or else the usual one of a task, with the link that was."""
    usual = "gaussian" if request.groups and task == "regression" else for_tables(task)[0]
    return with_link(request.model_asked or usual, request.link)


def settings(request: Request, table: Table, model_family: Family) -> dict[str, Any]:
    """As of Question, before its posterior is known."""
    dataset = table.settings() | {"sha256": table.sha256}
    options: dict[str, Any] = {"dataset": dataset, "model": model_family.name}
    options |= {"prior_scale": request.prior_scale, "prior": [str(prior) for prior in request.priors]}
    options |= {"formulas": request.formulas} if request.formulas else {}
    return options | ({"groups": [str(bar) for bar in request.groups]} if request.groups else {})


def look(request: Request) -> list[str]:
    """What one table holds, and what its columns are taken for. DataError or ConfigError, in one line."""
    asked = of(request)
    posterior = asked.posterior
    groups = [f"groups: {posterior.words}"] if isinstance(posterior, OfTable | OfTerms) else []
    return [
        *lines.shape(asked.table, asked.layout, posterior),
        *lines.taken(asked.layout, posterior=posterior),
        *groups,
        *priors.lines(asked.priors),
        f"for {asked.family.name}; --check fits nothing",
    ]
