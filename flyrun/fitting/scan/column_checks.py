"""What one table refuses of its columns, refused of many files: by columns' ends as these say them, which
are of all rows, and by a pilot's rows.
"""

from collections.abc import Sequence

import numpy as np

from flyrun.families import domains
from flyrun.fitting.request import TypedTable
from flyrun.fitting.scan.encoded_rows import LARGEST
from flyrun.fitting.scan.joined_groups import Ends, Shards
from flyrun.fitting.scan.pilot_rows import Sample
from flyrun.fitting.scan.row_groups import numbers_of
from flyrun.ground.errors import DataError
from flyrun.tables.cells import LAST_EXACT
from flyrun.tables.layout import plain

_FEWEST = 10  # rows from which on numbers that count them are no chance


def refuse_ends(shards: Shards, table: TypedTable, columns: Sequence[str]) -> None:
    """DataError for a column whose ends cannot be used, naming file and row group. columns: features."""
    codes = numbers_of(table.na)
    for name in (table.target or "", *table.beside.values(), *columns):
        if (ends := shards.ends.get(name)) is None:
            continue
        for value, block in ((ends.low, ends.of_low), (ends.high, ends.of_high)):
            number, role = float(value) + 0.0, table.role(name)  # of −0 files say where 0 is the least
            if number in codes or block.file.where:  # that row may be none of those used: a look sees these
                continue
            held, known = f"is {plain(number)} in a row", domains.BESIDE.get(role)
            if known is not None and (refusal := known.refusal(np.array([number]))):
                held += f", but {refusal[1]}"
            elif not abs(number) <= LARGEST and name != table.high:
                held = f"{held}, beyond {LARGEST:g}" if np.isfinite(number) else "holds an infinite number"
            else:
                held = ""
            if held:
                raise DataError(f"{block}: {role} {name} {held}; mend it, or {table.without(name)}")
    if table.features is None and table.formula is None:
        for name in columns:
            if name in shards.counting and name not in table.numeric and _counts(shards, name):
                raise DataError(
                    f"{shards.given}: column {name} counts the rows, as numbers of rows do; add "
                    f"{table.say('numeric', name)} if they measure something, or {table.without(name)}"
                )


def _counts(shards: Shards, name: str) -> bool:
    """Whether a column that counts each row group's rows does so in all of the table, or in each file."""
    ends, longest = shards.ends.get(name), max(each.rows for block in shards.blocks for each in block.each)
    if ends is None or shards.rows < _FEWEST or ends.low not in (0, 1):
        return False
    return ends.high - ends.low == shards.rows - 1 or longest >= _FEWEST


def refuse_doubtful(
    shards: Shards, table: TypedTable, read: Sequence[str], samples: Sequence[Sample], target: str
) -> None:
    """Refuse what is improbable of a column of numbers, by the rules of one table.

    read: features, or what formulas name; samples: of a pilot. Raises DataError.
    """
    from flyrun.tables import doubts  # late: pandas takes half a second
    from flyrun.tables.seen import Seen  # late: as above

    columns = dict[str, list[np.ndarray]]()
    for sample in samples:
        features = sample.sources if sample.sources.shape[1] else sample.x
        each = (*features.T, *sample.beside.T, sample.y)
        for name, values in zip((*read, *table.beside.values(), target), each, strict=True):
            columns.setdefault(name, []).append(np.asarray(values, np.float64))
    seen = []
    for name, parts in columns.items():
        if shards.kinds[name] != "number":
            continue
        held, ends = np.concatenate(parts), shards.ends.get(name)
        held = held[np.isfinite(held)]
        if not len(held):
            continue
        column = Seen(name, table, shards.given, some=len(held) < shards.rows)
        column.add_numbers(np.append(held, _beyond(held, ends, table)))
        column.count = shards.rows
        if ends is not None and isinstance(ends.low, int):
            largest = ends.high if ends.high >= -ends.low else ends.low
            column.big = int(largest) if abs(largest) >= LAST_EXACT else None
        seen.append(column)
    doubts.check(seen, lambda names: iter(()), 0)


def _beyond(held: np.ndarray, ends: Ends | None, table: TypedTable) -> list[float]:
    """Ends of a column, where they lie beyond a pilot's values (n,) and stand for none that is missing."""
    if ends is None:
        return []
    low, high, codes = float(ends.low), float(ends.high), numbers_of(table.na)
    return [end for end in (low, high) if not held.min() <= end <= held.max() and end not in codes]
