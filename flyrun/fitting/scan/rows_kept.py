"""`--where` in a scan: folders' names leave files out unread; one look counts the rows that are used."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from flyrun.fitting.scan.joined_groups import PARTS, Block, Shards
from flyrun.fitting.scan.row_groups import kept_of, tree
from flyrun.fitting.scan.table_files import refuse_unknown
from flyrun.ground.errors import DataError
from flyrun.tables import row_filter


class KeptRows(NamedTuple):
    """Of row groups by number, (m,), the rows that are kept, (m,)."""

    number: np.ndarray
    rows: np.ndarray

    def plus(self, other: "KeptRows") -> "KeptRows":
        """Of both."""
        return KeptRows(*map(np.concatenate, zip(self, other, strict=True)))


@dataclass(frozen=True)
class KeptLook:
    """Count the rows of a row group that are kept."""

    def __call__(self, block: Block) -> KeptRows:
        """DataError for a column that is not compared so."""
        return KeptRows(np.array([block.number]), np.array([np.count_nonzero(kept_of(block))]))


def refuse_columns(shards: Shards, where: str) -> None:
    """DataError for a column to compare that there is not, or that files do not share."""
    for name in row_filter.read(where).columns:
        refuse_unknown(shards, "where", name)
        if (fault := shards.faults.get(name)) and "holds dates" not in fault:
            raise DataError(f"{fault}, or leave it out of --where")


def of(shards: Shards, mapper: Callable[..., list[Any]], say: Callable[[str], None]) -> Shards:
    """The row groups that have rows to use, with as many rows. DataError where none has."""
    if not any(block.file.where for block in shards.blocks):
        return shards
    many = -(-len(shards.blocks) // PARTS)
    groups = [shards.blocks[k : k + many] for k in range(0, len(shards.blocks), many)]
    counts: KeptRows = tree(mapper(KeptLook(), groups, "rows to use"))
    rows = dict(zip(counts.number.tolist(), counts.rows.tolist(), strict=True))
    blocks, first = list[Block](), 0
    for block in shards.blocks:
        if rows[block.number]:
            blocks.append(block._replace(number=len(blocks), rows=rows[block.number], first=first))
            first += rows[block.number]
    where = next(block.file.where for block in shards.blocks if block.file.where)
    if not blocks:
        raise DataError(
            f"{shards.given}: --where: none of {shards.rows:,} rows is such that {where}; compare with "
            "values that the column holds"
        )
    say(f"{first:,} of {shards.rows:,} rows are such that {where}, in {len(blocks):,} row groups")
    # what the files say of columns' ends is of rows, too, that are left out
    return shards._replace(blocks=blocks, ends={}, of=shards.rows)
