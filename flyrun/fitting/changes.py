"""What changed from one fit to another, as from last month's to this one's: coefficients, and their data.

All is of what the two runs' folders keep; no table is read again.
"""

import csv
import io
import json
import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from flyrun.fitting import stored
from flyrun.ground.errors import ConfigError
from flyrun.ground.page.render import NOTHING, View, number, plus_minus
from flyrun.ground.schema import listing, quoted
from flyrun.tables.layout import INTERCEPT, Column, Layout

_MOST_SHOWN = 20
_MOST_LEVELS = 8
_SHIFT = 0.1  # sds that a mean may move by before it counts as a change
_BEYOND = 0.1  # of a range, that values may lie beyond it
_FEW_ERRORS, _LITTLE = 4.0, 0.001  # standard errors, and share of the rows, that a level's share may

#: of a coefficient, or of the effect of a group's level
Row = dict[str, Any]


@dataclass(frozen=True)
class Changes:
    """Of two fits. coefficients: rows of both fits' means and sds, by how far they moved; data: rows of what
    is known of the tables; notes: what to know first.
    """

    sides: tuple[str, str]
    coefficients: list[Row]
    data: list[Row]
    notes: list[str]

    @property
    def moved(self) -> bool:
        """Whether any coefficient did, by the test."""
        return any(row["verdict"] == "moved" for row in self.coefficients)

    def views(self, every: bool) -> list[View]:
        """The two tables as people read them; every: also what stayed as it was."""
        shown = self.coefficients if every else self.coefficients[:_MOST_SHOWN]
        header = ("coefficient", "A", "B", "B - A", "sds", "verdict")
        rows = tuple(
            (
                " ".join(filter(None, (row["class"], row["coefficient"]))),
                plus_minus(row["a"], row["a_sd"]),
                plus_minus(row["b"], row["b_sd"]),
                plus_minus(row["difference"], row["sd"]),
                NOTHING if row["sds"] is None else f"{row['sds']:+.1f}",
                row["verdict"],
            )
            for row in shown
        )
        data = [row for row in self.data if every or row["changed"]]
        views = [View("Coefficients, mean ± posterior sd", header, rows)]
        if data:
            cells = tuple((row["column"], row["what"], row["a"], row["b"], row["change"]) for row in data)
            views.append(View("Data", ("column", "what", "A", "B", "change"), cells))
        return views

    def csv(self) -> str:
        """A row a coefficient and a row a line of the data's."""
        text = io.StringIO()
        columns = ("part", *_COEFFICIENT, "column", "what", "change", "changed")
        rows = csv.DictWriter(text, columns, lineterminator="\n")
        rows.writeheader()
        rows.writerows({"part": "coefficient"} | row for row in self.coefficients)
        rows.writerows({"part": "data"} | row for row in self.data)
        return text.getvalue()

    def json(self) -> str:
        """All of it."""
        return json.dumps(vars(self), indent=1, ensure_ascii=False) + "\n"


_COEFFICIENT = ("class", "coefficient", "a", "a_sd", "b", "b_sd", "difference", "sd", "sds", "verdict")


def of_other_rows(a: Path, b: Path) -> bool:
    """Whether two fits are of other rows, by what their folders say, or of rows that are not read again."""
    first, other = (stored.about(folder) for folder in (a, b))
    if first["scan"] or other["scan"]:
        return True
    return _rows_named(first) != _rows_named(other)


def _rows_named(fit: Row) -> list[Any]:
    """What names the rows of a fit of one file, or of a scan, among others of it."""
    return [fit["settings"]["dataset"].get(key) for key in ("sha256", "where", "limit")]


