"""What a table's columns are, numbers or categories, found in one pass over the file.

Text is a category, unless a rule of doubts.py forbids it: one wrong cell would make a category of a number.
`categorical` says that a column is one, `numeric` that it is none.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pandas as pd
from pandas.api import types

from flyrun.families import domains
from flyrun.ground.errors import DataError
from flyrun.ground.schema import did_you_mean, listing
from flyrun.tables import doubts, encode, text_table
from flyrun.tables import pieces as table_files
from flyrun.tables.cells import kind
from flyrun.tables.formats import is_csv
from flyrun.tables.layout import INTERCEPT, Column, Layout, is_nameless, plain
from flyrun.tables.options import Table
from flyrun.tables.order import not_in_order, refuse_unfitted
from flyrun.tables.possible import models_as_typed, refuse_impossible, refused_beside, refused_levels
from flyrun.tables.quoting import quoted
from flyrun.tables.seen import MOST_LEVELS, Seen, one_of

#: whole numbers of so few different values may be classes: the model must say
FEW_NUMBERS = 10
#: squares of numbers up to here can be added up
_LARGEST = 1e100


class ManyLevelsError(DataError):
    """A category that explains the target, a column of this name, has too many levels for a column each.

    plain: without what a formula would do.
    """

    def __init__(self, plain: str, column: str = "", in_formula: str = ""):
        super().__init__(plain + in_formula)
        self.plain, self.column = plain, column


Read = Callable[[set[str]], Iterator[pd.DataFrame]]


def scan(
    read: Read, target: str, features: list[str], options: Table, what: str, spelled: doubts.Spelled
) -> Layout:
    """Find out what the columns are.

    read(text): the table's pieces, the columns in `text` as strings.  spelled(names): these columns alone, as
    strings.  Raises DataError, with row and column, for missing, infinite or huge values and for text among
    numbers; for columns that are constant, dates or neither number nor category, for what is improbable
    (doubts.py), and for a target that the task does not take.
    """
    used = [*features, *options.beside.values(), target]
    named = {*options.categorical, *filter(options.order_of, used)}
    text = set(named)
    chosen = text | set(options.features or ())
    while True:
        seen = {name: Seen(name, options, what) for name in used}
        for name, column in seen.items():
            column.names = name in named
            if is_nameless(name) and name not in chosen:
                column.shifts = set()
        rows = dropped = last = 0
        missing = Counter[str]()
        total_weight = 0.0
        for piece, lost in usable(read(text), options, what, text):
            refuse_impossible(piece, options, what)
            if options.log_target:
                piece = _logged(piece, target, options, what)
            beside = {role: piece[name] for role, name in options.beside.items() if is_number(piece[name])}
            copies = encode.copies({role: values.to_numpy(np.float64) for role, values in beside.items()})
            total_weight += len(piece) if copies is None else float(copies.sum())
            rows, dropped = rows + len(piece), dropped + lost.rows
            missing.update(lost.by_column)
            last = int(piece.index[-1]) + 1 if len(piece) else last
            zeros = piece.attrs.pop(text_table.ZEROS, ())  # pandas copies it for every column taken
            for name, column in seen.items():
                values = piece[name]
                column.zeros |= zeros == text_table.ALL or name in zeros
                column.follow(values, is_number(values))
                if is_number(values):
                    known = np.isfinite(values.to_numpy()) if name == options.high else slice(None)
                    column.add_numbers(values.to_numpy()[known], copies if copies is None else copies[known])
                    continue
                column.add_text(values.astype(str), options.decimal)
                # pandas does not keep how truth values are spelled: read such a column again, as text
                column.numeric |= values.dtype in (bool, object) and types.infer_dtype(values) == "boolean"
                if values.dtype == "category":
                    column.names = True
                    if values.cat.ordered:
                        levels = list(values.cat.categories)
                        column.order += [level for level in levels if level not in column.order]
        # Numbers in some pieces, text in others: their levels are told apart only when all is text.
        mixed = {name for name, column in seen.items() if column.text and column.numeric}
        if not mixed:
            break
        text |= mixed
    if not rows:
        lack = f", all {dropped:,} lack a value; leave columns out with {options.say('drop')}"
        raise DataError(f"{what}: has no row to use{lack if dropped else ''}")
    for name in filter(lambda name: name in seen and seen[name].text, options.numeric):
        row, cell = seen[name].stray or (0, "")
        where = f", {cell[:40]!r} in {text_table.place(what, row or 0, options)}" if cell else ""
        fault = f"is said to be numeric by {options.say('numeric')}, but holds text{where}"
        raise seen[name].error(f"{fault}; {one_of(['write numbers alone', options.without(name)])}")
    for column in (seen[name] for name in options.beside.values() if seen[name].text):
        row, cell = column.stray or (0, min(column.values))
        where = f"{cell[:40]!r} in {text_table.place(what, row or 0, options)}"
        raise column.error(f"holds text, {where}, but is to hold numbers; mend it, or {column.without()}")
    refuse_unfitted(options, seen)
    for column in seen.values():
        take_order(column)
    if not total_weight:
        nothing = seen[str(options.weights or options.trials)]
        raise nothing.error(f"is 0 in every row, so that no row counts; {nothing.without()}")
    counted = [name for name in features if seen[name].shifts in ({0.0}, {1.0})]
    doubts.check([seen[name] for name in used if name not in counted], spelled, last)
    task, aim = _target(seen[target])
    columns = [feature(seen[name]) for name in features if name not in counted]
    against_references(columns if domains.of(task).ordered else [*columns, aim], options)
    aside = {
        role: Column(name, low=seen[name].low, high=seen[name].high) for role, name in options.beside.items()
    }
    layout = Layout(
        task,
        aim,
        columns,
        rows,
        dropped,
        counted,
        aside,
        total_weight,
        options.ones,
        log_target=options.log_target,
        missing=dict(missing),
    )
    for name in layout.names:
        if layout.names.count(name) > 1:
            other = "the column of ones that is added" if name == INTERCEPT else "a level of another column"
            remedy = f"rename it, or {options.without(name)}"
            raise DataError(f"{what}: column {name} has the name of {other}; {remedy}")
    return layout


def take_order(seen: Seen) -> None:
    """Take the order that is typed for levels. DataError for a level that is not in it."""
    if order := [*seen.options.order_of(seen.name)]:
        if fault := not_in_order({*map(str, seen.values)}, seen.name, seen.options):
            raise seen.error(fault)
        seen.order = order


class Lost(NamedTuple):
    """Rows of a piece that lack a value, and how many lack that of which column."""

    rows: int = 0
    by_column: Mapping[str, int] = MappingProxyType({})


def usable(
    pieces: Iterator[pd.DataFrame], options: Table, what: str, text: Collection[str]
) -> Iterator[tuple[pd.DataFrame, Lost]]:
    """Pieces without their rows that lack a value, and how many these were; at most options.limit rows.

    Where only these rows held words, as a footer or a line of units does, a text file's numbers are numbers
    again, but in the columns of `text`.
    """
    left = options.limit
    for piece in pieces:
        if options.missing == "refuse":
            piece = piece[:left]
        high = options.high or ""
        if high in piece and is_number(piece[high]):  # an end that is not known is none
            piece = piece.assign(**{high: piece[high].astype(np.float64).fillna(np.inf)})
        if left is None and _all_fine(piece):
            yield piece, Lost()
            continue
        lacking = piece.isna()
        bad = lacking.any(axis=1).to_numpy()
        if bad.any() and options.missing == "refuse":
            raise _missing(piece, lacking, pieces, options, what)
        if bad.any():
            piece = piece[~bad]
            if is_csv(what):
                piece = _numbers_again(piece, options, text)
        for name in filter(lambda name: is_number(piece[name]), piece.columns):
            values = piece[name].to_numpy(np.float64)
            fine = (np.abs(values) <= _LARGEST) | ((values == np.inf) & (name == options.high))
            if not fine.all():
                at = int(np.argmin(fine))
                where = text_table.place(what, int(piece.index[at]), options)
                remedy = f"write the column in a larger unit, or {options.without(name)}"
                remedy = f"the most is {_LARGEST:g}: {remedy}" if np.isfinite(values[at]) else "mend it"
                raise DataError(f"{what}: {where}, column {name} is {values[at]}; {remedy}")
        if left is not None:
            piece = piece[:left]
            left -= len(piece)
        counts = {str(name): int(count) for name, count in lacking.sum().items() if count}
        yield piece, Lost(int(bad.sum()), counts)
        if left == 0:
            return


def _missing(
    piece: pd.DataFrame, lacking: pd.DataFrame, others: Iterator[pd.DataFrame], options: Table, what: str
) -> DataError:
    """The first missing value, and what helps: rows are left out only where some would stay."""
    row = int(piece.index[lacking.any(axis=1).to_numpy().argmax()])
    column = str(piece.columns[lacking.loc[row].to_numpy().argmax()])
    empty, rows, complete = lacking.sum(), len(piece), int((~lacking.any(axis=1)).sum())
    for other in others:
        lacks = other.isna()
        empty, rows, complete = (
            empty + lacks.sum(),
            rows + len(other),
            complete + int((~lacks.any(axis=1)).sum()),
        )
    cell = table_files.cell(what, row, column, options)
    fault = f"holds {cell!r}, a word for a missing value" if cell else "has no value"
    mend = ["fill it in"]
    if cell and not is_number(piece[column]) and column != options.target:
        mend.append(f"add {options.say('categorical', column)} if it is a name")
    if column != options.target:
        mend.append(options.without(column))
    if complete:
        lost = f"{rows - complete:,} of {rows:,}"
        mend.append(f"leave such rows out, {lost}, with {options.say('missing', 'drop')}")
    elif str(emptiest := empty.idxmax()) != options.target:
        mend[1:] = [f"{options.without(str(emptiest))}, which has {empty.max():,} of {rows:,} empty"]
    where = text_table.place(what, row, options)
    return DataError(f"{what}: {where}, column {column} {fault}; {one_of(mend)}")


def _numbers_again(piece: pd.DataFrame, options: Table, text: Collection[str]) -> pd.DataFrame:
    for name in piece.columns:
        values = piece[name]
        if name in text or is_number(values) or types.infer_dtype(values) != "string":
            continue
        if all(kind(value, options.decimal) == "number" for value in values.unique()):
            numbers = values.str.replace(options.decimal, ".", regex=False).astype(np.float64)
            piece = piece.assign(**{name: numbers})
    return piece


def _all_fine(piece: pd.DataFrame) -> bool:
    """Whether every value is a number that can be used: one look at all, where it tells enough."""
    if not len(piece) or not table_files.numbers_alone(piece):
        return False
    values = piece.to_numpy(np.float64)
    return bool(values.max() <= _LARGEST and values.min() >= -_LARGEST)


def is_number(values: pd.Series) -> bool:
    """Whether a column holds numbers; truth values are a category."""
    return types.is_numeric_dtype(values.dtype) and not types.is_bool_dtype(values.dtype)


def _number_column(seen: Seen) -> Column:
    if not seen.spreads:
        raise seen.error(
            f"goes from {seen.low} to {seen.high}, too little to compute with; take a constant off it, write "
            f"it in another unit, or {seen.without()}"
        )
    column = Column(seen.name, low=seen.low, high=seen.high)
    return (
        replace(column, mean=seen.standing.mean, sd=math.sqrt(seen.standing.variance))
        if seen.options.standardize
        else column
    )


def _category(seen: Seen, remedy: str) -> Column:
    if len(seen.values) > MOST_LEVELS:
        fault = f"holds more than {MOST_LEVELS} different values, as names of things do"
        if seen.role != "column":
            raise seen.error(f"{fault}; {remedy}")
        instead = ""
        if seen.options.formula is None:
            aim, name = quoted(seen.options.target or "TARGET"), quoted(seen.name)
            instead = f", or write a formula: '{aim} ~ {name}' gives each a coefficient, "
            instead += f"'{aim} ~ (1 | {name})' makes groups of them"
        raise ManyLevelsError(str(seen.error(f"{fault}; {remedy}")), seen.name, instead)
    return seen.column()


def against_references(columns: Sequence[Column], options: Table) -> None:
    """Put the levels that `reference` names first. DataError for one that there is not."""
    for reference in options.reference:
        named = [column for column in columns if reference.startswith(f"{column.name}=")]
        if not named:
            close = did_you_mean(reference.partition("=")[0], [column.name for column in columns])
            raise DataError(
                f"{options.say('reference')}: {reference}: no such column is fitted{close}; write "
                "COLUMN=LEVEL"
            )
        column = max(named, key=lambda candidate: len(candidate.name))
        level = reference.removeprefix(f"{column.name}=")
        if column.levels is None:
            raise DataError(
                f"{options.say('reference')}: {reference}: {column.name} is a number; "
                f"add {options.say('categorical', column.name)} if its values are names"
            )
        if level not in column.levels:
            shown = (
                listing(column.levels) if len(column.levels) <= 12 else f"{', '.join(column.levels[:12])}, …"
            )
            raise DataError(
                f"{options.say('reference')}: {reference}: {column.name} has no level {level!r}"
                f"{did_you_mean(level, column.levels)}; it has {shown}"
            )
        first = column.levels.index(level)
        column.levels.insert(0, column.levels.pop(first))
        if column.counts is not None:
            column.counts.insert(0, column.counts.pop(first))


def feature(seen: Seen) -> Column:
    """What a column that explains the target is taken for. DataError for one that explains nothing."""
    if seen.shifts:
        raise seen.error(
            "has no name of its own, as an index that was written along; name it in the file, or "
            f"{seen.without()}"
        )
    if len(seen.values) == 1:
        added = ", as the intercept that is added anyhow" if seen.values & {1.0, "1"} else ""
        raise seen.error(f"is {seen.shown()} in every row{added}; {seen.without()}")
    if seen.text:
        return _category(seen, seen.without())
    column = _number_column(seen)
    if len(seen.values) == 2 and seen.options.standardize:  # as a category of these two: 0 and 1
        column.mean, column.sd = seen.low, seen.high - seen.low
    return column


def _logged(piece: pd.DataFrame, target: str, options: Table, what: str) -> pd.DataFrame:
    """The piece with the target's log. DataError for a target that has none."""
    values = piece[target]
    if not is_number(values):
        return piece  # text in it is refused when all is read
    bad = values.to_numpy(np.float64) <= 0.0
    if bad.any():
        row = int(piece.index[bad.argmax()])
        where = f"{text_table.place(what, row, options)}, column {target} is {values.iloc[bad.argmax()]:g}"
        raise DataError(f"{what}: {where}, which has no log; explain {target} itself, or leave the row out")
    return piece.assign(**{target: np.log(values.to_numpy(np.float64))})


