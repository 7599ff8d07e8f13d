"""Categories of many levels: terms with a coefficient a level, which no dense columns hold.

Coefficients of L - 1 levels under one normal prior are effects of groups whose sd is known, and of which the
reference level has none: `flyrun.fitting.groups` fits them as it does effects whose sd is learnt.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from flyrun.families.family import Auxiliary
from flyrun.families.prior_densities import Normal
from flyrun.fitting import bars
from flyrun.fitting.bars import Bar
from flyrun.fitting.parameters import SD_OF_LOG
from flyrun.fitting.priors import Typed
from flyrun.fitting.request import Request
from flyrun.ground.errors import ConfigError
from flyrun.ground.schema import quoted
from flyrun.tables.columns import MOST_LEVELS, ManyLevelsError
from flyrun.tables.formula import FUNCTIONS
from flyrun.tables.layout import Layout
from flyrun.tables.quoting import Names
from flyrun.tables.quoting import quoted as in_formula

Answer = TypeVar("Answer")


def parted(request: Request, answer: Callable[[Request], Answer]) -> Answer:
    """The answer to a request whose categories of many levels are terms of their own.

    Raises ConfigError for one that stands within another term, or has another prior than a normal one.
    """
    while True:
        try:
            return answer(request)
        except ManyLevelsError as many:
            request = _parted(request, many)


def _parted(request: Request, many: ManyLevelsError) -> Request:
    """The request with a column of many levels among its groups. ManyLevelsError where none names it."""
    column, table, taken = many.column, dict(request.table), list[Bar]()
    formulas = {name: dict(options) for name, options in request.formulas.items()}
    for of, options in {"": table, **formulas}.items():
        if "formula" not in options:
            continue
        options["formula"], category = bars.without(str(options["formula"]), column)
        taken += [replace(category, of=of)] if category else []
        if (term := bars.term_with(options["formula"], column)) is not None:
            raise _within(term, column)
    if "formula" not in table and column in (table.get("features") or ()):
        left = [name for name in table["features"] if name != column]
        table |= {"features": left} if left else {"formula": "1", "features": None}
        taken.append(Bar((column,), fixed=True))
    if not taken:
        raise many
    if other := next((bar for bar in request.groups if column in bar.columns), None):
        raise ConfigError(f"{other}: {column} is a term too; leave it out of one of them")
    references = [each for each in table.get("reference", ()) if each.startswith(f"{column}=")]
    if references:
        table["reference"] = [each for each in table["reference"] if each not in references]
        taken = [replace(bar, reference=references[-1].removeprefix(f"{column}=")) for bar in taken]
    priors = tuple(_renamed(typed, taken) for typed in request.priors)
    return replace(request, table=table, formulas=formulas, groups=(*request.groups, *taken), priors=priors)


def _within(term: str, column: str) -> ConfigError:
    """Of a column of many levels that stands within a term."""
    others = [name for name in Names.of(term, [], FUNCTIONS).columns if name != column]
    groups = Bar((column,), tuple(others[:1]))
    remedy = f", or {groups}, slopes of {others[0]} that differ by level" if others else ""
    return ConfigError(
        f"formula: {term} has a coefficient for each of more than {MOST_LEVELS} levels of {column}; write "
        f"{in_formula(column)} as a term of its own{remedy}"
    )


def _renamed(typed: Typed, taken: Sequence[Bar]) -> Typed:
    """A prior with the term that a category has among groups. ConfigError for one of a single level."""
    for bar in taken:
        names = {bar.term, bar.named(bar.group)}
        if typed.term in names:
            if isinstance(typed.prior, Normal) and typed.prior.mean == 0.0:
                return Typed(bar.term, typed.prior)
            why = "a category of so many levels takes normal(0, SD)"
        elif any(typed.term.startswith(f"{name}[") for name in names):
            why = "a category of so many levels has one prior of all"
        else:
            continue
        normal = quoted(f"{bar.term}: normal(0, 1)")
        raise ConfigError(
            f"--prior {quoted(str(typed))}: {why}; write {normal}, or make groups of its levels: "
            f"{Bar(bar.columns, of=bar.of)}"
        )
    return typed


def usual_priors(
    request: Request, layout: Layout, numbers: Sequence[Auxiliary], chosen: dict[str, Typed]
) -> dict[str, Typed]:
    """Priors of groups with those of the coefficients of categories for which none is typed.

    numbers: the family's; chosen: those that are typed, by term.
    """
    scale = {number.name: SD_OF_LOG for number in numbers if number.scale == "log"}
    usual = {
        bar.term: Normal(0.0, scale.get(bar.of, request.prior_scale) * (1.0 if bar.of else layout.target.sd))
        for bar in request.groups
        if isinstance(bar, Bar) and bar.fixed
    }
    return {term: Typed(term, prior) for term, prior in usual.items()} | chosen
