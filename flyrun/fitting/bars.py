"""Groups of rows and smooths in a formula, as `(1 + a || clinic)` and `s(x)`, taken out of the others."""

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from flyrun.fitting import smooths
from flyrun.fitting.smooths import Smooth
from flyrun.ground.errors import FlyrunError
from flyrun.tables.quoting import Names, masked, quoted

if TYPE_CHECKING:
    from flyrun.tables.layout import Layout

_NAME = re.compile(r"`([^`]+)`|([^\W\d][\w.]*)")
_MULTIPLE = re.compile(r"mm\(([^()=]*)\)")
_CATEGORY = re.compile(
    r"C\(\s*(`[^`]+`|[^\W\d][\w.]*)\s*"
    r"(?:,\s*Treatment\(\s*(?:reference\s*=\s*)?('[^']*'|\"[^\"]*\"|[\d.]+)\s*\)\s*)?\)"
)
_WITHIN = ":"  # between the columns of nested groups, and their levels


@dataclass(frozen=True)
class Bar:
    """Effects of each level of columns, of pairs of levels where there are several: an intercept or none, and
    slopes of these columns. correlated: whether effects are. of: the parameter of the target's distribution
    whose formula has it, empty of the target's. fixed: whether each level has a coefficient against the
    reference's, by default the first level, and no sd is learnt. classes: of the target, without the first,
    against which the log odds of each have these effects; none where it has one predictor.
    """

    columns: tuple[str, ...]
    slopes: tuple[str, ...] = ()
    intercept: bool = True
    correlated: bool = True
    of: str = ""
    fixed: bool = False
    reference: str = ""
    classes: tuple[str, ...] = ()

    def __str__(self) -> str:
        """As a formula has it, which is written where it is not the target's."""
        if self.fixed:
            against = f", Treatment({self.reference!r})" if self.reference else ""
            term = f"C({quoted(self.group)}{against})"
            return f"{quoted(self.of)} ~ {term}" if self.of else term
        effects = [] if self.intercept and self.slopes == () else list(map(quoted, self.slopes))
        effects = ["1" if self.intercept else "0", *effects]
        line = "|" if self.correlated else "||"
        bar = f"({' + '.join(effects)} {line} {_WITHIN.join(map(quoted, self.columns))})"
        return f"{quoted(self.of)} ~ {bar}" if self.of else bar

    @property
    def group(self) -> str:
        """What people call the groups."""
        return _WITHIN.join(self.columns)

    @property
    def instead(self) -> str:
        """What may be written in its place where no groups are fitted."""
        return f"C({quoted(self.columns[-1])})"

    @property
    def slope(self) -> str | None:
        """The column of the slope where there is one slope."""
        return self.slopes[0] if len(self.slopes) == 1 else None

    @property
    def plain(self) -> bool:
        """Whether it is an intercept, or an intercept and a slope with their correlation, of one column."""
        if len(self.columns) > 1 or not self.intercept:
            return False
        return not self.slopes or (self.correlated and len(self.slopes) == 1)

    def with_classes(self, layout: "Layout") -> "Bar":
        """The same, of a table's target."""
        levels = layout.target.levels or [] if layout.task == "classes" else []
        return replace(self, classes=tuple(levels[1:]))

    @property
    def effects(self) -> list[tuple[str, str]]:
        """Each effect's column, "" of an intercept, and class, "" where there is none: class by class."""
        columns = [*([""] if self.intercept else []), *self.slopes]
        return [(column, each) for each in self.classes or ("",) for column in columns]

    @property
    def names(self) -> list[str]:
        """Of its effects."""
        of_levels = "coefficient" if self.fixed else "intercept"
        return [self.named(column or of_levels, its) for column, its in self.effects]

    @property
    def term(self) -> str:
        """What people call all its coefficients, where it is fixed."""
        return self.named(f"C({quoted(self.group)})")

    @property
    def label(self) -> str:
        """What people call the groups, and the parameter whose formula has them."""
        return self.named(self.group)

    def named(self, name: str, of_class: str = "") -> str:
        """What people call a number of its formula, or of a class."""
        name = f"{name}[{of_class}]" if of_class else name
        return f"{self.of}[{name}]" if self.of else name

    def levels(self, texts: Any) -> Any:
        """Each row's, (n,), of the columns' texts: series or arrays, (n,) each by name."""
        first, *others = (texts[name] for name in self.columns)
        for other in others:
            first = first + _WITHIN + other
        return first


def split(formula: str) -> tuple[str, list[Bar | Smooth]]:
    """A formula without its groups, with smooths' lines in their place, and all these.

    FlyrunError where one is not of a form that is fitted.
    """
    tilde = masked(formula).rfind("~") + 1
    left, right = formula[:tilde], formula[tilde:]
    kept, bars = "", list[Bar | Smooth]()
    for sign, term in _terms(right):
        if sign == "+" and (smooth := smooths.read(term)) is not None:
            bars.append(smooth)
            term = smooth.line
        inside = term[1:-1] if _enclosed(term) else ""
        if "|" not in masked(term):
            kept += f" {sign} {term}" if kept or sign == "-" else f" {term}"
        elif sign == "-" or "|" not in masked(inside):
            raise FlyrunError(f"{term}: a group is a term of its own, as in '+ (1 | clinic)'")
        else:
            bars += _bars(term, inside)
    if doubled := next((bar for k, bar in enumerate(bars) if bar.group in [b.group for b in bars[:k]]), None):
        if isinstance(doubled, Smooth):
            raise FlyrunError(f"{doubled.group} is there twice; write one of the two")
        group = _WITHIN.join(map(quoted, doubled.columns))
        raise FlyrunError(
            f"{doubled.group} is in two groups; write one, as in '(1 + x | {group})' or, without the "
            f"correlation, '(1 + x || {group})'"
        )
    return (left + (kept or " 1") if bars else formula).strip(), bars


