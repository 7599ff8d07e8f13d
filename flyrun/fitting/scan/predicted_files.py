"""`flyrun predict` of many Parquet files: of each a part, of the same path below another folder or address.

A part is whole or absent, and says of which file, as it was, and of which predictions it is: the same command
goes on where it ended. What all parts are of stands in a file beside them.
"""

import contextlib
import hashlib
import json
import math
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from rich.console import Console

from flyrun.fitting import predict, stored
from flyrun.fitting.fitted_draws import Fitted
from flyrun.fitting.scan import row_groups, rows_kept, table_files, workers
from flyrun.fitting.scan.joined_groups import Block, File, Shards
from flyrun.ground import addresses, files, progress, run_files
from flyrun.ground.errors import ConfigError, DataError
from flyrun.ground.lock import locked
from flyrun.ground.progress import JsonLines
from flyrun.ground.schema import quoted
from flyrun.tables import new_rows, pieces, row_filter
from flyrun.tables.formats import PARQUET
from flyrun.tables.new_rows import Rows
from flyrun.tables.options import Table

FEW = 400  # draws that are used where no number is asked for
_ABOUT = (
    "_predictions.json"  # which readers of a folder of Parquet files pass over, as what begins with a dot
)
_LOCK, _LEFT = ".lock", re.compile(r"\..+\.\d+\.tmp")  # of a file that a kill left half written
_KEY = b"flyrun"  # of a part's metadata
_ROWS = 1 << 17  # worked out and written together
_TOGETHER = 1 << 18  # rows of small files that go to a worker together
_DRAWS = 4  # of a row, that take as long as a number in a scan


@dataclass(frozen=True)
class Order:
    """What is asked for. files: as they are named; out: a folder or an address; keep: columns of the files
    that the parts have, too; typed: settings of the executor, by key.
    """

    model: Path
    files: str
    out: str
    kind: str = "mean"
    interval: float = 0.9
    draws: int | None = None
    seed: int = 0
    new_groups: str = "refuse"
    where: str | None = None
    keep: tuple[str, ...] = ()
    typed: dict[str, Any] = field(default_factory=dict)
    workers: int | None = None


class Written(NamedTuple):
    """Parts. there: how many were there from before; error: the largest standard error of a mean by the count
    of draws; beyond: the first row whose prediction is no number, as `predict.overflow` has it.
    """

    rows: int = 0
    parts: int = 0
    there: int = 0
    error: float = 0.0
    beyond: str = ""

    def plus(self, other: "Written") -> "Written":
        """Of both."""
        counts = self.rows + other.rows, self.parts + other.parts, self.there + other.there
        return Written(*counts, max(self.error, other.error), self.beyond or other.beyond)


@dataclass(frozen=True)
class PartLook:
    """Writes the part of a file, for which one block stands. names: of each part below `out`, by the block's
    number; about: digest of all but the file that predictions depend on; read_as: of `predict.read_as`.
    """

    fit: Fitted
    order: Order
    names: tuple[str, ...]
    about: str
    read_as: Table

    def __call__(self, block: Block) -> Written:
        """Predict, unless the part is there. DataError for rows that do not fit, StoreError for no room."""
        import pyarrow.parquet as parquet  # late: an extra

        name, file = self.names[block.number], block.file
        path = f"{self.order.out}/{name}"
        about = {"predictions": self.about, "file": _digest(file._replace(path=name))}
        there = _metadata(path)
        if about.items() <= there.items():
            return Written(there["rows"], 1, 1, there["error"], there["beyond"])
        done = Written(parts=1)
        with addresses.replacing(path) as target, contextlib.ExitStack() as stack:
            writer = None
            for table, written in self._predicted(file, name):
                if writer is None:
                    often = [*self.order.keep]  # predictions are hardly ever the same
                    writer = stack.enter_context(
                        parquet.ParquetWriter(target, table.schema, use_dictionary=often or False)
                    )
                writer.write_table(table)
                done = done.plus(written)
            stamp = about | {"rows": done.rows, "error": done.error, "beyond": done.beyond}
            writer.add_key_value_metadata({_KEY: json.dumps(stamp)})  # type: ignore[union-attr]
        return done

    def _predicted(self, file: File, name: str) -> Iterator[tuple[Any, Written]]:
        """Arrow's tables of some rows each, and what is to tell of these; at least one."""
        import pyarrow  # late: an extra

        of_file = int.from_bytes(hashlib.sha256(name.encode()).digest()[:6], "big")
        for first, (rows, kept) in self._rows(file):
            seed = (self.order.seed, of_file, first)
            table = predict.predicted(self.fit, rows, self.order.kind, self.order.interval, seed)
            note, error = (
                predict.overflow(table),
                table.attrs.get("error") or _error(table, len(self.fit.beta)),
            )
            columns = [np.asarray(rows.index, np.int64), *(table[each].to_numpy() for each in table)]
            whole = pyarrow.Table.from_arrays([*map(pyarrow.array, columns)], [predict.ROW, *table])
            for column in kept.schema:
                whole = whole.append_column(column, kept[column.name])
            yield whole, Written(len(table), 0, 0, error, f"{file.path}: row {note}" if note else "")

    def _rows(self, file: File) -> Iterator[tuple[int, tuple[Rows, Any]]]:
        """Checked rows that are used and the columns to keep, some rows of the file at a time, and the number
        of rows before these.
        """
        fit, keep, named = self.fit, self.order.keep, dict(file.named)
        where = row_filter.read(file.where) if file.where else None
        text = fit.layout.text | {*fit.groups}
        of_names = {name: _value(word, name in text) for name, word in named.items()}
        with row_groups.opened(file) as whole:
            held = whole.schema_arrow
            new_rows.lacking(fit.layout, [*held.names, *named], file.path, fit.groups)
            if lost := next((name for name in keep if name not in held.names), None):
                raise DataError(
                    f"{file.path}: has no column {lost!r}; leave it out of --keep, or write it there"
                )
            read = [*fit.needed, *(where.columns if where else ())]
            columns = [name for name in dict.fromkeys(read) if name not in named]
            first = 0
            for piece, kept in pieces.of_parquet(whole, file.path, columns, self.read_as, text, keep, _ROWS):
                before, first = first, first + len(piece)
                if where is not None:
                    used = where.mask(piece.assign(**named), file.path)
                    piece, kept = piece[used], kept.filter(used)
                yield before, (predict.checked_piece(fit, piece.assign(**of_names), file.path, _place), kept)
            if not first:
                yield 0, (Rows(range(0), {}, {}), held.empty_table().select(keep))


