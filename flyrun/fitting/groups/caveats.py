"""What to know of groups and of categories of many levels, a line each."""

from collections.abc import Sequence

import numpy as np

from flyrun.fitting.bars import Bar
from flyrun.ground.schema import listing
from flyrun.ground.schema import quoted as command_line

_FEW, _NAMED = 5, 8  # rows of a level that is called rare; levels that are named


def sizes(bar: Bar, rows: np.ndarray) -> str:
    """How many groups there are and of how many rows, (G,)."""
    least, most = int(rows.min()), int(rows.max())
    each = f"{least:,}" if least == most else f"{least:,} to {most:,}"
    what = "levels" if bar.fixed else "groups"
    return f"{bar}: {len(rows):,} {what} of {each} row{'s' * (most > 1)}"


def of_single_rows(factors: Sequence[tuple[Bar, np.ndarray]]) -> list[str]:
    """A line for a factor whose groups have a row each, where the noise is normal as its effects are."""
    return [
        f"{bar}: each of the {len(rows):,} groups has one row, so that only the priors tell sigma from "
        f"sd({bar.group}): rows show the sum of their squares; leave {bar} out, or take a column with "
        "more rows a group"
        for bar, rows in factors
        if rows.max() <= 1
    ]


def of_many_levels(bar: Bar, names: Sequence[str], held: np.ndarray) -> list[str]:
    """What to know of a category with a coefficient a level, of so many rows, (J,)."""
    reference = names[0]
    lines = [
        f"{bar.term}: {len(names) - 1:,} levels have a coefficient each against {reference}; is "
        f"{Bar(bar.columns, of=bar.of)} meant? it learns from the data how much levels differ"
    ]
    if rare := [name for name, rows in zip(names, held, strict=True) if rows < _FEW]:
        shown = listing(rare[:_NAMED]) if len(rare) <= _NAMED else f"{', '.join(rare[:_NAMED])}, …"
        has, them = ("has", "it") if len(rare) == 1 else ("have", "them")
        lines.append(
            f"{bar.term}: {len(rare):,} of {len(names):,} levels {has} fewer than {_FEW} rows, so that the "
            f"prior tells much of {them}: {shown}"
        )
    if held[0] < _FEW:
        most = names[int(held.argmax())]
        lines.append(
            f"{bar.term}: the reference {reference} is such a level, and all differences from it are as "
            f"uncertain; --reference {command_line(f'{bar.group}={most}')} takes the largest"
        )
    return lines
