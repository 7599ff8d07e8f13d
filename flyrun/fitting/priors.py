"""Priors on a table's coefficients: as they are typed, as they are sampled under, and as a table to read.

Those of numbers are told per unit of the column; by default their sd is one number for all columns, per sd
of a column or, of columns of two values, from one to the other. The intercept is the linear predictor where
numbers are at their means and categories at their references; its prior is so wide that rare events stay
rare.
"""

import argparse
import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from flyrun.ground.errors import ConfigError
from flyrun.ground.schema import did_you_mean, listing, quoted
from flyrun.tables.layout import INTERCEPT, Column, Layout

if TYPE_CHECKING:
    from flyrun.families.prior_densities import Prior
    from flyrun.fitting.rows_posterior import Posterior

#: of an intercept's prior, in units of the linear predictor, or in sds of a target that is standardised
INTERCEPT_SD = 10.0
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?"
_ITEM = rf"(?:(?:lower|upper)\s*=\s*)?{_NUMBER}"
_TYPED = re.compile(
    rf"\s*(.+?)\s*:\s*([a-z_]+)\s*(?:\(\s*((?:{_ITEM}\s*,\s*)*(?:{_ITEM})?)\s*\))?\s*", re.IGNORECASE
)
_LONG = re.compile(r"(?<=[( ])\d+\.\d+(?:e[-+]?\d+)?(?=[,)])")  # within a prior's parentheses
_MOST_NAMED = 12
_WITHIN = "lower=A, upper=B or both, A below B"


#: how each is written
FORMS = {
    "normal": "normal(MEAN, SD)",
    "student_t": "student_t(DOF, MEAN, SCALE)",
    "cauchy": "cauchy(MEAN, SCALE)",
    "laplace": "laplace(MEAN, SCALE)",
    "flat": "flat",
    "constant": "constant(NUMBER)",
    "half_normal": "half_normal(SD)",
    "half_t": "half_t(DOF, SCALE)",
    "half_cauchy": "half_cauchy(SCALE)",
    "exponential": "exponential(RATE)",
    "gamma": "gamma(SHAPE, RATE)",
    "inverse_gamma": "inverse_gamma(SHAPE, SCALE)",
    "lognormal": "lognormal(MEAN, SD)",
    "beta": "beta(A, B)",
    "lkj": "lkj(ETA)",
    "dirichlet": "dirichlet(A) or dirichlet(A_1, ..., A_K)",
}


class Typed(NamedTuple):
    """A prior as it is typed, per unit of its column: `age: normal(0, 1)`."""

    term: str
    prior: "Prior"

    def __str__(self) -> str:
        """As typed."""
        return f"{self.term}: {self.prior}"


class Priors(NamedTuple):
    """Independent normal priors on the coefficients of standardised columns, the intercept last.

    mean, sd: (D,), in these columns' units; of classes the mean of a difference between two of them, and the
    sd of one class alone.  table: what people read, a row each.  others: of coefficients whose prior is not
    normal, by place, whose sd is infinite.
    """

    mean: np.ndarray
    sd: np.ndarray
    table: list[dict[str, Any]]
    others: tuple[tuple[int, "Prior"], ...] = ()