def write(order: Order, console: Console | JsonLines | None) -> tuple[Written, list[str]]:
    """Write all parts; what was written, and notes on it. FlyrunError in one line."""
    order = replace(order, out=addresses.full(order.out))
    whole = stored.fitted(order.model)
    predict.refuse_kind(whole, order.kind)
    fit = whole.thinned(min(FEW, len(whole.beta)) if order.draws is None else order.draws)
    shards = table_files.find(order.files, order.where)
    read_as = predict.read_as(fit)
    shards = table_files.with_missing(shards, read_as.na)
    _refuse_columns(shards, fit, order)
    _refuse_overlap(order)
    names = tuple(table_files.below(order.files, file.path) for file in shards.files)
    about = _about(order, len(fit.beta))
    with _held(order.out):
        others = _claim(order, about, names)
        fit = fit.with_new(order.new_groups, order.seed)
        look = PartLook(fit, replace(order, typed={}), names, _digest(about), read_as)
        written = _run(look, shards, order, console)
    if not written.rows:
        what = f"row is such that {order.where}" if order.where else "file holds a row to predict"
        raise DataError(f"{order.files}: no {what}; the parts in {order.out} are without rows")
    return written, [
        *filter(None, (written.beyond, _errs(order, len(fit.beta), len(whole.beta), written))),
        *others,
    ]


def _refuse_columns(shards: Shards, fit: Fitted, order: Order) -> None:
    """DataError for columns that rows must have and do not, or that parts cannot have."""
    new_rows.lacking(fit.layout, [*shards.kinds], shards.given, fit.groups)
    if fault := next((shards.faults[name] for name in fit.needed if name in shards.faults), None):
        raise DataError(fault)
    if order.where is not None:
        rows_kept.refuse_columns(shards, order.where)
    predict.refuse_kept(fit, order.keep)
    of_folders = {name for file in shards.files for name, _ in file.named}
    for name in order.keep:
        table_files.refuse_unknown(shards, "keep", name)
        if name in of_folders:
            raise ConfigError(
                f"--keep {quoted(name)}: is in the names of folders, which the parts have, too; leave it out"
            )


def _refuse_overlap(order: Order) -> None:
    """ConfigError where parts would lie among the files, or files among the parts."""
    root = addresses.full(table_files.root(order.files))
    if f"{order.out}/".startswith(f"{root}/") or f"{root}/".startswith(f"{order.out}/"):
        raise ConfigError(
            f"--out {quoted(order.out)}: lies among the files that are read; name a folder beside {root}"
        )


def _about(order: Order, draws: int) -> dict[str, Any]:
    """All that predictions depend on but the files, as it is stored."""
    about = {
        "format": 1,
        "fit": stored.digest(order.model),
        "files": addresses.full(order.files),
        "draws": draws,
    }
    for name in ("kind", "interval", "seed", "new_groups", "where", "keep"):
        about[name] = getattr(order, name)
    return dict(json.loads(json.dumps(about)))


