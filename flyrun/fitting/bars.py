"""Groups of rows in a formula: `(1 | clinic)` and `(1 + dose | clinic)` taken out of its other terms."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from flyrun.ground.errors import FlyrunError
from flyrun.tables.quoting import masked, quoted

_NAME = re.compile(r"`([^`]+)`|([^\W\d][\w.]*)")


@dataclass(frozen=True)
class Bar:
    """An intercept for each level of the column `group`, and a slope of the column `slope`, if any."""

    group: str
    slope: str | None = None

    def __str__(self) -> str:
        """As a formula has it."""
        return f"({'1' if self.slope is None else f'1 + {quoted(self.slope)}'} | {quoted(self.group)})"


def split(formula: str) -> tuple[str, list[Bar]]:
    """A formula without its groups, and these. FlyrunError where a group is not of a form that is fitted."""
    tilde = masked(formula).rfind("~") + 1
    left, right = formula[:tilde], formula[tilde:]
    kept, bars = "", []
    for sign, term in _terms(right):
        inside = term[1:-1] if _enclosed(term) else ""
        if "|" not in masked(term):
            kept += f" {sign} {term}" if kept or sign == "-" else f" {term}"
        elif sign == "-" or "|" not in masked(inside):
            raise FlyrunError(f"{term}: a group is a term of its own, as in '+ (1 | clinic)'")
        else:
            bars.append(_bar(term, inside))
    if doubled := next((bar for k, bar in enumerate(bars) if bar.group in [b.group for b in bars[:k]]), None):
        raise FlyrunError(f"{doubled.group} is in two groups; write one, as in '(1 + x | {doubled.group})'")
    return (left + (kept or " 1") if bars else formula).strip(), bars


def read(texts: Iterable[str]) -> list[Bar]:
    """Groups as `str` tells them."""
    return [bar for text in texts for bar in split(f"~ {text}")[1]]


def _bar(term: str, inside: str) -> Bar:
    """The group that a term in parentheses names."""
    plain, _, _ = masked(inside).partition("|")
    effects, group = inside[: len(plain)], inside[len(plain) + 1 :]
    if group.startswith("|"):
        raise FlyrunError(
            f"{term}: effects of a group are fitted with their correlation; write one bar, {_one_bar(term)}"
        )
    name = _column(group)
    if name is None:
        nested = (
            "; of nested groups make a column that names the inner one"
            if re.search("[/:]", masked(group))
            else ""
        )
        raise FlyrunError(f"{term}: what stands after | is one column, as in '(1 | clinic)'{nested}")
    parts = [part for _, part in _terms(effects)]
    if "0" in parts or any(sign == "-" for sign, _ in _terms(effects)):
        slope = next((part for part in parts if part not in ("0", "1")), "1")
        raise FlyrunError(
            f"{term}: a slope without an intercept is not fitted to groups; "
            f"write (1 + {slope} | {quoted(name)})"
        )
    slopes = [part for part in parts if part != "1"]
    columns = [_column(part) for part in slopes]
    if not effects.strip() or len(slopes) > 1 or None in columns:
        raise FlyrunError(
            f"{term}: a group has an intercept and at most one column's slope: "
            f"(1 | {quoted(name)}) or (1 + x | {quoted(name)})"
        )
    return Bar(name, columns[0] if columns else None)


def _one_bar(term: str) -> str:
    return re.sub(r"\|\s*\|", "|", term)


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
