"""What a table's columns are, found in one pass over the file, and their numbers for a likelihood.

A column is a number or a category. A category of L levels becomes L-1 columns of 0 and 1, `name[level]`; the
first level in order, the reference, has none. Numbers are standardised, 0-1 columns are not; a column of
ones, "intercept", comes last.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from flyrun.errors import DataError
from flyrun.schema import listing

if TYPE_CHECKING:
    import pandas as pd

MOST_LEVELS = 100
#: whole numbers of so few different values are taken for classes, unless the model says otherwise
FEW_NUMBERS = 10
INTERCEPT = "intercept"
COUNTED = "rows count from 0 below the header"


@dataclass
class Column:
    """One column. levels: of a category, in order; text: whether these stand in the file as they are spelled
    here, not as numbers; mean, sd: of a number (0 and 1 leave it be)."""

    name: str
    levels: list[str] | None = None
    text: bool = False
    mean: float = 0.0
    sd: float = 1.0

    @property
    def width(self) -> int:
        """How many columns it becomes."""
        return 1 if self.levels is None else len(self.levels) - 1

    @property
    def encoded(self) -> list[str]:
        """Their names."""
        return [self.name] if self.levels is None else [f"{self.name}[{one}]" for one in self.levels[1:]]


@dataclass
class Layout:
    """What a table holds. task: "binary", "classes" or "regression"; rows: those used; dropped: for missing
    values."""

    task: str
    target: Column
    features: list[Column]
    rows: int = 0
    dropped: int = 0

    @property
    def names(self) -> list[str]:
        """Of the encoded columns, the intercept last."""
        return [name for column in self.features for name in column.encoded] + [INTERCEPT]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, from which `from_dict` makes it again."""
        return asdict(self)

    @staticmethod
    def from_dict(values: dict[str, Any]) -> Layout:
        """Undo as_dict."""
        return Layout(
            values["task"],
            Column(**values["target"]),
            [Column(**one) for one in values["features"]],
            values["rows"],
            values["dropped"],
        )


@dataclass
class _Seen:
    """What a scan has seen of a column."""

    name: str
    numeric: bool = False
    text: bool = False
    count: int = 0
    mean: float = 0.0
    square: float = 0.0
    low: float = math.inf
    high: float = -math.inf
    whole: bool = True
    values: set[Any] = field(default_factory=set)

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

    def add_text(self, values: Any) -> None:
        """Take text."""
        self.text = True
        self.count += len(values)
        if len(self.values) <= MOST_LEVELS:
            self.values |= {str(value) for value in values.unique()}

    def levels(self) -> list[str]:
        """Its different values as text, numbers in numeric order."""
        if self.text:
            number = all(_number(value) is not None for value in self.values)
            return sorted(self.values, key=(lambda value: (float(value), value)) if number else str)
        return [f"{value:.17g}" for value in sorted(self.values)]


def scan(
    read: Callable[[set[str]], Iterator[pd.DataFrame]],
    target: str,
    features: list[str],
    categorical: set[str],
    options: Any,
    what: str,
) -> Layout:
    """Find out what the columns are.

    read(text): the table's pieces, the columns in `text` as strings.  options: task ("auto" where the target
    decides), standardize, missing, limit.  Raises DataError, with row and column, for missing or infinite
    values, columns that are constant or neither number nor category, a target that the task does not take.
    """
    from pandas.api import types

    text = set(categorical)
    while True:
        seen = {name: _Seen(name) for name in [*features, target]}
        rows = dropped = 0
        for piece, lost in usable(read(text), options, what):
            rows, dropped = rows + len(piece), dropped + lost
            for name, one in seen.items():
                values = piece[name]
                if is_number(values):
                    one.add_numbers(values.to_numpy(np.float64))
                else:
                    one.add_text(values.astype(str))
                    # pandas does not keep how truth values are spelled: read such a column again, as text
                    one.numeric |= types.is_bool_dtype(values.dtype)
        # Numbers in some pieces, text in others: their levels are told apart only when all is text.
        mixed = {name for name, one in seen.items() if one.text and one.numeric}
        if not mixed:
            break
        text |= mixed
    if not rows:
        raise DataError(f"{what}: has no row to use" + (f", {dropped:,} lack a value" if dropped else ""))
    aim = _target(seen[target], options, what)
    return Layout(aim[0], aim[1], [_feature(seen[name], options, what) for name in features], rows, dropped)


def usable(pieces: Iterator[pd.DataFrame], options: Any, what: str) -> Iterator[tuple[pd.DataFrame, int]]:
    """Pieces without their rows that lack a value, and how many these were; at most options.limit rows."""
    left = options.limit
    for piece in pieces:
        lacking = piece.isna().to_numpy()
        bad = lacking.any(axis=1)
        lost = 0
        if bad.any():
            if options.missing == "refuse":
                at = int(np.argmax(bad))
                column = piece.columns[int(np.argmax(lacking[at]))]
                raise DataError(
                    f"{what}: row {piece.index[at]}, column {column} has no value ({COUNTED}); fill it in, "
                    "leave the column out with dataset.drop, or such rows with dataset.missing=drop"
                )
            piece, lost = piece[~bad], int(bad.sum())
        for name in piece.columns:
            if is_number(piece[name]):
                values = piece[name].to_numpy(np.float64)
                if not np.isfinite(values).all():
                    at = int(np.argmin(np.isfinite(values)))
                    raise DataError(
                        f"{what}: row {piece.index[at]}, column {name} is {values[at]} ({COUNTED}); mend it"
                    )
        if left is not None:
            piece = piece[:left]
            left -= len(piece)
        yield piece, lost
        if left == 0:
            return


