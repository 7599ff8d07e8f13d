"""What `flyrun compare` compares: rows of a run, of a published table, or of all that a commit holds."""

import csv
import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from flyrun.experiments.check.against import run_there
from flyrun.experiments.compare import commits
from flyrun.experiments.report.arms import ArmResult, Run
from flyrun.experiments.report.build import Page, load
from flyrun.experiments.runner import store
from flyrun.ground.errors import StoreError
from flyrun.ground.page import document
from flyrun.ground.schema import listing

TABLES = ("table.json", "table.csv")
_ORIGIN = ("cpu", "cores", "commit", "numpy", "numba")

#: names of columns in tables that were published before they were renamed -> those of now
ALIASES = {
    "sd_mean": "sd_ratio", "sd_least": "sd_ratio_least", "sd_most": "sd_ratio_most",
    "off_reference": "truth", "off_floor": "truth_error", "off_floor_worst": "truth_error_worst",
    "off_exact": "off", "off_exact_sd": "off_sd",
}  # fmt: skip

Arm = tuple[str, str]
"""Experiment and name of an arm."""
Rows = dict[Arm, dict[str, Any]]
"""Columns of a table by arm."""


@dataclass(frozen=True)
class Side:
    """One of the two. rows: arms without a finished seed too.

    problems: dataset, model and prior as they were set, where that is known.
    origin: machine and versions, where known.  repeats: rows of further runs of the same, for their seconds.
    run: what it was read from, where that is a run.
    """

    place: Path | str
    rows: Rows
    problems: dict[Arm, Any] = field(default_factory=dict)
    origin: dict[str, str] = field(default_factory=dict)
    repeats: tuple[Rows, ...] = ()
    run: Run | None = None

    @cached_property
    def streams(self) -> dict[Arm, Any]:
        """What an arm's random numbers are keyed by besides the seed: its settings but the protocol."""
        info = self.run.info if self.run else {"arms": ()}
        each = {(_experiment(info), arm["name"]): arm.get("settings") or {} for arm in info["arms"]}
        return {
            arm: {group: value for group, value in settings.items() if group != "protocol"}
            for arm, settings in each.items()
        }

    def by_seed(self, arm: Arm, metric: str) -> dict[int, float]:
        """A metric of a run's arm, seed by seed, as a table of that seed alone has it."""
        tables = {seed: rows.get(arm, {}).get(metric) for seed, rows in self._tables.items()}
        return {seed: value for seed, value in tables.items() if value is not None}

    @cached_property
    def _tables(self) -> dict[int, Rows]:
        if self.run is None:
            return {}
        seeds = dict.fromkeys(info["seed"] for arm in self.run.arms for info in arm.infos)
        runs = {
            seed: replace(self.run, arms=tuple(_alone(arm, seed) for arm in self.run.arms)) for seed in seeds
        }
        return {seed: _rows(Page(run).table.to_dict("records"), "") for seed, run in runs.items()}

    def _each(self, arm: Arm) -> list[dict[str, Any]]:
        return [rows[arm] for rows in (self.rows, *self.repeats) if arm in rows]

    def over_runs(self, arm: Arm, metric: str) -> list[float]:
        """A metric by run; a copy of a run, equal in every digit, counts once."""
        return list(dict.fromkeys(row[metric] for row in self._each(arm) if row.get(metric) is not None))

    def cpus(self, arm: Arm) -> set[str | None]:
        """Processors of the arm's runs; None among them where one is not known."""
        return {row.get("cpu") for row in self._each(arm)}


def _alone(arm: ArmResult, seed: int) -> ArmResult:
    """An arm with the cells of one seed."""
    kept = [place for place, info in enumerate(arm.infos) if info["seed"] == seed]
    infos, cells = tuple(arm.infos[place] for place in kept), tuple(arm.cells[place] for place in kept)
    return replace(arm, infos=infos, cells=cells, wanted=len(kept))


def _experiment(info: dict[str, Any]) -> str:
    return str(info.get("experiment") or info.get("name"))


def read(wanted: str, results_dir: str) -> Side:
    """Find and read what a side names: one run, table or commit, or several of the same, as in "a,again".

    Counts and draws are the first's; further ones tell how seconds vary between runs. Raises StoreError where
    one is none of these, or damaged.
    """
    whole = Path(wanted).expanduser().exists()
    first, *others = (_read(name, results_dir) for name in ([wanted] if whole else wanted.split(",")))
    place = ", ".join(str(side.place) for side in (first, *others))
    return replace(first, place=place, repeats=tuple(side.rows for side in others))


