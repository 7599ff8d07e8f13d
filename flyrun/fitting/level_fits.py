"""`flyrun fit … --by COLUMN`: which fits, one a level of the column, and their coefficients side by side."""

import csv
import io
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from flyrun.fitting.request import ELSEWHERE, Request
from flyrun.fitting.scan.one_look import MOST, too_many
from flyrun.ground import files
from flyrun.ground.errors import ConfigError, DataError
from flyrun.ground.page.render import View
from flyrun.ground.schema import did_you_mean, listing, quoted
from flyrun.tables import loader
from flyrun.tables.quoting import Names
from flyrun.tables.quoting import quoted as in_filter

MOST_REPORTS = 20  # levels whose reports are made at once
_COLUMNS, _LEVELS = 5, 40  # of coefficients beside each other, and levels that are printed
_MOST_NAMED = 12
_OF_BASE = 120  # letters of the table's name in those of its levels
TABLE = "levels.csv"


class Fitted(NamedTuple):
    """Of a level's fit its run's name, a row a coefficient, and why it is not to be trusted yet, if so."""

    run: str
    rows: list[dict[str, Any]]
    doubt: str


def refuse(request: Request, known: Iterable[str]) -> None:
    """ConfigError where a table of these columns has no such one, or it has a part in the model."""
    by, known, given = str(request.by), list(known), f"--by {quoted(str(request.by))}"
    if by not in known:
        close = did_you_mean(by, known)
        raise ConfigError(f"{given}: no such column{close}; there are {listing(known[:_MOST_NAMED])}")
    beside = {"target": request.target} | request.typed_table.beside
    if role := next((role for role, name in beside.items() if name == by), None):
        raise ConfigError(f"{given}: is the {role}; name another column")
    formula = str(request.table.get("formula", ""))
    if by in (request.table.get("features") or ()) or by in Names.of(formula, known, ()).columns:
        where = "the formula" if formula else "--features"
        raise ConfigError(f"{given}: explains the target in {where}; leave it out there, or leave --by out")
    if by in [name for bar in request.groups for name in bar.columns]:
        raise ConfigError(f"{given}: groups rows in the formula; leave it out there, or leave --by out")


def requests(request: Request, levels: Iterable[str]) -> dict[str, Request]:
    """A fit's request a level, named for it."""
    base, taken, by_level = request.folder.name[:_OF_BASE], set[str](), {}
    for level in levels:
        name = name_of = f"{base}-" + (re.sub(r"[^A-Za-z0-9._+-]+", "_", level)[:60] or "_")
        number = 2
        while name.lower() in taken:
            name, number = f"{name_of}_{number}", number + 1
        taken.add(name.lower())
        by_level[level] = replace(request, name=name, by=None)
    return by_level


def where(request: Request, level: str) -> str:
    """What tells a level's rows, among those that are used, as a table is asked for them."""
    word = f'"{level}"' if "'" in level else f"'{level}'"
    mine = f"{in_filter(str(request.by))} == {word}"
    every = request.typed_table.where
    return f"({every}) and {mine}" if every else mine


def of_table(request: Request) -> dict[str, Request]:
    """A request for each level of one file. DataError where levels are missing, or too many."""
    from flyrun.tables import pieces  # late: pandas takes half a second

    table, by, path = request.typed_table, str(request.by), Path(request.file).expanduser()
    loader.fingerprint(table)
    refuse(request, pieces.names(path, table))
    count, missing = dict[str, int](), 0
    for piece in pieces.pieces(path, [by], replace(table, limit=None), {by}):
        missing += int(piece[by].isna().sum())
        for level, rows in piece[by].value_counts().items():
            count[str(level)] = count.get(str(level), 0) + int(rows)
        if len(count) > MOST:
            raise too_many(request.file, by)
    if missing and table.missing != "drop":
        raise DataError(
            f"{request.file}: {missing:,} rows lack a value of {by}; leave out, and count, such rows with "
            "--missing drop"
        )
    if len(count) < 2:
        raise ConfigError(f"--by {quoted(by)}: has one value alone in all rows; leave it out")
    options, by_level = dict(request.table), dict[str, Request]()
    if not {"formula", "features"} & options.keys():
        options["drop"] = (*options.get("drop", ()), by)
    for level, level_request in requests(request, sorted(count, key=in_order)).items():
        by_level[level] = replace(level_request, table=options | {"where": where(request, level)})
    return by_level


def in_order(level: str) -> tuple[float, str]:
    """By which levels are sorted: numbers by size, before words."""
    try:
        return float(level), level
    except ValueError:
        return float("inf"), level


def write(request: Request, levels: dict[str, Fitted]) -> Path:
    """The coefficients of all levels, a row each; the file's path."""
    stream, kept = io.StringIO(), ("class", "coefficient", "mean", "sd", "q03", "q97", "ess")
    rows = csv.writer(stream, lineterminator="\n")
    rows.writerow([request.by, "run", *kept])
    for level, fitted in levels.items():
        for row in fitted.rows:
            rows.writerow([level, fitted.run, *(_cell(row.get(key)) for key in kept)])
    path = request.folder / TABLE
    with files.writing(path.parent, ELSEWHERE):
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write_text(path, stream.getvalue())
    return path


def _cell(value: object) -> object:
    return f"{value:.6g}" if isinstance(value, float) else value


def views(request: Request, levels: dict[str, Fitted]) -> list[View]:
    """Tables of some coefficients each: a row a level, mean ± sd a coefficient."""
    cells = dict[str, dict[str, str]]()
    for level, fitted in list(levels.items())[:_LEVELS]:
        cells[level] = {
            " ".join(filter(None, (row["class"], row["coefficient"]))): f"{row['mean']:.3g} ± {row['sd']:.2g}"
            for row in fitted.rows
        }
    names = list(dict.fromkeys(name for row in cells.values() for name in row))
    title = f"The first {_LEVELS} levels; all are in {TABLE}" if len(levels) > _LEVELS else ""
    tables = []
    for first in range(0, len(names), _COLUMNS):
        part = names[first : first + _COLUMNS]
        each = tuple((level, *(row.get(name, "-") for name in part)) for level, row in cells.items())
        tables.append(View(title, (str(request.by), *part), each))
    return tables