def of(a: Path, b: Path, level: float) -> Changes:
    """What changed from fit A to fit B. level: of the test, over all coefficients together (Holm).

    Raises ConfigError where the two explain something else, so that no coefficient is comparable.
    """
    fits = tuple(stored.about(folder) for folder in (a, b))
    layouts = tuple(Layout.from_dict(fit["layout"]) for fit in fits)
    _refuse_others((a, b), fits, layouts)
    shared, note = _shared(fits)
    notes = [note, *_settings(fits), *_held_out(fits)]
    apart, why = _not_compared(fits, layouts)
    rows = _coefficients([_rows_of(fit) for fit in fits], shared, apart)
    for side, name in ((a, "A"), (b, "B")):
        if only := [row["coefficient"] for row in rows if row["verdict"] == f"only in {name}"]:
            notes.append(f"only in {name}, {side.name}: {_some(only)}")
    notes += why
    rows += _effects((a, b), shared)
    _judge(rows, level)
    tested = [row for row in rows if row["sds"] is not None]
    if tested:
        moved = sum(row["verdict"] == "moved" for row in rows)
        beyond, chance = sum(abs(row["sds"]) > 2.0 for row in tested), 0.0455 * len(tested)
        notes.insert(
            0,
            f"{moved:,} of {len(tested):,} moved, at level {level:g} over all of them (Holm); {beyond:,} are "
            f"more than 2 sds apart, of which about {chance:.2g} would be by chance",
        )
    order = {"moved": 0, "": 1}
    rows.sort(key=lambda row: (order.get(row["verdict"], 2), -abs(row["sds"] or 0.0)))
    return Changes((str(a), str(b)), rows, _data(fits, layouts), notes)


def _refuse_others(sides: tuple[Path, Path], fits: tuple[Row, ...], layouts: tuple[Layout, ...]) -> None:
    """ConfigError where the two fits have nothing in common to compare."""
    for what, (mine, theirs) in (
        ("target", tuple(layout.explained for layout in layouts)),
        ("link", tuple(fit["link"] for fit in fits)),
    ):
        if mine != theirs:
            raise ConfigError(
                f"compare: {sides[0]} has the {what} {mine}, {sides[1]} has {theirs}; coefficients compare "
                "where both are the same: fit one of the two anew, as the other was"
            )


def _shared(fits: tuple[Row, ...]) -> tuple[float | None, str]:
    """The correlation of the two fits' errors by the rows that both have, None where it is not known or all
    are, and what was taken for it.
    """
    mine, theirs = (
        {
            (file["footer"], file["bytes"], file.get("where", "")): file.get("rows", 0)
            for file in fit["scan"].get("files", ())
        }
        for fit in fits
    )
    if _rows_named(fits[0]) == _rows_named(fits[1]):
        return None, "both are of the same rows, so that their errors depend on each other: no sds"
    if (sum(mine.values()) and sum(theirs.values())) and (
        both := sum(mine[key] for key in mine.keys() & theirs)
    ):
        share = both / math.sqrt(sum(mine.values()) * sum(theirs.values()))
        return share, (
            f"{both:,} rows, of files that are in both, are of both fits; sds take their errors' correlation "
            f"to be {share:.2g}, the share of rows that both have"
        )
    if mine and theirs and not {key[0] for key in mine} & {key[0] for key in theirs}:
        return 0.0, "no file is in both, so that sds are of independent fits"
    return 0.0, "sds are of independent fits: rows that both have would make differences smaller than sds say"


def _settings(fits: tuple[Row, ...]) -> list[str]:
    """What else differs between the two than the data."""
    mine, theirs = (fit["settings"] | fit["settings"]["dataset"] for fit in fits)
    skipped = ("dataset", "sha256", "path")
    differ = [
        f"{key} {_plain(mine.get(key))} and {_plain(theirs.get(key))}"
        for key in dict.fromkeys([*mine, *theirs])
        if key not in skipped and mine.get(key) != theirs.get(key)
    ]
    return [f"settings differ: {'; '.join(differ)}"] if differ else []


def _plain(value: object) -> str:
    return listing(map(str, value)) if isinstance(value, list) and value else str(value or "none")


def _held_out(fits: tuple[Row, ...]) -> list[str]:
    """How well each fit of a scan predicts what it has not seen, where both have folds."""
    held = [fit["scan"].get("held_out") for fit in fits]
    if not all(held):
        return []
    each = " and ".join(f"{fold['mean']:.6g} ± {fold['error']:.2g}" for fold in held if fold)
    return [f"log density a row of cross-validation: {each}"]


def _rows_of(fit: Row) -> dict[tuple[str, str], Row]:
    """Coefficients by class and name."""
    return {(row["class"], row["coefficient"]): row for row in fit["coefficients"]}


