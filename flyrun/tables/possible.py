"""What a target, its trials, a waiting time or a weight cannot be: row by row, then all levels."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from pandas.api import types

from flyrun.families import domains
from flyrun.families.domains import Domain
from flyrun.families.options import for_tables, usual
from flyrun.ground.errors import DataError
from flyrun.ground.schema import listing
from flyrun.tables.layout import plain
from flyrun.tables.options import Table
from flyrun.tables.order import are_numbers, typed_order
from flyrun.tables.seen import MOST_LEVELS
from flyrun.tables.text_table import place


def refuse_impossible(piece: pd.DataFrame, options: Table, what: str) -> None:
    """Raise DataError for the first row of a piece with a value that its column's part does not allow.

    Columns of text are passed over: they are refused for that.
    """
    task = "successes" if options.task == "auto" and options.trials else options.task
    rules = domains.BESIDE | ({} if task == "auto" else {"target": domains.of(task)})
    if options.high is not None:
        rules |= domains.OF_INTERVALS | ({} if task == "auto" else {"high": domains.of(task)})
    columns = {role: piece[name] for role, name in (options.beside | {"target": options.target}).items()}
    values = {
        role: column.to_numpy(np.float64)
        for role, column in columns.items()
        if types.is_numeric_dtype(column.dtype)
    }
    of, trials = f"the trials, here {options.trials}", values.get("trials")
    between = _between(values, len(piece))
    for role in filter(values.__contains__, rules):
        which = between if role == "high" else ~between if role == "target" else np.ones(len(piece), bool)
        refusal = rules[role].refusal(values[role][which], trials, of)
        if refusal is not None:
            at = int(np.flatnonzero(which)[refusal[0]])
            where = place(what, int(piece.index[at]), options)
            fault = f"{role} {getattr(options, role)} is {plain(values[role][at])}, but {refusal[1]}"
            raise DataError(f"{what}: {where}, {fault}; {_mend(role, options)}")
    _refuse_nowhere(values, between, piece, options, what)


def _between(values: dict[str, np.ndarray], rows: int) -> np.ndarray:
    """Which rows' targets are known to be between two ends, (n,)."""
    if "high" not in values:
        return np.zeros(rows, bool)
    ways = [values[role] == way for role, way in (("event", 3.0), ("cens", 2.0)) if role in values]
    return ways[0] if ways else np.ones(rows, bool)


def _refuse_nowhere(
    values: dict[str, np.ndarray], between: np.ndarray, piece: pd.DataFrame, options: Table, what: str
) -> None:
    """Raise DataError for a row whose target is nowhere: between no two ends, or where no row would be."""
    if (target := values.get("target")) is None:
        return
    high, seen = values.get("high", target), values.get("event", 1.0) == 1.0
    seen = seen & (values.get("cens", 0.0) == 0.0) & ~between
    below = (values.get("event", 1.0) == 2.0) | (values.get("cens", 0.0) == -1.0)
    upper = np.where(between, high, target)
    equal = seen & (options.task == "auto" or domains.of(options.task).whole)
    entry, most = values.get("entry", np.full(len(target), -np.inf)), values.get("most", np.inf)
    gone = "so that the row would not be there"
    for fine, role, fault in (
        (upper >= target, "high", f"below {options.target}, {{}}, so that nothing is between them"),
        ((entry < upper) | (equal & (entry == upper)), "entry", f"not below {options.target}, {{}}, {gone}"),
        (
            (target < most) | below | (seen & (target == most)),
            "most",
            f"below {options.target}, {{}}, {gone}",
        ),
        (entry < most, "most", f"not above {options.entry}, so that no row would be there"),
    ):
        if role in values and not fine.all():
            at = int(np.argmin(fine))
            where = place(what, int(piece.index[at]), options)
            value, other = plain(values[role][at]), plain(target[at])
            raise DataError(
                f"{what}: {where}, {getattr(options, role)} is {value}, {fault.format(other)}; mend it"
            )


def _mend(role: str, options: Table) -> str:
    if role == "weights":
        return (
            "they count rows, where precision weights divide the target's variance and a survey's weights "
            "are not fitted here: write how many rows each row stands for, or leave "
            f"{options.say('weights')} out"
        )
    if role != "target" or options.trials is not None:
        return f"mend it, or {options.without(getattr(options, role))}"
    return f"mend it, or choose {models_as_typed(options, 'regression')} if these are measurements"


def refused_beside(kind: Domain, options: Table, counts: bool) -> str:
    """Why a target of a kind does not go with the columns that are no features, and what helps; "" where it
    does. counts: whether it may be of successes."""
    if kind.of_trials != (options.trials is not None):
        mend = f"add {options.say('trials', 'COLUMN')}"
        if not kind.of_trials:
            mend = f"leave {options.say('trials')} out"
            mend = f"choose {models_as_typed(options, 'successes')}, or {mend}" if counts else mend
        return f"successes are of trials, and no other target has them; {mend}"
    role = next((role for role in ("offset", "exposure") if role in options.beside), "")
    if kind.nominal and role:
        return f"holds classes without an order, which take no {role}; leave {options.say(role)} out"
    return ""


def refused_levels(
    kind: Domain, name: str, levels: Sequence[str], text: bool, ordered: bool, options: Table
) -> str:
    """Why a target of these values is not of a kind, and what helps; "" where it may be.

    levels: its different values; text: whether they are words; ordered: whether an order of them is known.
    """
    count, numbers = len(levels), models_as_typed(options, "regression")
    if not kind.classes and text:
        mend = f"leave {options.say('trials')} out and " if options.trials else ""
        mend += f"choose {models_as_typed(options, 'binary' if count == 2 else 'classes')}"
        mend = mend if 2 <= count <= MOST_LEVELS else options.without(name)
        return f"holds text ({min(levels)[:40]!r}); a regression needs numbers: mend it, or {mend}"
    if kind.classes == 2 and count != 2:
        shown = f"{', '.join(levels[:4])}, …" if count > 5 else listing(levels)
        many = count if count <= MOST_LEVELS else f"more than {MOST_LEVELS}"
        models = ([models_as_typed(options, "classes")] if count <= MOST_LEVELS else []) + (
            [] if text else [numbers]
        )
        mend = f"choose {listing(models, 'or')}" if models else options.without(name)
        takes_two = f"{options.say('model', for_tables(kind.name)[0])} takes two"
        return f"has {many} values, {shown}; {takes_two}: {mend}"
    if kind.ordered and text and not (ordered or are_numbers(levels)):
        mend = f"{typed_order(levels, name, options)}, or choose {models_as_typed(options, 'classes')}"
        fault = f"holds words, {listing(levels[:3])}, whose order the file does not tell"
        return f"{fault}; write them lowest first, as in {mend}"
    return ""


def models_as_typed(options: Table, task: str) -> str:
    """The usual models of a task as they are typed."""
    return listing((options.say("model", name) for name in usual(task)), "or")
