"""What a table's columns are, numbers or categories, found in one pass over the file.

Text is a category unless it seems to be meant as numbers: more than half of its rows, or of its different
values, are numbers, dates, or numbers written otherwise (table_cells.kind), and two of these differ. That is
refused, for one cell gone wrong would make a category of a number; `categorical` says that it is one.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types

from flyrun.config.dataset import Table
from flyrun.config.schema import listing
from flyrun.data.table import files as table_files
from flyrun.data.table.cells import kind
from flyrun.data.table.formats import is_csv
from flyrun.data.table.layout import INTERCEPT, Column, Layout
from flyrun.errors import DataError

MOST_LEVELS = 100
#: whole numbers of so few different values may be classes: the model must say
FEW_NUMBERS = 10
COUNTED = "rows count from 0 below the header"
#: squares of numbers up to here, and of sds down to its inverse, can be added up
_LARGEST = 1e100
#: sd over mean below which a number's last digits, which rounding spoils, are all that tells rows apart
_LEAST_SD = 1e-12


@dataclass
class _Seen:
    """What a scan has seen of a column of the table `what`. names: whether its text is said to be names;
    alike: rows whose text looks like numbers or dates; stray: row and text of the first that is no plain
    number; shifts: values less row numbers, of a column without a name."""

    name: str
    options: Table = field(default_factory=Table)
    what: str = ""
    numeric: bool = False
    text: bool = False
    count: int = 0
    mean: float = 0.0
    square: float = 0.0
    low: float = math.inf
    high: float = -math.inf
    whole: bool = True
    values: set[Any] = field(default_factory=set)
    names: bool = False
    alike: int = 0
    stray: tuple[int, str] | None = None
    shifts: set[float] | None = None

    def add_numbers(self, values: np.ndarray) -> None:
        """Take numbers (n,), all finite; moments by Chan, Golub & LeVeque's update."""
        self.numeric = True
        if not len(values):
            return
        total = self.count + len(values)
        mean = float(values.mean())
        gap = mean - self.mean
        self.square += float(((values - mean) ** 2).sum()) + gap * gap * self.count * len(values) / total
        self.mean += gap * len(values) / total
        self.count = total
        self.low, self.high = min(self.low, float(values.min())), max(self.high, float(values.max()))
        self.whole = self.whole and bool(np.all(values == np.rint(values)))
        if len(self.values) <= MOST_LEVELS:
            self.values |= {float(value) for value in np.unique(values)[: MOST_LEVELS + 1]}

    def add_text(self, values: pd.Series, decimal: str) -> None:
        """Take text."""
        self.text = True
        if self.stray is not None and len(self.values) > MOST_LEVELS:
            return  # it will be refused, and what for is known
        self.count += len(values)
        counts = values.value_counts()
        kinds = {value: kind(value, decimal) for value in counts.index}
        self.alike += int(sum(counts[value] for value in kinds if kinds[value]))
        strays = [value for value in kinds if kinds[value] != "number"]
        if strays and self.stray is None:
            at = int(values.isin(strays).to_numpy().argmax())
            self.stray = values.index[at], values.iloc[at]
        if len(self.values) <= MOST_LEVELS:
            self.values |= set(kinds)

    def follow(self, values: pd.Series) -> None:
        """Compare numbers with their rows' own, where this is asked for."""
        if self.shifts is not None:
            found = values - values.index if is_number(values) else [math.nan]
            self.shifts |= set(np.unique(found)[:2].tolist())

    def meant_as_numbers(self, decimal: str) -> bool:
        """Whether text seems to be numbers or dates, by the rule above."""
        alike = sum(kind(value, decimal) != "" for value in self.values)
        return alike > 1 and (2 * alike > len(self.values) or 2 * self.alike > self.count)

    def levels(self) -> list[str]:
        """Its different values as text, numbers in numeric order."""
        if not self.text:
            return [f"{value:.17g}" for value in sorted(self.values)]
        try:
            return sorted(self.values, key=lambda value: (float(value), value))
        except ValueError:
            return sorted(self.values)

    def error(self, said: str, role: str = "column") -> DataError:
        """One line of a column."""
        return DataError(f"{self.what}: {role} {self.name} {said}")

    def leave_out(self) -> str:
        """The remedy for a column that is of no use."""
        return _leave_out(self.name, self.options)

    def shown(self) -> str:
        """The value of a column that holds no other."""
        (value,) = self.values
        if isinstance(value, str):
            return value
        return f"{value:.15g}" + (" (to 15 digits)" if abs(value) >= 1 / np.finfo(float).eps else "")


Read = Callable[[set[str]], Iterator[pd.DataFrame]]