def _not_compared(fits: tuple[Row, ...], layouts: tuple[Layout, ...]) -> tuple[Collection[str], list[str]]:
    """Names of coefficients that mean something else in the two fits, and why."""
    names = {row["coefficient"] for fit in fits for row in fit["coefficients"]}
    apart, notes = set[str](), []
    both = [{column.name: column.levels for column in layout.columns if column.levels} for layout in layouts]
    for name, levels in both[0].items():
        (level, *_), (other, *_) = levels, both[1].get(name, levels)
        if other != level:
            kept = [each for each in levels if each in both[1][name]]
            with_it = [term for term in names if any(f"{name}[" in part for part in term.split(":"))]
            parts = [set(term.split(":")) for term in with_it]
            apart |= {INTERCEPT, *with_it} | {
                term for term in names if any(set(term.split(":")) <= each for each in parts)
            }
            notes.append(
                f"{name}: the reference is {level} in A and {other} in B, so that its coefficients and the "
                "intercept are not compared"
                + (f"; fit both with --reference {quoted(f'{name}={kept[0]}')}" if kept else "")
            )
    mine, theirs = (layout.state.get("functions", {}) for layout in layouts)
    changed = [text for text in mine if mine[text] != theirs.get(text, mine[text])]
    if changed:
        apart |= {term for term in names if any(text in term for text in changed)}
        notes.append(
            f"{listing(changed)}: what the function knows of its table differs, as knots and means, so that "
            "its coefficients are not compared"
        )
    return apart, notes


def _coefficients(
    sides: list[dict[tuple[str, str], Row]], shared: float | None, apart: Collection[str]
) -> list[Row]:
    """A row a coefficient of either fit, with the difference in its own posterior sds where that is known."""
    rows = []
    for label in dict.fromkeys([*sides[0], *sides[1]]):
        mine, theirs = (side.get(label) for side in sides)
        row: Row = dict.fromkeys(_COEFFICIENT) | {"class": label[0], "coefficient": label[1], "verdict": ""}
        for key, side in (("a", mine), ("b", theirs)):
            if side is not None:
                row |= {key: side["mean"], f"{key}_sd": side["sd"]}
        if mine is None or theirs is None:
            row["verdict"] = "only in B" if mine is None else "only in A"
        elif label[1] in apart:
            row["verdict"] = "not compared"
        else:
            row["difference"] = theirs["mean"] - mine["mean"]
            if shared is not None:
                variance = mine["sd"] ** 2 + theirs["sd"] ** 2 - 2.0 * shared * mine["sd"] * theirs["sd"]
                row["sd"] = math.sqrt(max(variance, 0.0))
                row["sds"] = row["difference"] / row["sd"] if row["sd"] > 0 else None
        rows.append(row)
    return rows


def _judge(rows: list[Row], level: float) -> None:
    """Mark what moved, by Holm's step-down over all that are tested."""
    tested = sorted((row for row in rows if row["sds"] is not None), key=lambda row: -abs(row["sds"]))
    for rank, row in enumerate(tested):
        if math.erfc(abs(row["sds"]) / math.sqrt(2.0)) > level / (len(tested) - rank):
            break
        row["verdict"] = "moved"


def _effects(folders: tuple[Path, Path], shared: float | None) -> list[Row]:
    """The same of effects of groups, of those levels that both fits have."""
    paths = [folder / stored.GROUPS for folder in folders]
    if not all(path.exists() for path in paths):
        return []
    sides = []
    for path in paths:
        table = pd.read_csv(path, dtype={"level": str})
        names = table["effect"] + " of " + table["group"] + " " + table["level"]
        each = zip(names, table["mean"], table["sd"], strict=True)
        sides.append({("", name): {"mean": float(mean), "sd": float(sd)} for name, mean, sd in each})
    both = sides[0].keys() & sides[1].keys()
    return _coefficients([{key: side[key] for key in side if key in both} for side in sides], shared, ())


def _data(fits: tuple[Row, ...], layouts: tuple[Layout, ...]) -> list[Row]:
    """What is known of the two tables, a row each of counts, ranges, levels."""
    mine, theirs = layouts
    rows = [_counted("rows", mine.rows, theirs.rows)]
    read = [layout.rows + layout.dropped for layout in layouts]
    if mine.dropped or theirs.dropped:
        rows.append(_shares("", "left out for a missing value", [mine.dropped, theirs.dropped], read))
    columns = [_columns(layout) for layout in layouts]
    for name in dict.fromkeys([*columns[0], *columns[1]]):
        here, there = (side.get(name) for side in columns)
        if here is None or there is None:
            sides = ("no column", "a column") if here is None else ("a column", "no column")
            rows.append(_row(name, "", *sides, "came" if here is None else "went"))
            continue
        rows += _levels(here, there) if here.levels and there.levels else _ends(here, there)
        lacking = [layout.missing.get(name, 0) for layout in layouts]
        if any(lacking) and all(layout.missing or not layout.dropped for layout in layouts):
            rows.append(_shares(name, "missing", lacking, read))
    return rows