def read(texts: Iterable[str]) -> list[Bar | Smooth]:
    """Groups and smooths as `str` tells them."""
    bars = list[Bar | Smooth]()
    for text in texts:
        left, _, _ = masked(text).partition("~")
        of = text[: len(left)].strip(" `") if len(left) < len(text) else ""
        right = text[len(left) + 1 :] if of else text
        if (category := category_of(right)) is not None:
            bars.append(replace(category, of=of))
            continue
        found = split(text if of else f"~ {text}")[1]
        bars += [replace(bar, of=of) for bar in found]
    return bars


def category_of(term: str) -> Bar | None:
    """A column's levels with a coefficient each, where a term is one column, in C() or not."""
    match = _CATEGORY.fullmatch(term.strip())
    name = _column(match[1]) if match else _column(term)
    if name is None:
        return None
    return Bar((name,), fixed=True, reference=str(ast.literal_eval(match[2])) if match and match[2] else "")


def without(formula: str, column: str) -> tuple[str, Bar | None]:
    """The right side of a formula without a column that is a term of it, and that term."""
    kept, taken = "", None
    for sign, term in _terms(formula):
        category = category_of(term)
        if taken is None and sign == "+" and category is not None and category.group == column:
            taken = category
        else:
            kept += f" {sign} {term}" if kept or sign == "-" else term
    return kept or "1", taken


def term_with(formula: str, column: str) -> str | None:
    """The first term of a formula's right side that names a column."""
    return next((term for _, term in _terms(formula) if column in Names.of(term, [], ()).columns), None)


def _bars(term: str, inside: str) -> list[Bar]:
    """The groups that a term in parentheses names: of `a/b` those of a, and of b within a."""
    plain, _, _ = masked(inside).partition("|")
    effects, group = inside[: len(plain)], inside[len(plain) + 1 :]
    correlated = not group.startswith("|")
    group = group.removeprefix("|")
    parts = re.split("[/:]", masked(group))
    ends = [sum(len(part) + 1 for part in parts[: k + 1]) for k in range(len(parts))]
    columns = [_column(group[end - len(part) - 1 : end - 1]) for part, end in zip(parts, ends, strict=True)]
    names = tuple(name for name in columns if name is not None)
    if multiple := _MULTIPLE.fullmatch(group.strip()):
        several = " + ".join(f"({effects.strip()} | {name.strip()})" for name in multiple[1].split(","))
        raise FlyrunError(
            f"{term}: mm() is not fitted, effects of levels wherever they stand; write {several}, effects of "
            "each column's"
        )
    if len(names) < len(columns) or len(set(names)) < len(names):
        raise FlyrunError(
            f"{term}: what stands after | is a column, as in '(1 | clinic)', or nested ones, as in "
            f"'(1 | clinic/ward)' or '(1 | clinic:ward)'"
        )
    last = _WITHIN.join(map(quoted, names))
    slopes, intercept = list[str](), True
    for sign, part in _terms(effects):
        name = _column(part)
        if (sign, part) in (("+", "0"), ("-", "1")):
            intercept = False
        elif (sign, part) != ("+", "1"):
            if sign == "-" or name is None or name in slopes:
                raise FlyrunError(
                    f"{term}: a group has an intercept and slopes of columns, as (1 | {last}), "
                    f"(1 + x | {last}) or (1 + x + z | {last}); make a column of {part}"
                )
            slopes.append(name)
    if not effects.strip() or not (intercept or slopes):
        raise FlyrunError(f"{term}: has no effect; write (1 | {last})")
    within = [names[: k + 1] for k in range(len(names)) if k + 1 == len(names) or group[ends[k] - 1] == "/"]
    return [Bar(each, tuple(slopes), intercept, correlated) for each in within]


def _column(text: str) -> str | None:
    """The column that a text names, with or without backticks; None where it names none."""
    match = _NAME.fullmatch(text.strip())
    return None if match is None else match[1] or match[2]


def _enclosed(term: str) -> bool:
    """Whether one pair of parentheses holds the whole term."""
    return term.startswith("(") and next(_closings(term), 0) == len(term) - 1


def _closings(text: str) -> Iterator[int]:
    """Where a parenthesis closes that no other encloses."""
    depth = 0
    for place, letter in enumerate(masked(text)):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == ")" and depth == 0:
            yield place


def _terms(right: str) -> Iterator[tuple[str, str]]:
    """Each term of a sum outside parentheses, with its sign."""
    depth, begin, sign = 0, 0, "+"
    for place, letter in enumerate(masked(right) + "+"):
        depth += (letter in "([{") - (letter in ")]}")
        if letter in "+-" and (depth == 0 or place == len(right)):
            if term := right[begin:place].strip():
                yield sign, term
            begin, sign = place + 1, letter