def scan(read: Read, target: str, features: list[str], options: Table, what: str) -> Layout:
    """Find out what the columns are.

    read(text): the table's pieces, the columns in `text` as strings.  Raises DataError, with row and column,
    for missing, infinite or huge values and for text among numbers; for columns that are constant, dates or
    neither number nor category, and for a target that the task does not take.
    """
    text = set(options.categorical)
    chosen = text | set(options.features or ())
    while True:
        seen = {name: _Seen(name, options, what) for name in [*features, target]}
        for name, one in seen.items():
            one.names = name in options.categorical
            if table_files.is_nameless(name) and name not in chosen:
                one.shifts = set()
        rows = dropped = 0
        for piece, lost in usable(read(text), options, what):
            rows, dropped = rows + len(piece), dropped + lost
            for name, one in seen.items():
                values = piece[name]
                one.follow(values)
                if is_number(values):
                    one.add_numbers(values.to_numpy(np.float64))
                else:
                    one.add_text(values.astype(str), options.decimal)
                    # pandas does not keep how truth values are spelled: read such a column again, as text
                    one.numeric |= types.is_bool_dtype(values.dtype)
                    one.names |= values.dtype == "category"
        # Numbers in some pieces, text in others: their levels are told apart only when all is text.
        mixed = {name for name, one in seen.items() if one.text and one.numeric}
        if not mixed:
            break
        text |= mixed
    if not rows:
        lack = f", all {dropped:,} lack a value; leave columns out with {options.say('drop')}"
        raise DataError(f"{what}: has no row to use{lack if dropped else ''}")
    for one in seen.values():
        if one.text and not one.names:
            _check_words(one)
    task, aim = _target(seen[target])
    counted = [name for name in features if seen[name].shifts in ({0.0}, {1.0})]
    columns = [_feature(seen[name]) for name in features if name not in counted]
    layout = Layout(task, aim, columns, rows, dropped, counted)
    for name in layout.names:
        if layout.names.count(name) > 1:
            other = "the column of ones that is added" if name == INTERCEPT else "a level of another column"
            remedy = f"rename it, or {_leave_out(name, options)}"
            raise DataError(f"{what}: column {name} has the name of {other}; {remedy}")
    return layout


def usable(pieces: Iterator[pd.DataFrame], options: Table, what: str) -> Iterator[tuple[pd.DataFrame, int]]:
    """Pieces without their rows that lack a value, and how many these were; at most options.limit rows."""
    left = options.limit
    for piece in pieces:
        if options.missing == "refuse":
            piece = piece[:left]
        if left is None and _all_fine(piece):
            yield piece, 0
            continue
        lacking = piece.isna()
        bad = lacking.any(axis=1).to_numpy()
        if bad.any() and options.missing == "refuse":
            row = piece.index[bad.argmax()]
            column = piece.columns[lacking.loc[row].to_numpy().argmax()]
            without = "" if column == options.target else f", {_leave_out(column, options)},"
            raise DataError(
                f"{what}: row {row}, column {column} has no value ({COUNTED}); fill it in{without} or leave "
                f"such rows out with {options.say('missing', 'drop')}"
            )
        piece = piece[~bad] if bad.any() else piece
        for name in filter(lambda name: is_number(piece[name]), piece.columns):
            values = piece[name].to_numpy(np.float64)
            fine = np.abs(values) <= _LARGEST
            if not fine.all():
                at = int(np.argmin(fine))
                remedy = f"write the column in a larger unit, or {_leave_out(name, options)}"
                remedy = f"the most is {_LARGEST:g}: {remedy}" if np.isfinite(values[at]) else "mend it"
                raise DataError(
                    f"{what}: row {piece.index[at]}, column {name} is {values[at]} ({COUNTED}); {remedy}"
                )
        if left is not None:
            piece = piece[:left]
            left -= len(piece)
        yield piece, int(bad.sum())
        if left == 0:
            return


def _all_fine(piece: pd.DataFrame) -> bool:
    """Whether every value is a number that can be used: one look at all, where it tells enough."""
    if not len(piece) or not table_files.numbers_alone(piece):
        return False
    values = piece.to_numpy(np.float64)
    return bool(values.max() <= _LARGEST and values.min() >= -_LARGEST)


def is_number(values: pd.Series) -> bool:
    """Whether a column holds numbers; truth values are a category."""
    return types.is_numeric_dtype(values.dtype) and not types.is_bool_dtype(values.dtype)


def _leave_out(name: str, options: Table) -> str:
    if name == options.target:
        return f"name another column with {options.say('target')}"
    return f"leave the column out with {options.say('drop', name)}"


