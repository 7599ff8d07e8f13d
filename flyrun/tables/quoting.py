"""What stands in quotes in a formula: columns in backticks, words in quotes; and columns under other names.

To formulaic a column `1` is the number, `a:b` an interaction and `log` a function. So columns in backticks,
and those called as a function is, are given to it under names of their own, and named again afterwards.
"""

import keyword
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

_WORDS = r"'(?:\\.|[^'\\])*'?|\"(?:\\.|[^\"\\])*\"?"
_QUOTED = re.compile(rf"`[^`]*`?|{_WORDS}")
_TOKEN = re.compile(
    rf"{_WORDS}|%\w+%|`(?P<quoted>[^`]+)`|(?<![\w.])\.?\d[\w.]*|"
    r"(?P<name>[^\W\d][\w.]*)(?P<called>\s*(?:\(|=(?!=)))?"
)
_PLAIN = re.compile(r"[^\W\d][\w.]*")


def masked(text: str) -> str:
    """The text at its length, with _ for each letter within quotes or backticks."""
    return _QUOTED.sub(lambda match: re.sub(r"(?s)(?<=.).(?=.)", "_", match[0]), text)


def quoted(name: str) -> str:
    """A column as a formula names it."""
    return name if _PLAIN.fullmatch(name) else f"`{name}`"


@dataclass(frozen=True)
class Names:
    """Columns that a formula's text names. text: with aliases; aliases: of columns, to formulaic."""

    text: str
    columns: tuple[str, ...]
    aliases: dict[str, str]

    @classmethod
    def of(cls, text: str, known: Collection[str], functions: Collection[str]) -> "Names":
        """known: the table's columns; functions: what a formula may call."""
        start = "quoted_"
        while start in text or any(start in name for name in known):
            start += "_"
        columns, aliases = dict[str, None](), dict[str, str]()
        aliased = {*functions, *(match["quoted"] for match in _TOKEN.finditer(text))}

        def alias(match: re.Match[str]) -> str:
            name = match["quoted"] or match["name"]
            if name is None or match["called"] or (keyword.iskeyword(name) and name not in known):
                return match[0]
            argument = text[: match.start()].rstrip().endswith((",", "="))
            if not match["quoted"] and argument and name in functions:  # as in C(sex, Sum)
                return match[0]
            columns[name] = None
            if name not in aliased:
                return match[0]
            return aliases.setdefault(name, f"{start}{len(aliases)}_")

        return cls(_TOKEN.sub(alias, text), tuple(columns), aliases)

    def shown(self, expression: str) -> str:
        """An expression of formulaic's with the columns' names, within functions in backticks."""
        for name, alias in self.aliases.items():
            parts = re.split(rf"(?<![^:]){alias}(?![^:\[])", expression)  # where it is a factor
            expression = name.join(parts).replace(alias, f"`{name}`")
        return expression

    def aliased(self, expression: str) -> str:
        """Undo `shown`, of one factor."""
        if expression in self.aliases:
            return self.aliases[expression]
        for name, alias in self.aliases.items():
            expression = expression.replace(f"`{name}`", alias)
        return expression

    def column(self, name: str) -> str:
        """The column that formulaic knows under a name."""
        return next((column for column, alias in self.aliases.items() if alias == name), name)


def looks_like(text: str, known: Sequence[str]) -> str | None:
    """A column that stands in a text without the backticks that its name needs."""
    plain = masked(text)
    for name in sorted(known, key=len, reverse=True):
        if _PLAIN.fullmatch(name) or not re.search(r"[^\W\d]", name):
            continue
        first, last = (r"\b" if re.match(r"\w", name[end]) else "" for end in (0, -1))
        if re.search(rf"(?<![.`]){first}{re.escape(name)}{last}(?![.`])", plain):
            return name
    return None