def is_number(values: pd.Series) -> bool:
    """Whether a column holds numbers; truth values are a category."""
    from pandas.api import types

    return types.is_numeric_dtype(values.dtype) and not types.is_bool_dtype(values.dtype)


def _feature(seen: _Seen, options: Any, what: str) -> Column:
    constant = seen.low == seen.high if not seen.text else len(seen.values) == 1
    if constant:
        value = next(iter(seen.values))
        raise DataError(
            f"{what}: column {seen.name} is {_shown(value)} in every row; leave it out with "
            f"dataset.drop=[{seen.name}]"
        )
    if not seen.text:
        sd = math.sqrt(seen.square / seen.count)
        return Column(seen.name, mean=seen.mean, sd=sd) if options.standardize else Column(seen.name)
    _check_levels(seen, what, f"leave it out with dataset.drop=[{seen.name}]")
    return Column(seen.name, seen.levels(), seen.text)


def _check_levels(seen: _Seen, what: str, remedy: str) -> None:
    if len(seen.values) <= MOST_LEVELS:
        return
    words = sorted(str(value) for value in seen.values if _number(value) is None)
    if words and len(words) < len(seen.values) / 2:
        raise DataError(
            f"{what}: column {seen.name} holds numbers, but also {words[0][:40]!r}; mend these, or {remedy}"
        )
    raise DataError(
        f"{what}: column {seen.name} holds more than {MOST_LEVELS} different values, as names of things "
        f"do; {remedy}"
    )


def _target(seen: _Seen, options: Any, what: str) -> tuple[str, Column]:
    """(task, column) of the target."""
    task = options.task
    if task == "auto":
        few = seen.text or (seen.whole and len(seen.values) <= FEW_NUMBERS)
        task = "binary" if len(seen.values) == 2 else "classes" if few else "regression"
    if task == "regression":
        if seen.text:
            word = next((value for value in sorted(seen.values) if _number(value) is None), "")
            raise DataError(
                f"{what}: target {seen.name} holds text ({word[:40]!r}); a regression needs numbers: mend "
                "it, or choose model=logistic or model=softmax"
            )
        if seen.low == seen.high:
            raise _nothing_to_learn(seen, what)
        sd = math.sqrt(seen.square / seen.count)
        return task, Column(seen.name, mean=seen.mean, sd=sd) if options.standardize else Column(seen.name)
    if len(seen.values) < 2:
        raise _nothing_to_learn(seen, what)
    levels = seen.levels()
    if task == "binary" and len(levels) != 2:
        shown = f"{', '.join(levels[:4])}, …" if len(levels) > 5 else listing(levels)
        other = "" if seen.text else " or model=student_t"
        count = len(levels) if len(levels) <= MOST_LEVELS else f"more than {MOST_LEVELS}"
        raise DataError(
            f"{what}: target {seen.name} has {count} values, {shown}; model=logistic takes two: choose "
            f"model=softmax{other}"
        )
    remedy = "name another column with dataset.target" if seen.text else "choose model=student_t"
    _check_levels(seen, what, remedy)
    return task, Column(seen.name, levels, seen.text)


def _nothing_to_learn(seen: _Seen, what: str) -> DataError:
    value = _shown(next(iter(seen.values)))
    return DataError(f"{what}: target {seen.name} is {value} in every row; there is nothing to learn")


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def encode(piece: pd.DataFrame, layout: Layout) -> tuple[np.ndarray, np.ndarray]:
    """(features (n, D), target (n,)) of a piece: float64 ±1, class numbers, or standardised values."""
    columns = [part for column in layout.features for part in _parts(piece[column.name], column)]
    rows = np.column_stack([*columns, np.ones(len(piece))])
    aim = layout.target
    if aim.levels is None:
        return rows, (piece[aim.name].to_numpy(np.float64) - aim.mean) / aim.sd
    codes = _codes(piece[aim.name], aim)
    return rows, codes * 2.0 - 1.0 if layout.task == "binary" else codes


def _parts(values: pd.Series, column: Column) -> list[np.ndarray]:
    if column.levels is None:
        return [(values.to_numpy(np.float64) - column.mean) / column.sd]
    codes = _codes(values, column)
    return [(codes == level).astype(np.float64) for level in range(1, len(column.levels))]


def _codes(values: pd.Series, column: Column) -> np.ndarray:
    """Number of each value's level, (n,) int64."""
    import pandas as pd

    assert column.levels is not None
    known: list[Any] = column.levels if column.text else [float(level) for level in column.levels]
    codes = pd.Categorical(values.astype(str if column.text else np.float64), categories=known).codes
    if (codes < 0).any():
        raise DataError(f"column {column.name} holds other values than a moment ago; leave the file as it is")
    return codes.astype(np.int64)


def text_columns(layout: Layout) -> set[str]:
    """Columns to be read as strings, so that every piece spells a level alike."""
    return {column.name for column in [*layout.features, layout.target] if column.text}


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except ValueError:
        return None