def _check_words(seen: _Seen) -> None:
    """Refuse text that seems to be meant as numbers, and levels that differ in upper and lower case alone."""
    options = seen.options
    role = "target" if seen.name == options.target else "column"
    if not seen.meant_as_numbers(options.decimal):
        folded: dict[str, str] = {}
        for value in sorted(seen.values):
            other = folded.setdefault(value.casefold(), value)
            if other != value and len(seen.values) <= MOST_LEVELS:
                remedy = f"add {options.say('categorical', seen.name)} if they differ"
                said = f"holds {other[:40]!r} and {value[:40]!r}; write them alike, or {remedy}"
                raise seen.error(said, role)
        return
    row, cell = seen.stray or (0, "")
    found = kind(cell, options.decimal)
    where = f"{cell[:40]!r} in row {row} ({COUNTED})"
    if seen.stray is None:
        said, mend = "holds numbers that are stored as text", ["store them as numbers"]
    elif found == "date":
        said, mend = f"holds the date or time {where}", ["write it as a number, such as days since a date"]
    elif any(kind(value, options.decimal) == "number" for value in seen.values):
        said, mend = f"holds numbers, but also {where}", ["mend it"]
    else:
        said, mend = f"holds {where}", [f"write plain numbers, as 1234{options.decimal}5"]
    if found == "comma" and is_csv(seen.what):
        mend.append(f"add {options.say('decimal', ',')} if such commas are decimal")
    if role == "column" or options.task != "regression":
        names = "few different dates are" if found == "date" else "these are"
        mend.append(f"add {options.say('categorical', seen.name)} if {names} meant as names")
    raise seen.error(f"{said}; {', '.join(mend)}, or {seen.leave_out()}", role)


def _number_column(seen: _Seen) -> Column:
    sd = math.sqrt(seen.square / seen.count)
    if sd <= max(1.0 / _LARGEST, _LEAST_SD * abs(seen.mean)):
        raise seen.error(
            f"goes from {seen.low} to {seen.high}, too little to compute with; take a constant off it, write "
            f"it in another unit, or {seen.leave_out()}"
        )
    return Column(seen.name, mean=seen.mean, sd=sd) if seen.options.standardize else Column(seen.name)


def _category(seen: _Seen, remedy: str) -> Column:
    if len(seen.values) > MOST_LEVELS:
        raise seen.error(f"holds more than {MOST_LEVELS} different values, as names of things do; {remedy}")
    return Column(seen.name, seen.levels(), seen.text)


def _feature(seen: _Seen) -> Column:
    if seen.shifts:
        raise seen.error(
            "has no name of its own, as an index that was written along; name it in the file, or "
            f"{seen.leave_out()}"
        )
    if len(seen.values) == 1:
        added = ", as the intercept that is added anyhow" if seen.values & {1.0, "1"} else ""
        raise seen.error(f"is {seen.shown()} in every row{added}; {seen.leave_out()}")
    if seen.text:
        return _category(seen, seen.leave_out())
    column = _number_column(seen)
    if len(seen.values) == 2 and seen.options.standardize:  # as a category of these two: 0 and 1
        column.mean, column.sd = seen.low, seen.high - seen.low
    return column


def _target(seen: _Seen) -> tuple[str, Column]:
    """(task, column) of the target."""
    options, n_values = seen.options, len(seen.values)
    task: str = options.task
    softmax, student_t = options.say("model", "softmax"), options.say("model", "student_t")
    if task == "auto":
        if not seen.text and seen.whole and 2 < n_values <= FEW_NUMBERS:
            said = (
                f"holds the whole numbers {listing(seen.levels())}, which may be counts or classes; choose "
                f"{softmax} if they are classes, {student_t} if they are numbers"
            )
            raise seen.error(said, "target")
        task = "binary" if n_values == 2 else "classes" if seen.text else "regression"
    if task == "regression" and seen.text:
        word, logistic = min(seen.values)[:40], options.say("model", "logistic")
        said = (
            f"holds text ({word!r}); a regression needs numbers: mend it, or choose {logistic} or {softmax}"
        )
        raise seen.error(said, "target")
    if n_values < 2:
        raise seen.error(f"is {seen.shown()} in every row; there is nothing to learn", "target")
    if task == "regression":
        return task, _number_column(seen)
    if task == "binary" and n_values != 2:
        levels = seen.levels()
        shown = f"{', '.join(levels[:4])}, …" if n_values > 5 else listing(levels)
        count = n_values if n_values <= MOST_LEVELS else f"more than {MOST_LEVELS}"
        other = softmax if seen.text else f"{softmax} or {student_t}"
        said = f"has {count} values, {shown}; {options.say('model', 'logistic')} takes two: choose {other}"
        raise seen.error(said, "target")
    return task, _category(seen, seen.leave_out() if seen.text else f"choose {student_t}")
