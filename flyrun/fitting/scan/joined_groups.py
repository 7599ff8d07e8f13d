"""Row groups of a table in many files: what of it is read at once, and what messages call it."""

import hashlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

PARTS = 128  # that a table is read in, at least, where it has so many row groups
_JOINED = 65_536  # rows up to which row groups are read as one


class File(NamedTuple):
    """A file as first looked at. footer: digest of what Parquet says of its columns at its end.

    named: columns that its folders' names hold, and their values; na: words for missing values besides;
    where: which of its rows are used, where not all are.
    """

    path: str
    size: int
    changed_ns: int
    footer: str
    named: tuple[tuple[str, str | None], ...] = ()
    na: tuple[str, ...] = ()
    where: str = ""


class Block(NamedTuple):
    """A row group, or several small ones that are read as one, of which this names the first.

    number: among all; group: in its file; rows: that are used; first: number of its first row among all;
    length: rows there are; joined: the several.
    """

    number: int
    file: File
    group: int
    rows: int
    first: int
    length: int
    joined: tuple["Block", ...] = ()

    def __str__(self) -> str:
        """As messages name it."""
        return f"{self.file.path}: row group {self.group}"

    @property
    def each(self) -> tuple["Block", ...]:
        """The row groups."""
        return self.joined or (self,)

    def row(self, place: int) -> str:
        """As messages name a row, by its number among all there are."""
        for block in self.each:
            if place < block.length:
                return f"{block}, row {place}"
            place -= block.length
        raise IndexError(place)

    def with_files(self, of: Callable[[File], File]) -> "Block":
        """The same of other files."""
        joined = tuple(block.with_files(of) for block in self.joined)
        return self._replace(file=of(self.file), joined=joined)


class Ends(NamedTuple):
    """The least and the greatest number of a column, as the files say, and the row groups they are in."""

    low: float
    of_low: Block
    high: float
    of_high: Block

    def plus(self, other: "Ends") -> "Ends":
        """Of both."""
        low = self if self.low <= other.low else other
        high = self if self.high >= other.high else other
        return Ends(low.low, low.of_low, high.high, high.of_high)


class Shards(NamedTuple):
    """A table. given: as it was named; kinds: of each column, "number", "boolean", "text", "other", or of
    numbers that are to be categories "category".  counting: columns that count the rows of each row group,
    as an index does that was written along.  faults: why columns that files do not share, or that hold what
    is no column of a regression, cannot be used.  ends: of numbers, where each row group says them.
    skipped: files that are left out by their folders' names.  of: rows that those used were chosen from.
    """

    given: str
    files: list[File]
    blocks: list[Block]
    kinds: dict[str, str]
    counting: tuple[str, ...] = ()
    faults: Mapping[str, str] = MappingProxyType({})
    ends: Mapping[str, Ends] = MappingProxyType({})
    skipped: int = 0
    of: int = 0

    @property
    def rows(self) -> int:
        """Of all files."""
        return sum(block.rows for block in self.blocks)

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    @property
    def digest(self) -> str:
        """Of all files' names and fingerprints."""
        return hashlib.sha256(repr(self.files).encode()).hexdigest()


def joined(shards: Shards) -> Shards:
    """The same, in which neighbours of few rows, whose folders' names hold the same, are read as one.

    What opening a file and a look cost is then paid by more rows.
    """
    most, runs = min(_JOINED, 2 * shards.rows // PARTS), list[list[Block]]()
    size = 0
    for block in shards.blocks:
        size += block.rows
        if not runs or size > most or runs[-1][0].file.named != block.file.named:
            runs.append([])
            size = block.rows
        runs[-1].append(block)
    blocks = [
        first._replace(
            number=number,
            rows=sum(block.rows for block in run),
            length=sum(block.length for block in run),
            joined=tuple(run) if others else (),
        )
        for number, run in enumerate(runs)
        for first, *others in [run]
    ]
    return shards._replace(blocks=blocks)