@contextlib.contextmanager
def _held(out: str) -> Iterator[None]:
    """Hold a folder: two commands would write over each other. What a kill left half written goes.

    Raises StoreError where another process holds it, or it cannot be written.
    """
    if addresses.is_address(out):
        yield
        return
    with contextlib.ExitStack() as stack:
        with files.writing(out, "name another --out"):
            files.make_folder(Path(out))
            stack.enter_context(locked(Path(out) / _LOCK))
        for path in Path(out).rglob(".*.tmp"):
            if _LEFT.fullmatch(path.name):
                path.unlink(missing_ok=True)
        yield


def _claim(order: Order, about: dict[str, Any], names: tuple[str, ...]) -> list[str]:
    """Write what the predictions at `out` are of; notes on what else is there.

    Raises ConfigError where there are other predictions, or other files.
    """
    record, parts = f"{order.out}/{_ABOUT}", {f"{order.out}/{name}" for name in names}
    there = [path for path in addresses.listed(order.out) if path.endswith(PARQUET)]
    before = _record(record)
    another = "name another --out"
    if not addresses.is_address(order.out):
        free = run_files.free_name(Path(order.out))
        another = f"--out {quoted(str(Path(order.out).with_name(free)))} keeps both"
    if before.get("new_groups") == "refuse":  # which ended with the remedy that is typed now
        before = before | {"new_groups": order.new_groups}
    if there and before and (changes := run_files.changes(before, about)):
        raise ConfigError(f"{order.out}: holds other predictions ({changes}); {another}")
    if there and not before:
        raise ConfigError(f"{order.out}: holds other files, as {there[0]}; {another}")
    with addresses.replacing(record) as file:
        file.write(json.dumps(about, indent=1).encode())
    if others := sorted({*there} - parts):
        more = f" and {len(others) - 1:,} more" if len(others) > 1 else ""
        return [f"{others[0]}{more}: of a file that is not there any more; delete it"]
    return []


def _record(path: str) -> dict[str, Any]:
    """What predictions are of; nothing where there are none."""
    with contextlib.suppress(OSError, ValueError), addresses.opened(path) as file:
        return dict(json.loads(file.read()))
    return {}


def _metadata(path: str) -> dict[str, Any]:
    """What a part says of itself; nothing where there is none, or none that is whole."""
    import pyarrow.parquet as parquet  # late: an extra

    with contextlib.suppress(OSError, ValueError), addresses.opened(path) as source:
        about = parquet.read_metadata(source).metadata or {}
        return dict(json.loads(about.get(_KEY, b"{}")))
    return {}


def _run(look: PartLook, shards: Shards, order: Order, console: Console | JsonLines | None) -> Written:
    """Have all parts written."""
    rows = dict.fromkeys((file.path for file in shards.files), 0)
    for block in shards.blocks:
        rows[block.file.path] += block.rows
    each = enumerate(shards.files)
    blocks = [Block(k, file, 0, rows[file.path], 0, rows[file.path]) for k, file in each]
    groups, size = [list[Block]()], 0
    for block in blocks:
        if groups[-1] and size + block.rows > _TOGETHER:
            groups, size = [*groups, []], 0
        groups[-1].append(block)
        size += block.rows
    say = progress.speaker(console).say
    written, begun, numbers = Written(), time.monotonic(), shards.rows * len(look.fit.beta) // _DRAWS
    with (
        workers.at_work(order.typed, order.workers, numbers, say) as run,
        progress.counted(console, "predicting", max(1, shards.rows)) as tell,
    ):
        for _, looked in run(look, groups):
            written = written.plus(looked.result)
            pace = written.rows / (time.monotonic() - begun)
            left = progress.duration((shards.rows - written.rows) / max(pace, 1e-9))
            tell(written.rows, f"{pace:,.0f} rows/s, {left} left")
    return written


def _errs(order: Order, draws: int, of: int, written: Written) -> str:
    """How far thinned draws are off, in a line; nothing where all draws were used."""
    if draws == of or not written.rows:
        return ""
    normal, tail = NormalDist(), 0.5 - 0.5 * order.interval
    ends = math.sqrt(tail * (1.0 - tail) / draws) / normal.pdf(normal.inv_cdf(tail))
    more = min(of, 4 * draws)
    return (
        f"{draws:,} of {of:,} draws, evenly spaced: means err by {1.0 / math.sqrt(draws):.2g} of their row's "
        f"sd, {written.error:.2g} at most, and low and high by about {ends:.2g} of it (standard errors); "
        f"--draws {more} {'halves that' if more == 4 * draws else 'takes all'}"
    )


def _error(table: pd.DataFrame, draws: int) -> float:
    """The largest standard error of a mean by the number of draws."""
    sds = [table[name].to_numpy() for name in table if str(name).startswith("sd")]
    return max(float(np.max(sd, initial=0.0)) for sd in sds) / math.sqrt(draws)


def _value(word: str | None, as_text: bool) -> str | float | None:
    """Of a column that a folder's name holds."""
    if word is not None and not as_text:
        with contextlib.suppress(ValueError):
            return float(word)
    return word


def _place(index: object) -> str:
    return f"row {index} (rows count from 0)"


def _digest(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]