def _columns(layout: Layout) -> dict[str, Column]:
    """Those that are read, by name, with means and sds where features are columns themselves."""
    scaled = {column.name: column for column in layout.features if column.levels is None}
    columns = {}
    for column in (*layout.columns, layout.target, *layout.beside.values()):
        its = scaled.get(column.name, column) if column.levels is None else column
        columns[column.name] = replace(column, mean=its.mean, sd=its.sd)
    return columns


def _row(column: str, what: str, a: str, b: str, change: str) -> Row:
    """Of the data's table."""
    return {"column": column, "what": what, "a": a, "b": b, "change": change, "changed": bool(change)}


def _counted(what: str, a: int, b: int) -> Row:
    return _row("", what, f"{a:,}", f"{b:,}", f"{(b - a) / a:+.1%}" if a and b != a else "")


def _shares(column: str, what: str, counts: list[int], of: list[int]) -> Row:
    """Counts as shares; a change where they differ by more than chance would leave, and by a thousandth."""
    share = [count / max(whole, 1) for count, whole in zip(counts, of, strict=True)]
    a, b = (f"{count:,} ({each:.2%})" for count, each in zip(counts, share, strict=True))
    pooled = sum(counts) / max(sum(of), 1)
    error = math.sqrt(pooled * (1.0 - pooled) * sum(1.0 / max(whole, 1) for whole in of))
    change = share[1] - share[0]
    differs = abs(change) > max(_FEW_ERRORS * error, _LITTLE)
    return _row(column, what, a, b, f"{100 * change:+.2f} points" if differs else "")


def _ends(a: Column, b: Column) -> list[Row]:
    """Of a number its range, and its mean where both are known."""
    if bool(a.levels) != bool(b.levels):
        kinds = ("category", "number") if a.levels else ("number", "category")
        return [_row(a.name, "kind", *kinds, "changed")]
    rows = []
    if all((column.low, column.high) != (0.0, 0.0) for column in (a, b)):
        far = _BEYOND * (a.high - a.low)
        beyond = [f"down to {number(b.low)}"] if b.low < a.low - far else []
        beyond += [f"up to {number(b.high)}"] if b.high > a.high + far else []
        mine, theirs = (f"{number(column.low)} … {number(column.high)}" for column in (a, b))
        rows.append(_row(a.name, "range", mine, theirs, " and ".join(beyond)))
    # a column of two values is not taken off its mean, nor divided by its sd
    if all((column.mean, column.sd) != (0.0, 1.0) and column.mean > column.low for column in (a, b)):
        sds = (b.mean - a.mean) / a.sd
        mine, theirs = (plus_minus(column.mean, column.sd) for column in (a, b))
        rows.append(_row(a.name, "mean ± sd", mine, theirs, f"{sds:+.2f} sds" if abs(sds) > _SHIFT else ""))
    return rows


def _levels(a: Column, b: Column) -> list[Row]:
    """Of a category the levels that came or went, and those whose share of the rows moved."""
    mine, theirs = a.levels or [], b.levels or []
    changes = {
        "came": [level for level in theirs if level not in {*mine}],
        "went": [level for level in mine if level not in {*theirs}],
    }
    text = "; ".join(f"{verb} {_some(levels)}" for verb, levels in changes.items() if levels)
    rows = [_row(a.name, "levels", f"{len(mine):,}", f"{len(theirs):,}", text)]
    if a.counts is None or b.counts is None:
        return rows
    counts = [dict(zip(column.levels or [], column.counts or [], strict=True)) for column in (a, b)]
    whole = [sum(each.values()) for each in counts]
    shares = [
        _shares(a.name, level, [each.get(level, 0) for each in counts], whole)
        for level in dict.fromkeys([*mine, *theirs])
    ]
    moved = [row for row in shares if row["changed"]]
    return rows + (shares if len(shares) <= _MOST_LEVELS else moved[:_MOST_LEVELS])


def _some(levels: list[str]) -> str:
    more = f" and {len(levels) - _MOST_LEVELS:,} more" if len(levels) > _MOST_LEVELS else ""
    return listing(levels[:_MOST_LEVELS]) + more