def _read(wanted: str, results_dir: str) -> Side:
    """Find and read a run (name or folder), a table (file, folder, name in results/measured) or a commit.

    A commit is any revision that git knows: it stands for all tables under results/measured as of then, and
    REVISION:NAME for one of them. Raises StoreError where there is none, or it is damaged.
    """
    results = Path(results_dir).expanduser()
    given = Path(wanted).expanduser()
    for place in (results / "runs" / wanted, given, results / "measured" / wanted):
        if (place / "run.json").is_file():
            return read_run(place)
        for table in (place / name for name in TABLES):
            if table.is_file():
                return _table(table)
    for file in (given, results / "measured" / f"{wanted}.csv"):
        if file.is_file():
            return _table(file)
    try:
        return _commit(commits.read(wanted, results / "measured"))
    except commits.NoRevisionError as error:
        runs = store.runs(results_dir)
        known = f"runs there are: {listing(runs)}" if runs else f"there is no run under {results / 'runs'}"
        raise StoreError(
            f"compare {wanted}: is neither a run nor a table, {error}; {known}; "
            "a folder with run.json, table.json or table.csv does too"
        ) from None


def read_run(folder: Path) -> Side:
    """A run's side. Raises StoreError where there is none, or it is damaged."""
    run = load(folder)
    experiment = _experiment(run.info)
    problems = {(experiment, arm["name"]): arm.get("problem") for arm in run.info["arms"]}
    rows = _rows(Page(run).table.to_dict("records"), folder)
    for arm in run.done:
        cpus = {info.get("environment", {}).get("cpu") for info in arm.infos}
        rows[experiment, arm.name].setdefault("cpu", cpus.pop() if len(cpus) == 1 else None)
    return Side(folder, rows, problems, document.environment(run.infos), run=run)


def _table(file: Path) -> Side:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(str(file), error) from error
    rows, origin = parsed(text, file.suffix, str(file))
    return Side(file, rows, {}, origin)


def _commit(committed: commits.Committed) -> Side:
    """All tables of a commit as one side; of what they say of their origin, what all say alike."""
    rows: Rows = {}
    origins = []
    for path, text in committed.tables.items():
        table, origin = parsed(text, Path(path).suffix, f"{path} in {committed.name}")
        rows |= table
        origins.append(origin)
    shared = {key: value for key, value in origins[0].items() if all(o.get(key) == value for o in origins)}
    return Side(committed.name, rows, {}, shared)


@contextmanager
def at_commit(folder: Path, revision: str, package: str | None, workers: int) -> Iterator[tuple[Side, Side]]:
    """A run as a commit's code makes it on this machine, and the run itself; raises as `run_there`."""
    with run_there(folder, revision, package, workers) as again:
        yield replace(read_run(again), place=f"{folder.name} by commit {revision}"), read_run(folder)


def parsed(text: str, suffix: str, place: str) -> tuple[Rows, dict[str, str]]:
    """(rows, origin) of the text of a .json or .csv table. Raises StoreError where it is none."""
    try:
        if suffix == ".json":
            stored = json.loads(text)
            records, origin = stored["rows"], dict(stored.get("meta", {}).get("environment") or {})
        else:
            records = list(csv.DictReader(text.splitlines()))
            first = records[0] if records else {}
            origin = {key: first[key] for key in _ORIGIN if first.get(key)}
        rows = _rows(records, place)
        for row in rows.values():
            row.setdefault("cpu", origin.get("cpu"))
    except (ValueError, KeyError, TypeError, AttributeError, csv.Error) as error:
        raise _unreadable(place, error) from error
    if not rows:
        raise StoreError(f"{place}: has no row; build it again with `flyrun report`")
    return rows, origin


def _unreadable(place: str, error: Exception) -> StoreError:
    return StoreError(
        f"{place}: cannot be read as a table of flyrun ({type(error).__name__}: {error}); "
        "name a run, or a table.csv or table.json that `flyrun report` wrote"
    )


def _rows(records: list[dict[str, Any]], place: Path | str) -> Rows:
    rows: Rows = {}
    for record in records:
        if not record.get("arm"):
            raise StoreError(f"{place}: has no column arm; name a table.csv or table.json of flyrun")
        arm = str(record.get("experiment")), str(record["arm"])
        row = {str(key): _value(value) for key, value in record.items()}
        rows[arm] = row | {
            new: row[old] for old, new in ALIASES.items() if row.get(old) is not None and row.get(new) is None
        }
    return rows


def _value(value: Any) -> Any:
    """A number where it is one, None for nothing."""
    if value is None or value == "" or isinstance(value, bool):
        return None if value == "" else value
    try:
        number = float(value)
    except (TypeError, ValueError):
        return value if isinstance(value, str) else None
    return None if math.isnan(number) else number
