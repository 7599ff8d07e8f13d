"""What a change of one column does to the expected target, averaged over a table's rows, draw by draw.

Average comparisons and slopes, as of Gelman & Pardoe 2007 and Arel-Bundock, Greifer & Heiss 2024.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from flyrun.fitting import predict, stored
from flyrun.fitting.fitted_draws import Fitted
from flyrun.ground.errors import ConfigError
from flyrun.ground.schema import did_you_mean, listing
from flyrun.tables.layout import Column

KINDS = ("mean", "chance")
_STEP = 1e-4  # of a column's range, of a derivative: its error is of the order of the square


@np.errstate(all="ignore")  # of numbers that are too large for one
def differences(
    folder: Path,
    rows: pd.DataFrame,
    column: str,
    interval: float = 0.94,
    kind: str = "mean",
    groups: str = "known",
) -> pd.DataFrame:
    """Of a category each level against the reference, of a number one more against what each row has.

    rows: of the fit's table, or any.  kind: "mean", of the expected target, of successes among a row's trials
    their number, or "chance" of success in one trial.  groups: "known", the rows' own, "draw", new ones in
    their place, or "zero", without effects.  The table's index is named by what changes.
    Raises ConfigError for a column that explains nothing, or another choice of groups.
    """
    fit = stored.fitted(folder).with_groups(groups)
    predict.refuse_kind(fit, kind, KINDS)
    about = _column(fit, column)
    if about.levels is None:
        more = rows.assign(**{column: rows[column] + 1})
        return _told(
            fit, {f"{column} + 1": average(fit, more, kind) - average(fit, rows, kind)}, interval, kind
        )
    reference, *others = about.levels
    whole = {level: average(fit, _all(rows, about, level), kind) for level in about.levels}
    changes = {f"{level} against {reference}": whole[level] - whole[reference] for level in others}
    return _told(fit, changes, interval, kind)


@np.errstate(all="ignore")  # of numbers that are too large for one
def derivatives(
    folder: Path,
    rows: pd.DataFrame,
    column: str,
    by: str | None = None,
    interval: float = 0.94,
    kind: str = "mean",
    groups: str = "known",
) -> pd.DataFrame:
    """The slope by a number's column, of all rows or of those of each level of the category `by`.

    rows, kind, groups and errors: as of `differences`.
    """
    fit = stored.fitted(folder).with_groups(groups)
    predict.refuse_kind(fit, kind, KINDS)
    about = _column(fit, column)
    if about.levels is not None:
        raise ConfigError(f"slopes: {column} is a category; ask for comparisons({column!r})")
    step = _STEP * (about.high - about.low)
    parts = {column: rows}
    if by is not None:
        category = _column(fit, by)
        if category.levels is None:
            raise ConfigError(f"slopes: by={by!r} is a number; name a category")
        texts = rows[by].astype(str)
        parts = {f"{column}, {by} = {level}": rows[texts == level] for level in category.levels}
    changes = {}
    for name, some in parts.items():
        low, high = (
            average(fit, some.assign(**{column: some[column] + side * step}), kind) for side in (-0.5, 0.5)
        )
        changes[name] = (high - low) / step
    return _told(fit, changes, interval, kind)


def average(fit: Fitted, rows: pd.DataFrame, kind: str = "mean") -> np.ndarray:
    """The expected target, averaged over rows as often as they are there: (S, 1), or (S, K) of classes.

    kind: as of `differences`.
    """
    checked = predict.checked_rows(fit, rows)
    column = fit.layout.beside.get("weights")
    weights = np.ones(len(rows)) if column is None else rows[column.name].to_numpy(np.float64)
    total, first = 0.0, 0
    for block in predict.means(fit, checked, kind):  # (S, n, K)
        total = total + np.einsum("snk,n->sk", block, weights[first : first + block.shape[1]])
        first += block.shape[1]
    return np.asarray(total) / weights.sum()


def _all(rows: pd.DataFrame, column: Column, level: str) -> pd.DataFrame:
    """The rows as if all had this level."""
    return rows.assign(**{column.name: level if column.text else float(level)})


def _column(fit: Fitted, name: str) -> Column:
    known = {column.name: column for column in fit.layout.columns}
    fixed = (factor for factor in fit.factors if factor.bar.fixed)
    known |= {each.bar.group: Column(each.bar.group, list(each.levels), text=True) for each in fixed}
    if name not in known:
        close = did_you_mean(name, list(known))
        raise ConfigError(f"{name}: explains nothing in this fit{close}; there are {listing(known)}")
    return known[name]


def _told(fit: Fitted, changes: dict[str, np.ndarray], interval: float, kind: str) -> pd.DataFrame:
    """Mean, sd and ends of the interval of draws (S, K), a row each; of classes a row a class."""
    labels = [f"{level}: " for level in fit.levels] or [""]
    rows = {
        f"{label}{name}": values
        for name, draws in changes.items()
        for label, values in zip(labels, np.transpose(predict.summary(draws, interval)), strict=True)
    }
    table = pd.DataFrame.from_dict(rows, orient="index", columns=["mean", "sd", "low", "high"])
    return table.rename_axis(f"change of {_unit(fit, kind)}")


def _unit(fit: Fitted, kind: str) -> str:
    """What an expectation is of."""
    name, beside = fit.layout.explained, fit.layout.beside
    domain = fit.layout.domain
    if domain.classes:
        last = f" = {(fit.layout.target.levels or [''])[-1]}" if domain.classes == 2 else ""
        return f"the chance of {name}{last}"
    if not domain.of_trials:
        return f"the expected {name}"
    if kind == "chance":
        return f"the chance of {name} in one trial"
    return f"{name}, expected successes among a row's {beside['trials'].name} trials"
