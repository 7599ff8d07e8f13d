"""What `flyrun fit` is asked for."""

import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from glob import has_magic
from pathlib import Path
from typing import Any, NoReturn

from flyrun.families.options import FOR_EVENTS, for_tables
from flyrun.fitting.bars import Bar
from flyrun.fitting.priors import Typed
from flyrun.fitting.smooths import Smooth
from flyrun.ground.errors import ConfigError
from flyrun.ground.run_files import folder_name
from flyrun.ground.schema import build, quoted, schema
from flyrun.tables.options import ROLES, Table, listed

#: where a fit that cannot write its folder may go
ELSEWHERE = "choose another place with --results-dir FOLDER"
#: options of several columns, and all that say how a table is read, as they are without dashes
LISTS = ("features", "drop", "categorical", "numeric", "reference", "na")
KEYS = ("target", "model", *ROLES, *LISTS, "order", "missing", "decimal", "encoding", "rows", "where")
_REPORT_S, _REPORT = 2.5, 0.1  # seconds that follow the draws on a free core, and at most of a budget
#: what options are in a formula
_WRITTEN = {
    "target": "the formula's left side",
    "log_target": "log(…) of the formula's left side",
    "trials": "| COLUMN of the formula's left side",
    "offset": "offset(COLUMN) of the formula",
    "exposure": "offset(log(COLUMN)) of the formula",
    "event": "the event in Surv(…) of the formula's left side",
    "cens": "cens(COLUMN) of the formula's left side",
    "high": "the upper end in Surv(…), or cens(…), of the formula's left side",
    "most": "the upper end in trunc(…) of the formula's left side",
    "entry": "the start in Surv(…), or trunc(…), of the formula's left side",
    "formula": "the formula",
}
UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True)
class Budget:
    """When to stop: seconds, or iterations a chain. typed: whether it was asked for; a scan has no other."""

    seconds: float = math.inf
    iterations: int | None = None
    typed: bool = True

    def __str__(self) -> str:
        """As a person would say it."""
        if self.iterations is not None:
            return f"{self.iterations:,} iterations a chain"
        unit = "h" if self.seconds >= 7200 else "m" if self.seconds >= 120 else "s"
        words = {"s": "seconds", "m": "minutes", "h": "hours"}
        return f"{self.seconds / UNITS[unit]:g} {words[unit]}"


class Clock:
    """What has passed since a command was typed."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.monotonic(), time.process_time()

    def seconds(self) -> float:
        """Seconds on the wall."""
        return time.monotonic() - self._wall

    def pace(self) -> float:
        """Seconds on the wall for each that this process computed; 1 on a free core, more on a busy one."""
        return max(self.seconds() / max(time.process_time() - self._cpu, 1e-3), 1.0)

    def spent(self, budget: Budget) -> Callable[[], bool]:
        """What tells whether a budget has no more time for draws: some is kept for files and the report."""
        end = budget.seconds - min(_REPORT_S * self.pace(), _REPORT * budget.seconds)
        return lambda: self.seconds() > end


@dataclass(frozen=True)
class Request:
    """One command line. words: as typed, without --fresh and the output, for the command that goes on.

    typed: settings by key, of dataset, of executor, where many files are scanned, or model; each has `key`,
    `group`, `value` and `text`, as it was typed. formulas: of further parameters, as of parameters.py.
    """

    file: str
    target: str
    model: str | None = None
    link: str | None = None
    table: dict[str, Any] = field(default_factory=dict)
    prior_scale: float = 2.5
    priors: tuple[Typed, ...] = ()
    budget: Budget = Budget(600.0, typed=False)
    name: str | None = None
    results_dir: str = "results"
    workers: int | None = None
    fresh: bool = False
    check: bool = False
    exp: bool = False
    by: str | None = None
    folds: int | None = None
    typed: dict[str, Any] = field(default_factory=dict)
    groups: tuple[Bar | Smooth, ...] = ()
    formulas: dict[str, dict[str, Any]] = field(default_factory=dict)
    words: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raises ConfigError for a name that is no folder's in results/runs."""
        if self.name is not None:
            folder_name(self.name, f"--name {quoted(str(self.name))}")

    @property
    def folder(self) -> Path:
        """Where its files go."""
        name = self.name if self.name is not None else run_name(self.file)
        return Path(self.results_dir).expanduser() / "runs" / name

    @property
    def model_asked(self) -> str | None:
        """The model that was typed, one way or the other; of times with events, without one, their usual."""
        typed = str(self.typed["model"].value) if "model" in self.typed else None
        times = "event" in self.table or {"high", "cens"} & self.table.keys() == {"high"}
        return self.model or typed or (FOR_EVENTS if times else None)

    @cached_property
    def typed_table(self) -> "TypedTable":
        """What options and settings say of the table. Raises ConfigError where they do not agree."""
        given: dict[str, Any] = {"path": self.file, "target": self.target, **self.table}
        for key in ("dataset", "dataset.name"):
            if key in self.typed:
                raise ConfigError(f"{self.typed[key].text}: fit reads the table {self.file}; leave this out")
        model = self.model_asked
        if model in for_tables():
            given["task"] = schema("model", model).task  # type: ignore[attr-defined]
        if "dataset.shard" in self.typed:
            raise ConfigError(
                f"{self.typed['dataset.shard'].text}: a fit is of the whole table, under the whole prior; "
                "leave this out (--rows N fits the first N rows; experiments on a table take parts of it)"
            )
        values = {
            key.partition(".")[2]: one.value for key, one in self.typed.items() if one.group == "dataset"
        }
        checked = build("dataset", {"name": "table", **values})
        for key in values:
            if key in given and getattr(checked, key) != given[key]:
                other = {"path": self.file, "task": f"--model {model}"}
                option = other.get(key, TypedTable().say(key))
                text = self.typed[f"dataset.{key}"].text
                raise ConfigError(f"fit: {option} and {text} disagree; keep one of them")
        return TypedTable(**{**values, **given, "keys": tuple(key for key in values if key not in given)})