def typed(text: str) -> Typed:
    """Read `TERM: normal(MEAN, SD)` or another prior. Raises argparse.ArgumentTypeError with an example."""
    from flyrun.families.prior_kinds import BOUNDED, KINDS, made_of  # late: SciPy, help need not wait

    if (match := _TYPED.fullmatch(text)) is None:
        raise argparse.ArgumentTypeError(f"{text}: must be TERM: PRIOR, as 'age: normal(0, 1)'")
    term, word, listed = match[1], match[2].lower(), match[3] or ""
    if word not in KINDS:
        close = did_you_mean(word, KINDS)
        raise argparse.ArgumentTypeError(
            f"{text}: no prior is called {word}{close}; there are {listing(KINDS)}"
        )
    items = [item.strip() for item in listed.split(",") if item.strip()]
    ends = [item.lower().partition("=") for item in items if "=" in item]
    bounds = {key.strip(): float(number) for key, _, number in ends}
    if bounds and word not in BOUNDED:
        raise argparse.ArgumentTypeError(
            f"{text}: bounds go with {listing(BOUNDED)}; write {FORMS[word]} without them"
        )
    try:
        if len(bounds) < len(ends):
            raise ValueError
        return Typed(term, made_of(word, [float(item) for item in items if "=" not in item], bounds))
    except (TypeError, ValueError):
        form = f"must be {FORMS[word]}, of numbers, above 0 but for MEAN and NUMBER"
        form += f"; bounds are {_WITHIN}" if bounds else ""
        raise argparse.ArgumentTypeError(f"{text}: {form}") from None


def priors(layout: Layout, given: Sequence[Typed], scale: float, intercept: bool = True) -> Priors:
    """The priors of a table's coefficients.

    given: those that are typed; of the others sd is `scale`.  intercept: whether the model has one.
    Raises ConfigError for a term that there is not, or that two are typed for.
    """
    from flyrun.families.prior_densities import Normal  # late: SciPy, which help need not wait for

    columns = [column for column in layout.features for _ in column.encoded]
    names = layout.names if intercept else layout.names[:-1]
    steps = np.array([column.sd for column in columns] + [1.0])
    steps[-1] /= layout.ones
    factor = layout.target.sd / steps  # a coefficient per unit of its column, of one of a standardised column
    shift = np.zeros(len(steps))
    shift[-1] = layout.target.mean
    # a coefficient of a class is told against the first class's, whose prior is the same
    contrast = math.sqrt(2.0) if layout.task == "classes" else 1.0
    mean, sd = np.zeros(len(steps)), np.full(len(steps), float(scale))
    sd[-1] = max(INTERCEPT_SD, scale) / layout.ones
    by_term = {term: places for term, places in terms(layout).items() if intercept or term != INTERCEPT}
    chosen: dict[int, Typed] = {}
    others: dict[int, Prior] = {}
    for typed in given:
        if typed.term not in by_term:
            raise unknown(typed, list(by_term))
        for d in by_term[typed.term]:
            if d in chosen:
                both = f"--prior {quoted(str(typed))}: {names[d]} has {quoted(str(chosen[d]))} too"
                raise ConfigError(f"{both}; keep one of them")
            chosen[d], prior = typed, typed.prior
            if type(prior) is Normal:
                mean[d], sd[d] = (prior.mean - shift[d]) / factor[d], prior.sd / factor[d] / contrast
            elif layout.task == "classes":
                raise ConfigError(
                    f"--prior {quoted(str(typed))}: differences between classes have normal priors; write "
                    "normal(MEAN, SD)"
                )
            else:
                mean[d], sd[d] = 0.0, math.inf
                others[d] = prior.scaled(1.0 / factor[d], -shift[d] / factor[d])
    table = [
        {"term": names[d], "prior": str(chosen[d].prior)}
        if d in others
        else _row(
            names[d],
            column,
            mean[d] * factor[d] + shift[d],
            contrast * sd[d] * factor[d],
            contrast * sd[d] * layout.target.sd,
        )
        for d, column in enumerate([*columns, Column(INTERCEPT, levels=[])][: len(names)])
    ]
    table = [table[d] for d in (*range(len(names))[len(columns) :], *range(len(columns)))]
    return Priors(mean[: len(names)], sd[: len(names)], table, tuple(others.items()))


def terms(layout: Layout) -> dict[str, list[int]]:
    """By what people call them, a column or a level of it, the places of coefficients."""
    columns = [column for column in layout.features for _ in column.encoded]
    by_column = {column.name: [d for d, c in enumerate(columns) if c is column] for column in layout.features}
    return by_column | {name: [d] for d, name in enumerate(layout.names)}


