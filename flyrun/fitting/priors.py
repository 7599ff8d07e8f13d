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
    from flyrun.fitting.rows_posterior import Posterior

#: of an intercept's prior, in units of the linear predictor, or in sds of a target that is standardised
INTERCEPT_SD = 10.0
_NUMBER = r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?)\s*"
_TYPED = re.compile(rf"\s*(.+?)\s*:\s*normal\({_NUMBER},{_NUMBER}\)\s*", re.IGNORECASE)
_MOST_NAMED = 12


class Typed(NamedTuple):
    """A normal prior as it is typed, per unit of its column: `age: normal(0, 1)`."""

    term: str
    mean: float
    sd: float

    def __str__(self) -> str:
        """As typed."""
        return f"{self.term}: {_normal(self.mean, self.sd)}"


class Priors(NamedTuple):
    """Independent normal priors on the coefficients of standardised columns, the intercept last.

    mean, sd: (D,), in these columns' units; of classes the mean of a difference between two of them, and the
    sd of one class alone.  table: what people read, a row each.
    """

    mean: np.ndarray
    sd: np.ndarray
    table: list[dict[str, Any]]


def typed(text: str) -> Typed:
    """Read `TERM: normal(MEAN, SD)`. Raises argparse.ArgumentTypeError with an example."""
    match = _TYPED.fullmatch(text)
    mean, sd = map(float, match.groups()[1:]) if match else (math.nan, math.nan)
    if match is None or not math.isfinite(mean) or not 0.0 < sd < math.inf:
        form = "must be COLUMN: normal(MEAN, SD), SD above 0, as 'age: normal(0, 1)'"
        raise argparse.ArgumentTypeError(f"{text}: {form}")
    return Typed(match[1], mean, sd)


def priors(layout: Layout, given: Sequence[Typed], scale: float, intercept: bool = True) -> Priors:
    """The priors of a table's coefficients.

    given: those that are typed; of the others sd is `scale`.  intercept: whether the model has one.
    Raises ConfigError for a term that there is not, or that two are typed for.
    """
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
    by_term = {column.name: [d for d, c in enumerate(columns) if c is column] for column in layout.features}
    by_term |= {name: [d] for d, name in enumerate(names)}
    chosen: dict[int, Typed] = {}
    for prior in given:
        if prior.term not in by_term:
            raise _unknown(prior, list(by_term))
        for d in by_term[prior.term]:
            if d in chosen:
                both = f"--prior {quoted(str(prior))}: {names[d]} has {quoted(str(chosen[d]))} too"
                raise ConfigError(f"{both}; keep one of them")
            chosen[d] = prior
            mean[d], sd[d] = (prior.mean - shift[d]) / factor[d], prior.sd / factor[d] / contrast
    table = [
        _row(
            names[d],
            column,
            mean[d] * factor[d] + shift[d],
            contrast * sd[d] * factor[d],
            contrast * sd[d] * layout.target.sd,
        )
        for d, column in enumerate([*columns, Column(INTERCEPT, levels=[])][: len(names)])
    ]
    table = [table[d] for d in (*range(len(names))[len(columns) :], *range(len(columns)))]
    return Priors(mean[: len(names)], sd[: len(names)], table)


def auxiliary(posterior: "Posterior", layout: Layout) -> list[dict[str, Any]]:
    """The priors of a posterior's auxiliary numbers and of its groups', a row each, as a table to read."""
    from flyrun.families.family import LogGamma  # late: SciPy, which help need not wait for

    table = []
    for k, number in enumerate(posterior.auxiliary):
        prior = number.prior
        if k == 0 and posterior.family.link == "identity" and isinstance(prior, LogGamma):
            prior = prior._replace(rate=prior.rate / layout.target.sd)  # of noise, in units of the target
        part = layout.parameters.get(number.name)
        if part is None:
            table.append({"term": number.name, "prior": f"{prior} {number.of}".rstrip()})
            continue
        of = number.name if isinstance(prior, LogGamma) else number.of
        table.append({"term": f"{number.name}[{INTERCEPT}]", "prior": f"{prior} of {of}".rstrip()})
        columns = [column for column in part.features for _ in column.encoded]
        for name, column, slope in zip(part.names, columns, posterior.slopes[k], strict=False):
            table.append(_row(f"{number.name}[{name}]", column, 0.0, slope.sd / column.sd, slope.sd))
    return table + posterior.other_priors()


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


def _unknown(prior: Typed, terms: list[str]) -> ConfigError:
    option = f"--prior {quoted(str(prior))}"
    shown = listing(terms) if len(terms) <= _MOST_NAMED else f"{', '.join(terms[:_MOST_NAMED])}, …"
    close = did_you_mean(prior.term, terms)
    return ConfigError(f"{option}: no coefficient is called {prior.term!r}{close}; there are {shown}")


def _normal(mean: float, sd: float) -> str:
    return f"normal({mean:.4g}, {sd:.4g})"
