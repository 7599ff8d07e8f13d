"""What a table holds, once that is known: its columns, and what each becomes.

A category of L levels becomes L-1 columns of 0 and 1, `name[level]`; the first level in order, the reference,
has none. Numbers are standardised; those of two values become 0 and 1, so that a coding, as 0 and 1, 1 and 2,
or text, leaves the model as it is. 0-1 columns are not scaled; a column of ones, "intercept", comes last.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from flyrun.families import domains
from flyrun.families.domains import Domain
from flyrun.ground.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

INTERCEPT = "intercept"
MOST_LEVELS = 100  # of a category
_NAMELESS = re.compile(r"Unnamed: \d+(\.\d+)*|__index_level_\d+__")


def is_nameless(name: str) -> bool:
    """Whether a column had no name, as an index that was written along."""
    return _NAMELESS.fullmatch(name) is not None


def plain(value: float) -> str:
    """A number as a person writes it, from which it is read again."""
    return repr(float(value)).removesuffix(".0")


def in_order(levels: Iterable[str]) -> list[str]:
    """Levels by size where all are numbers, else in the alphabet's order."""
    values = [*levels]
    try:
        return sorted(values, key=lambda level: (float(level), level))
    except ValueError:
        return sorted(values)


@dataclass
class Column:
    """One column. levels: of a category, the reference first; text: whether these stand so in the file and
    are no numbers; low, high: ends of a number; mean, sd: what is taken off it and what it is divided by, of
    one of two values the lower and the difference of the two (0 and 1 leave it be); counts: rows of each
    level, where they are known."""

    name: str
    levels: list[str] | None = None
    text: bool = False
    mean: float = 0.0
    sd: float = 1.0
    low: float = 0.0
    high: float = 0.0
    counts: list[int] | None = None

    @property
    def encoded(self) -> list[str]:
        """Names of the columns that it becomes."""
        return [self.name] if self.levels is None else [f"{self.name}[{level}]" for level in self.levels[1:]]

    def coded(self, values: "pd.Series") -> np.ndarray:
        """A number's values, a category's numbers of levels, (n,). Raises DataError for another level."""
        import pandas as pd  # late: workers have arrays

        if self.levels is None:
            return values.to_numpy(np.float64)
        known = self.levels if self.text else [float(level) for level in self.levels]
        codes = pd.Categorical(values.astype(str if self.text else np.float64), categories=known).codes
        if (codes < 0).any():
            raise DataError(
                f"column {self.name} holds other values than a moment ago; leave the file as it is"
            )
        return codes.astype(np.int64)


@dataclass
class Layout:
    """What a table holds. task: of Dataset; rows: those used; dropped: for missing values; row_numbers:
    columns left out, for they have no name and count the rows; beside: columns that are no features, by role;
    copies: how many rows its rows stand for; ones: the number in the column of ones.
    formula: the right side of one, whose matrix's columns are the features; sources: the columns that it
    names; state: what its functions know of the whole table; log_target: the target's log is explained.
    parameters: by name the layout of what explains a further parameter of the target's distribution.
    missing: rows that lack a value, by column, where some do; of: rows that `where` chose from."""

    task: str
    target: Column
    features: list[Column]
    rows: int = 0
    dropped: int = 0
    row_numbers: list[str] = field(default_factory=list)
    beside: dict[str, Column] = field(default_factory=dict)
    copies: float = 0.0
    ones: float = 1.0
    formula: str | None = None
    sources: list[Column] = field(default_factory=list)
    state: dict[str, Any] = field(default_factory=dict)
    log_target: bool = False
    parameters: dict[str, "Layout"] = field(default_factory=dict)
    missing: dict[str, int] = field(default_factory=dict)
    of: int = 0

    @property
    def domain(self) -> Domain:
        """What its target may hold."""
        return domains.of(self.task)

    @property
    def columns(self) -> list[Column]:
        """What is read to explain the target: the features, or what formulas name."""
        columns = {
            column.name: column for column in (self.features if self.formula is None else self.sources)
        }
        for part in self.parameters.values():
            columns |= {column.name: column for column in part.columns}
        return list(columns.values())

    @property
    def explained(self) -> str:
        """The target as it is explained."""
        return f"log({self.target.name})" if self.log_target else self.target.name

    @property
    def names(self) -> list[str]:
        """Of the encoded columns, the intercept last."""
        return [name for column in self.features for name in column.encoded] + [INTERCEPT]

    @property
    def text(self) -> set[str]:
        """Columns to be read as strings, so that every piece spells a level alike."""
        return {column.name for column in [*self.columns, self.target] if column.text}

    @staticmethod
    def from_dict(values: dict[str, Any]) -> "Layout":
        """Undo `asdict`."""
        target, features = Column(**values["target"]), [Column(**column) for column in values["features"]]
        sources = [Column(**column) for column in values.get("sources", ())]
        beside = {role: Column(**column) for role, column in values["beside"].items()}
        parameters = {name: Layout.from_dict(part) for name, part in values.get("parameters", {}).items()}
        changed = {"target": target, "features": features, "beside": beside, "sources": sources}
        return Layout(**{**values, **changed, "parameters": parameters})
