"""A formula as it is typed: its two sides, and what of them are options of a table: trials, offset, log."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from flyrun.fitting import bars
from flyrun.fitting.bars import Bar
from flyrun.fitting.request import dashed
from flyrun.fitting.smooths import Smooth
from flyrun.ground.errors import ConfigError
from flyrun.tables.options import ROLES
from flyrun.tables.quoting import masked

_NAME = r"(?:`[^`]+`|[^\W\d][\w.]*)"
_OFFSET = re.compile(rf"\+?\s*\boffset\(\s*(?P<log>log\(\s*)?(?P<column>{_NAME})\s*\)?\s*\)\s*")
_CENS = rf"cens\(\s*(?P<cens>{_NAME})\s*(?:,\s*(?P<high>{_NAME})\s*)?\)"
_TRUNC = rf"trunc\(\s*(?P<entry>{_NAME})\s*(?:,\s*(?P<most>{_NAME})\s*)?\)"
_ASIDE = rf"{_CENS}|{_TRUNC}"
_LEFT = re.compile(
    rf"\s*(?P<log>log\(\s*)?(?P<column>{_NAME})\s*\)?\s*"
    rf"(?:\|\s*(?:{_ASIDE}|(?:trials\(\s*)?(?P<trials>{_NAME})\s*\)?))?\s*"
)
_TIMES = rf"\s*Surv\(\s*(?:(?P<entry>{_NAME})\s*,\s*)?(?P<column>{_NAME})\s*,\s*(?P<event>{_NAME})\s*\)\s*"
_INTERVAL = (
    rf"\s*Surv\(\s*(?P<column>{_NAME})\s*,\s*(?P<high>{_NAME})\s*(?:,\s*(?P<event>{_NAME})\s*)?,"
    r"\s*type\s*=\s*(?P<type>'_+'|\"_+\")\s*\)\s*"
)
_LEFTS = [re.compile(pattern) for pattern in (_TIMES, _INTERVAL)] + [_LEFT]
_INTERVALS = ("interval", "interval2")  # as R calls them
_EXAMPLE = (
    "as in 'died ~ age + C(sex)', 'log(price) ~ size', 'hits | tries ~ dose' or 'Surv(time, event) ~ age'"
)


#: by parameter of the target's distribution the options of a table that its formula says
Formulas = dict[str, dict[str, Any]]


class Written(NamedTuple):
    """target: the column; options: those of a table that the formula says."""

    target: str
    options: dict[str, Any]


def split(text: str) -> Written:
    """Read a formula. Raises ConfigError in one line; what the right side holds is read with the table."""
    plain_left, tilde, plain = masked(text).partition("~")
    left, right = text[: len(plain_left)], text[len(plain_left) + 1 :]
    if not tilde:
        raise ConfigError(f"formula {text!r} has no ~ between the target and what explains it; {_EXAMPLE}")
    sides = next(filter(None, (side.fullmatch(plain_left) for side in _LEFTS)), None)
    if sides is None or plain_left.count("(") != plain_left.count(")"):
        reason = f"explains {left.strip()!r}" if left.strip() else "explains nothing"
        raise ConfigError(
            f"formula {text!r} {reason}; write a column, {_EXAMPLE}, in backticks where its name has other "
            "signs: `my column`"
        )
    said = {key: _name(left, sides, key) for key, value in sides.groupdict().items() if value}
    if (kind := said.get("type", _INTERVALS[0]).strip("'\"")) not in _INTERVALS:
        raise ConfigError(f'formula {text!r}: type is "interval", or leave it out; {kind} is another')
    options: dict[str, Any] = {"log_target": True} if "log" in said else {}
    options |= {key: value for key, value in said.items() if key in ROLES}
    for offset in _OFFSET.finditer(plain):
        if "offset" in options or "exposure" in options:
            raise ConfigError(f"formula {text!r} has more than one offset; add them up in a column")
        options["exposure" if offset["log"] else "offset"] = _name(right, offset, "column")
        right = right[: offset.start()] + " " + right[offset.end() :]
    right = right.strip().removeprefix("+").strip() or "1"
    if re.search(r"\boffset\(", masked(right)):
        raise ConfigError(
            f"formula {text!r} has an offset of more than a column; make a column of it: offset(COLUMN) or "
            "offset(log(COLUMN))"
        )
    return Written(_name(left, sides, "column"), {**options, "formula": right})


def _name(text: str, match: re.Match[str], group: str) -> str:
    """A column where a match in the masked text has it."""
    return text[slice(*match.span(group))].strip("`")


def merged(text: str, table: dict[str, Any]) -> tuple[str, dict[str, Any], tuple[Bar | Smooth, ...]]:
    """The target of a formula, a table's options with what it says, its groups. ConfigError: said twice."""
    rest, groups = bars.split(text)
    written = split(rest)
    for key in written.options:
        if key in table:
            raise ConfigError(f"{dashed(key)}: the formula says it; leave this out")
    return written.target, table | written.options | {"written": ("target", *written.options)}, tuple(groups)


def parameters(texts: Sequence[str], target: str) -> tuple[Formulas, tuple[Bar | Smooth, ...]]:
    """Formulas beside that of the target, all their groups and smooths. Raises ConfigError in one line."""
    given: Formulas = {}
    groups = list[Bar | Smooth]()
    for text in texts:
        rest, terms = bars.split(text)
        name, options = split(rest)
        groups += [replace(term, of=name) for term in terms]
        if name == target or name in given:
            raise ConfigError(f"formula {text!r}: is a second one for {name}; keep one")
        if {"log_target", *ROLES} & options.keys() - {"offset", "exposure"}:
            raise ConfigError(f"formula {text!r}: has more than {name} on the left; write {name} ~ …")
        given[name] = options
    return given, tuple(groups)