def auxiliary(posterior: "Posterior", layout: Layout) -> list[dict[str, Any]]:
    """The priors of a posterior's auxiliary numbers and of its groups', a row each, as a table to read."""
    from flyrun.families.prior_densities import Constant, Normal  # late: as above

    known = posterior.family.known.values if posterior.family.known else {}
    table: list[dict[str, Any]] = [
        {"term": name, "prior": f"{Constant(value)}"} for name, value in known.items()
    ]
    for k, number in enumerate(posterior.auxiliary):
        prior, part = number.prior, layout.parameters.get(number.name)
        if k == 0 and posterior.family.of_noise:
            unit = layout.target.sd
            prior = prior.scaled(unit) if prior.of else prior.scaled(1.0, math.log(unit))
        if part is None:
            table.append({"term": number.name, "prior": f"{prior} {number.of}".rstrip()})
            continue
        of = f"of {number.name}" if prior.of else number.of
        table.append({"term": f"{number.name}[{INTERCEPT}]", "prior": f"{prior} {of}".rstrip()})
        columns = [column for column in part.features for _ in column.encoded]
        for name, column, slope in zip(part.names, columns, posterior.slopes[k], strict=False):
            term, its = f"{number.name}[{name}]", slope.scaled(1.0 / column.sd)
            if type(its) is Normal:
                table.append(_row(term, column, its.mean, its.sd, its.sd * column.sd))
            else:
                table.append({"term": term, "prior": str(its)})
    others = posterior.other_priors()
    return table + [row | {"prior": _LONG.sub(_rounded, row["prior"])} for row in others]


def _rounded(number: "re.Match[str]") -> str:
    return f"{float(number[0]):.4g}"


def _row(term: str, column: Column, mean: float, sd: float, per_sd: float) -> dict[str, Any]:
    """What people read of a normal prior of a column's coefficient."""
    standardised = column.levels is None and column.sd != column.high - column.low
    return {"term": term, "prior": _normal(mean, sd), "sd": sd, "per_sd": per_sd if standardised else None}


def lines(table: Sequence[dict[str, Any]], most: int | None = None) -> list[str]:
    """The table on a screen, in at most so many rows."""
    shown = table if most is None or len(table) <= most else table[: most - 1]
    wide = [max(len(str(row[key])) for row in shown) for key in ("term", "prior")]
    rows = ["priors, per unit of a column:"]
    for row in shown:
        at_means = row["term"] == INTERCEPT or row["term"].endswith(f"[{INTERCEPT}]")
        sd = "where numbers are at their means" if at_means else ""
        sd = f"sd {per_sd:.4g} per sd of the column" if (per_sd := row.get("per_sd")) else sd
        rows.append(f"  {row['term']:<{wide[0]}}  {row['prior']:<{wide[1]}}  {sd}".rstrip())
    if more := len(table) - len(shown):
        rows.append(f"  and {more:,} more priors, which --check shows")
    return rows


def beside(rows: Sequence[dict[str, Any]], table: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of coefficients, each with its prior and the sd of that, where the table has it."""
    by_term = {row["term"]: {"prior": row["prior"], "prior_sd": row.get("sd")} for row in table}
    return [row | by_term.get(row["coefficient"], {}) for row in rows]


def unknown(prior: Typed, terms: list[str]) -> ConfigError:
    """Of a term that is none of these."""
    option = f"--prior {quoted(str(prior))}"
    shown = listing(terms) if len(terms) <= _MOST_NAMED else f"{', '.join(terms[:_MOST_NAMED])}, …"
    close = did_you_mean(prior.term, terms)
    return ConfigError(f"{option}: nothing is called {prior.term!r}{close}; there are {shown}")


def _normal(mean: float, sd: float) -> str:
    return f"normal({mean:.4g}, {sd:.4g})"
