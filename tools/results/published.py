"""What results/measured holds: rows of its tables by arm, and numbers as a table of the docs writes them."""

import csv
import functools
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from flyrun.experiments.compare.sides import ALIASES
from flyrun.ground import files
from flyrun.ground.errors import StoreError
from flyrun.ground.page.render import known
from flyrun.ground.paths import conf_dir
from flyrun.ground.schema import did_you_mean

MEASURED = conf_dir().parent / "results/measured"
#: from here on a chain's R-hat says that it had not settled
UNSETTLED_RHAT = 1.1
_UP, _DOWN = "≤", "≥"  # an upper bound is rounded up, a lower one down: what is printed still is a bound


class Row(dict[str, Any]):
    """A row of a published table; a column that it lacks, or that says nothing there, is an error."""

    def __init__(self, values: dict[str, Any], where: str) -> None:
        super().__init__(values)
        self.where = where

    def __missing__(self, column: str) -> Any:
        """Find the column by its name of now; else name the one meant.

        A table made before the renaming may have columns of both names, which then are two things.
        """
        if (now := ALIASES.get(column)) in self:
            return self[now]
        raise StoreError(f"{self.where}: no column {column}{did_you_mean(column, list(self))}")

    def __getattr__(self, column: str) -> Any:
        """Look up a column that must say something."""
        value = self[column]
        if value == "":
            raise StoreError(f"{self.where}: nothing in column {column}; leave the table's cell empty")
        return value


def keep(out: Path, table: pd.DataFrame, page: Callable[[pd.DataFrame], str]) -> None:
    """Write a table to out, a .csv of six digits, and its page of Markdown beside it."""
    with files.writing(out):
        table.to_csv(out, index=False, float_format="%.6g")
        out.with_suffix(".md").write_text(page(read_kept(out)), "utf-8")


def read_kept(out: Path) -> pd.DataFrame:
    """A table as `keep` left it; a commit of digits alone stays a word."""
    return pd.read_csv(out, dtype={"commit": str})


def arm(experiment: str, name: str) -> Row:
    """An arm's row of a published experiment."""
    named = {one["arm"]: one for one in arms(experiment)}
    if name not in named:
        raise StoreError(f"{experiment}: published without an arm {name}{did_you_mean(name, named)}")
    return named[name]


def arms(experiment: str) -> list[Row]:
    """All rows of a published experiment."""
    return rows(MEASURED / experiment / "table.csv")


def table(name: str) -> list[Row]:
    """All rows of results/measured/<name>.csv."""
    return rows(MEASURED / f"{name}.csv")


def row(name: str, /, **wanted: Any) -> Row:
    """The only row of results/measured/<name>.csv with these values."""
    found = [one for one in table(name) if all(one[key] == value for key, value in wanted.items())]
    if len(found) != 1:
        raise StoreError(f"{MEASURED / name}.csv: {len(found)} rows have {wanted}; name one")
    return found[0]


@functools.cache
def rows(path: Path) -> list[Row]:
    """The rows of a published table, numbers as numbers."""
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return [
                Row({key: _value(text) for key, text in one.items()}, f"{path}, {one.get('arm', number)}")
                for number, one in enumerate(csv.DictReader(file), 2)
            ]
    except OSError as error:
        raise StoreError(f"{path}: cannot be read ({error.strerror}); publish the experiment") from error


def _value(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return {"True": True, "False": False}.get(text, text)


def moves(one: Row) -> bool:
    """Whether an arm had not settled: by its R-hat, or by its approximation's own account."""
    # seeds of one target each, as splits of data, need not agree
    several = one.get("judged") == "each split" or one.get("shards", "") != ""
    mixed = "" if several else one.get("rhat_max", "")
    falls = one.get("settled") is False or "still falling" in str(one.get("regime"))
    return falls or (mixed != "" and mixed > UNSETTLED_RHAT)


def sig(value: float, digits: int = 3, bound: str = "") -> str:
    """A number of so many figures, thousands marked; from 10 million on as a power of ten.

    bound: "≥" or "≤" before it, rounded to that side; "~" or "" to the nearest.
    """
    if not known(value) or math.isinf(value):
        raise StoreError(f"{value!r} is no number to print")
    mark = f"{bound} " if bound else ""
    if value == 0:
        return f"{mark}0"
    value = _rounded(float(value), digits, bound)
    size = math.floor(math.log10(abs(value)))
    if size >= 7 or size < -4:
        mantissa, _, power = f"{value:.{digits - 1}e}".partition("e")
        text = f"{mantissa.rstrip('0').rstrip('.') if '.' in mantissa else mantissa}e{int(power)}"
    else:
        text = f"{value:,.{max(digits - 1 - size, 0)}f}"
    return mark + text


def _rounded(value: float, digits: int, bound: str) -> float:
    """A value to so many figures: down where it is a lower bound, up where it is an upper one."""
    place = digits - 1 - math.floor(math.log10(abs(value)))
    near = round(value, place)
    if bound == _DOWN and near > value:
        return round(near - 10.0**-place, place)
    if bound == _UP and near < value:
        return round(near + 10.0**-place, place)
    return near


def ratio(one: Row, column: str = "speedup", digits: int = 3) -> str:
    """A ratio with the bound that its row says it is."""
    return sig(getattr(one, column), digits, one.get("ratio_bound") or "")


def several(values: Iterable[float], digits: int = 3) -> str:
    """Numbers of one cell: "1.17, 1.14, 1.05"."""
    return ", ".join(sig(value, digits) for value in values)