def refuse_sampling_weights(column: str) -> NoReturn:
    """Raise ConfigError for case weights of a sample, which undo how it was drawn.

    A likelihood raised to them is none of the rows: its posterior has the sds of other rows, which no
    certificate of draws sees (Williams and Savitsky 2021, International Statistical Review 89, 72-107).
    """
    raise ConfigError(
        f"--sampling-weights {quoted(column)}: is not offered, because weights that undo how a sample was "
        "drawn are no part of a likelihood, and sds under them are wrong; name what the draw depended on, as "
        f"strata, among the columns that explain the target; --weights {quoted(column)} is for a row that "
        f"stands for so many equal ones, --precision-weights {quoted(column)} for a mean of so many"
    )


def run_name(file: str) -> str:
    """Folder's name for a file: its own, without ending or unusual letters."""
    path = Path(file)
    named = path.parent if has_magic(path.name) else path  # files by a pattern are named for their folder
    stem = re.sub(r"(\.(csv|tsv|txt|npz|parquet|pq|gz))+$", "", named.name, flags=re.IGNORECASE)
    return re.sub(r"[^A-Za-z0-9._+-]+", "_", stem).lstrip(".")[:150] or "fit"


@dataclass(frozen=True)
class TypedTable(Table):
    """The table of `flyrun fit`, whose errors name this command's options. keys: typed as dataset.KEY;
    written: options that a formula says, and no word of the command."""

    keys: tuple[str, ...] = ()
    written: tuple[str, ...] = ()

    def settings(self) -> dict[str, Any]:
        """As in the base class, whatever was typed how."""
        return {key: value for key, value in super().settings().items() if key not in ("keys", "written")}

    def say(self, key: str, value: str | None = None) -> str:
        """An option as it is typed, or was; a column's name joins those of a list."""
        if key in self.keys:
            return super().say(key, value)
        if key in self.written:
            return _WRITTEN[key].replace("COLUMN", value or "COLUMN")
        typed = "rows" if key == "limit" else key
        flag = dashed(typed) if typed in KEYS else ""
        if key != "order" and value is not None and isinstance(there := getattr(self, key, None), tuple):
            value = ",".join(map(listed, [*there, value]))
        if value and value.startswith("--"):
            return f"{flag}={quoted(value)}"
        return " ".join(word for word in (flag, value and quoted(value)) if word)

    def without(self, name: str) -> str:
        """As in the base class, of what a formula names."""
        in_formula = self.role(name) in self.written
        return "name another column in the formula" if in_formula else super().without(name)


def dashed(key: str) -> str:
    """An option as it is typed."""
    return "--" + key.replace("_", "-")
