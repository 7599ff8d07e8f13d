"""Which rows of a table are used: `year >= 2023 and region in ('north', 'west')`.

Comparisons of a column with a number or a word in quotes, and, or, brackets; nothing else is evaluated. A row
that lacks a value of a compared column is none of a comparison's. `region=north` is short for equality.
"""

import functools
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from flyrun.ground.errors import ConfigError, DataError
from flyrun.ground.schema import quoted as in_shell
from flyrun.tables.layout import plain
from flyrun.tables.quoting import quoted

if TYPE_CHECKING:
    import pandas as pd

_TOKEN = re.compile(
    r"\s*(?:(?P<word>'[^']*'|\"[^\"]*\")|(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w.]))"
    r"|`(?P<quoted>[^`]+)`|(?P<name>[^\W\d][\w.]*)|(?P<sign><=|>=|==|!=|<|>|[(),]))"
)
_SHORT = re.compile(r"(?:`(?P<quoted>[^`]+)`|(?P<name>[^=<>!`'\"]+?))=(?!=)(?P<level>[^=]*)")
_DATE = re.compile(r"\d{4}-\d\d(-\d\d([ T]\d\d(:\d\d){1,2})?)?")
_COMPARED: dict[str, Callable[..., object]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_EXAMPLE = "as \"year >= 2023 and region in ('north', 'west')\""


@dataclass(frozen=True)
class Comparison:
    """Of a column. sign: <, <=, >, >=, in or not in; values: of which the row's is one, or the end."""

    column: str
    sign: str
    values: tuple[str | float, ...]

    def mask(self, frame: "pd.DataFrame", what: str) -> np.ndarray:
        """Which rows it holds for, (n,). DataError where the column holds what is not compared so."""
        import pandas as pd  # late: half a second

        column = frame[self.column]
        if isinstance(column.dtype, pd.CategoricalDtype):
            column = column.astype(column.cat.categories.dtype)
        there = column.notna().to_numpy(bool)
        kept = np.zeros(len(column), bool)
        kept[there] = self._of(column[there], what)
        return kept

    def _of(self, values: "pd.Series", what: str) -> np.ndarray:
        """Of values (n,), none missing."""
        from pandas.api import types  # late: as above

        dates = types.is_datetime64_any_dtype(values.dtype)
        if isinstance(self.values[0], str) and (self.sign in _COMPARED or dates):
            ends = [str(end) for end in self.values]
            if not all(map(_DATE.fullmatch, ends)):
                raise self._error(what, "dates are compared as '2023-01-31', words by == and in alone")
            if dates:  # as text, the time zone's own
                values = values.dt.strftime("%Y-%m-%d %H:%M:%S")
                ends = [end.replace("T", " ") for end in ends]
                if self.sign not in _COMPARED:
                    values = values.str[: max(map(len, ends))]
            elif types.is_numeric_dtype(values.dtype) or not all(map(_DATE.match, values.astype(str))):
                raise self._error(what, "it holds no dates; compare numbers with a number, as 2023")
            if self.sign in _COMPARED:
                return np.asarray(_COMPARED[self.sign](values.astype(str), ends[0]), bool)
            return self._among(values.isin(ends).to_numpy(bool))
        if isinstance(self.values[0], str):
            texts = values.astype(str).str.strip()
            if types.is_numeric_dtype(values.dtype) and not types.is_bool_dtype(values.dtype):
                texts = texts.str.removesuffix(".0")
            return self._among(texts.isin(self.values).to_numpy(bool))
        try:
            if types.is_bool_dtype(values.dtype) or dates:
                raise ValueError
            numbers = values.astype(str).astype(np.float64) if values.dtype == object else values
            numbers = numbers.to_numpy(np.float64)
        except (TypeError, ValueError) as error:
            held = next((str(value) for value in values if not _is_number(value)), "dates")
            raise self._error(what, f"it holds {held!r}; write a word in quotes, as {held!r}") from error
        if self.sign in _COMPARED:
            return np.asarray(_COMPARED[self.sign](numbers, self.values[0]), bool)
        return self._among(np.isin(numbers, np.array(self.values, np.float64)))

    def _among(self, kept: np.ndarray) -> np.ndarray:
        """As the sign says, of which (n,) are among the values."""
        return ~kept if self.sign == "not in" else kept

    def _error(self, what: str, why: str) -> DataError:
        return DataError(f"{what}: --where compares {quoted(self.column)} by {self}; {why}")

    def __str__(self) -> str:
        """As it is typed."""
        values = [f"'{value}'" if isinstance(value, str) else plain(value) for value in self.values]
        if self.sign in _COMPARED or len(values) > 1:
            shown = values[0] if self.sign in _COMPARED else f"({', '.join(values)})"
            return f"{quoted(self.column)} {self.sign} {shown}"
        return f"{quoted(self.column)} {'==' if self.sign == 'in' else '!='} {values[0]}"


@dataclass(frozen=True)
class Filter:
    """An alternative of conjunctions. parts: comparisons, or filters; every: whether all must hold."""

    parts: "tuple[Comparison | Filter, ...]"
    every: bool

    @property
    def columns(self) -> tuple[str, ...]:
        """That are compared, each once."""
        names = [
            name
            for part in self.parts
            for name in ((part.column,) if isinstance(part, Comparison) else part.columns)
        ]
        return tuple(dict.fromkeys(names))

    def mask(self, frame: "pd.DataFrame", what: str) -> np.ndarray:
        """Which rows are used, (n,). DataError as of Comparison."""
        masks = [part.mask(frame, what) for part in self.parts]
        return np.asarray((np.logical_and if self.every else np.logical_or).reduce(masks))

    def known(self, values: Mapping[str, str | float | None], what: str) -> "Filter | bool":
        """What is left to compare where some columns are the same in all rows, or whether all are used."""
        import pandas as pd  # late: as above

        left: list[Comparison | Filter] = []
        for part in self.parts:
            if isinstance(part, Filter):
                outcome = part.known(values, what)
            elif part.column in values:
                outcome = bool(part.mask(pd.DataFrame({part.column: [values[part.column]]}), what)[0])
            else:
                outcome = Filter((part,), True)
            if isinstance(outcome, bool):
                if outcome is not self.every:
                    return outcome
            else:
                left.append(outcome)
        return Filter(tuple(left), self.every) if left else self.every


@functools.lru_cache(maxsize=64)
def read(text: str) -> Filter:
    """A filter as it is typed. ConfigError in one line for what it is not."""
    if short := _SHORT.fullmatch(text.strip()):
        level, name = short["level"].strip(), (short["quoted"] or short["name"]).strip()
        if not re.search(r"\s(and|or)\s", f" {level} ") or not level:
            return Filter((Comparison(name, "in", (level,)),), True)
    return _Reader(text).whole()


class _Reader:
    """Reads a filter's text from left to right."""

    def __init__(self, text: str):
        self.text, self.tokens, at = text, list[tuple[str, str]](), 0
        while at < len(text.rstrip()):
            if (token := _TOKEN.match(text, at)) is None:
                rest = text[at:].strip()
                if rest.startswith("="):
                    raise self._error("compares with =; write ==")
                raise self._error(f"has {rest.split()[0]!r}, which is no part of a comparison")
            kind = token.lastgroup or ""
            value = token[kind]
            self.tokens.append(("name" if kind == "quoted" else kind, value))
            if kind == "name" and value in ("and", "or", "in", "not"):
                self.tokens[-1] = ("sign", value)
            at = token.end()

    def whole(self) -> Filter:
        """All of it."""
        outcome = self._any()
        if self.tokens:
            raise self._error(f"goes on with {self.tokens[0][1]!r} after a comparison; join two by and, or")
        return outcome if isinstance(outcome, Filter) else Filter((outcome,), True)

    def _any(self) -> Comparison | Filter:
        return self._several("or", lambda: self._several("and", self._one))

    def _several(self, sign: str, part: Callable[[], Comparison | Filter]) -> Comparison | Filter:
        parts = [part()]
        while self._took(sign):
            parts.append(part())
        return parts[0] if len(parts) == 1 else Filter(tuple(parts), sign == "and")

    def _one(self) -> Comparison | Filter:
        if self._took("("):
            inner = self._any()
            self._close()
            return inner
        kind, column = self._next("a column")
        if kind != "name":
            raise self._error(f"has {column!r} where a column is to stand; write the column first")
        _, sign = self._next("a comparison")
        if sign == "not" and self._took("in"):
            sign = "not in"
        if sign in ("in", "not in"):
            if not self._took("("):
                raise self._error(f"has no brackets after {sign}; write {quoted(column)} {sign} (2022, 2023)")
            values = [self._value()]
            while self._took(","):
                values.append(self._value())
            self._close()
        elif sign in _COMPARED or sign in ("==", "!="):
            values = [self._value()]
            sign = {"==": "in", "!=": "not in"}.get(sign, sign)
        else:
            raise self._error(f"has {sign!r} after {column}; compare with ==, !=, <, <=, >, >= or in")
        if len({isinstance(value, str) for value in values}) > 1:
            raise self._error(f"compares {column} with numbers and words; write either alone")
        return Comparison(column, sign, tuple(values))

    def _value(self) -> str | float:
        kind, value = self._next("a number or a word in quotes")
        if kind == "number":
            return float(value)
        if kind == "word":
            return value[1:-1]
        if kind == "name":
            raise self._error(f"compares with {value} without quotes; write '{value}'")
        raise self._error(f"has {value!r} where a number or a word in quotes is to stand")

    def _close(self) -> None:
        if not self._took(")"):
            raise self._error("lacks a closing bracket")

    def _took(self, sign: str) -> bool:
        """Whether this comes next; it is then read."""
        if self.tokens[:1] == [("sign", sign)]:
            self.tokens.pop(0)
            return True
        return False

    def _next(self, what: str) -> tuple[str, str]:
        if not self.tokens:
            raise self._error(f"ends where {what} is to stand")
        return self.tokens.pop(0)

    def _error(self, fault: str) -> ConfigError:
        example = "" if "write" in fault or "compare with" in fault else f"; write it {_EXAMPLE}"
        return ConfigError(f"--where {in_shell(self.text)}: {fault}{example}")


def _is_number(value: object) -> bool:
    try:
        float(str(value))
    except ValueError:
        return False
    return not isinstance(value, bool)
