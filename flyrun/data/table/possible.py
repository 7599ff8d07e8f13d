"""Values that a count, a share of trials, a waiting time or a weight cannot have: the first row with one."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd
from pandas.api import types

from flyrun.config.dataset import Table
from flyrun.config.model import for_tables
from flyrun.config.schema import listing
from flyrun.data.table.layout import plain
from flyrun.data.table.text_table import place
from flyrun.errors import DataError


class _Rule(NamedTuple):
    """Which values are possible, and in words which these are."""

    holds: Callable[[np.ndarray], np.ndarray]
    said: str


_COUNTS = _Rule(lambda x: (x >= 0.0) & (x == np.rint(x)), "whole numbers from 0")
_POSITIVE = _Rule(lambda x: x > 0.0, "numbers above 0")
_TARGETS = {"counts": _COUNTS, "successes": _COUNTS, "positive": _POSITIVE}
_BESIDE = {"exposure": _POSITIVE, "trials": _COUNTS, "weights": _COUNTS}


def refuse_impossible(piece: pd.DataFrame, options: Table, what: str) -> None:
    """Raise DataError for the first row of a piece with a value that its column's part does not allow.

    Columns of text are passed over: they are refused for that.
    """
    for role, values, rule in _ruled(piece, options):
        fine = rule.holds(values)
        if not fine.all():
            at = int(np.argmin(fine))
            where = place(what, int(piece.index[at]), options)
            said = f"{role} {getattr(options, role)} is {plain(values[at])}, but {rule.said}"
            raise DataError(f"{what}: {where}, {said}; {_mend(role, options)}")


def _ruled(piece: pd.DataFrame, options: Table) -> Iterator[tuple[str, np.ndarray, _Rule]]:
    """(role, values (n,), rule) of columns that have one."""
    named = {"target": str(options.target), **options.beside}
    columns = {role: piece[name] for role, name in named.items() if types.is_numeric_dtype(piece[name].dtype)}
    found = {role: column.to_numpy(np.float64) for role, column in columns.items()}
    task = "successes" if options.task == "auto" and options.trials else options.task
    rules = _BESIDE | ({"target": _TARGETS[task]} if task in _TARGETS else {})
    for role, rule in rules.items():
        if role in found:
            many = role if role != "target" else task if rule is _COUNTS else "such targets"
            yield role, found[role], rule._replace(said=f"{many} are {rule.said}")
    if task == "successes" and found.keys() >= {"target", "trials"}:
        said = f"successes are at most the trials, here {options.trials}"
        yield "target", found["target"], _Rule(lambda x: x <= found["trials"], said)


def _mend(role: str, options: Table) -> str:
    if role == "weights":
        return (
            "they count rows, and precisions or a survey's weights are another thing, not fitted here: write "
            f"how many rows each row stands for, or leave {options.say('weights')} out"
        )
    if role != "target" or options.trials is not None:
        return f"mend it, or {options.without(getattr(options, role))}"
    models = listing((options.say("model", name) for name in for_tables("regression")), "or")
    return f"mend it, or choose {models} if these are measurements"