def _target(seen: Seen) -> tuple[str, Column]:
    """(task, column) of the target."""
    options, n_values = seen.options, len(seen.values)
    task: str = options.task
    if options.log_target and task == "auto":
        task = "regression"
    if options.log_target and task != "regression":
        raise seen.error(f"is explained by its log, which needs {models_as_typed(options, 'regression')}")
    if task == "auto":
        of_order = n_values > 2 and bool(options.order_of(seen.name))
        task = "successes" if options.trials else "ordered" if of_order else _of_values(seen)
    kind, levels = domains.of(task), seen.levels()
    counts = not seen.text and seen.whole and seen.low >= 0.0
    if refusal := refused_beside(kind, options, counts):
        raise seen.error(refusal)
    if n_values < 2 and not kind.of_trials:
        raise seen.error(f"is {seen.shown()} in every row; there is nothing to learn; {seen.without()}")
    if refusal := refused_levels(kind, seen.name, levels, seen.text, bool(seen.order), options):
        raise seen.error(refusal)
    if kind.standardized:
        return task, _number_column(seen)
    if not kind.classes:
        return task, Column(seen.name, low=seen.low, high=seen.high)
    numbers = models_as_typed(options, "regression")
    return task, _category(seen, seen.without() if seen.text else f"choose {numbers}")


def _of_values(seen: Seen) -> str:
    """The task that a target's values ask for. DataError where they leave it open."""
    n_values, few = len(seen.values), len(seen.values) <= FEW_NUMBERS
    if seen.text or n_values <= 2 or not seen.whole or not (few or seen.low == 0.0):
        return "binary" if n_values == 2 else "classes" if seen.text else "regression"
    low = np.array([seen.low])
    meant = {}
    for domain in domains.SHARED.values():
        if domain.meaning and (few or not domain.classes) and domain.holds(low).all():
            meant[domain.meaning] = models_as_typed(seen.options, domain.name)
    if len(meant) == 1:
        return "regression"
    shown = listing(seen.levels()) if few else f"from 0 to {plain(seen.high)}"
    choices = ", ".join(f"{models} if they are {word}" for word, models in meant.items())
    fault = f"holds the whole numbers {shown}, which may be {listing(meant, 'or')}"
    raise seen.error(f"{fault}; choose {choices}")
