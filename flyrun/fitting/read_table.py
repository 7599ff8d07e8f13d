"""A person's table as `flyrun fit` reads it, and what it says of it."""

import re
from dataclasses import replace
from glob import has_magic
from pathlib import Path
from typing import Any, NamedTuple

import flyrun.data
from flyrun.config.dataset import Table
from flyrun.config.model import for_tables
from flyrun.config.schema import build, quoted, schema
from flyrun.data.dataset import Dataset
from flyrun.data.table.layout import Column, Layout, plain
from flyrun.errors import ConfigError
from flyrun.fitting import priors
from flyrun.fitting.request import Request, TypedTable
from flyrun.fitting.scan import table_files
from flyrun.report import summaries
from flyrun.runner import store

MOST_SHOWN = 12  # columns that a fit says a line of, and levels that are named


class ReadTable(NamedTuple):
    """A table under the options that name it, the rows that were read, and what they mean."""

    table: Table
    dataset: Dataset
    layout: Layout


def read(request: Request) -> ReadTable:
    """Load the table of a request. Raises DataError or ConfigError in one line."""
    table = typed_table(request)
    dataset = flyrun.data.load(table)
    layout = Layout.from_dict(dataset.info["layout"])
    # all that follows reads the same
    return ReadTable(replace(table, task=dataset.task, sha256=dataset.sha256), dataset, layout)


def look(request: Request) -> list[str]:
    """What a table holds and what its columns are taken for. Raises DataError or ConfigError in one line."""
    if table_files.several(request.file):
        first = table_files.find(request.file).files[0].path
        raise ConfigError(
            f"--check: looks at one file, and {request.file} names several; name one, as {quoted(first)}"
        )
    found = read(request)
    told = priors.lines(priors_of(request, found.layout).table)
    words = f"for {model_of(request, found.layout.task)}; --check fits nothing"
    return [*shape(found.table, found.layout), *taken(found.layout), *told, words]


def priors_of(request: Request, layout: Layout) -> priors.Priors:
    """The priors of a table's coefficients. Raises ConfigError for one of a term that there is not."""
    return priors.priors(layout, request.priors, request.prior_scale, intercept=layout.task != "ordered")


def typed_table(request: Request) -> TypedTable:
    """What the options and the typed keys say of the table. Raises ConfigError where they do not agree."""
    given: dict[str, Any] = {"path": request.file, "target": request.target, **request.table}
    typed = {one.key: one for one in typed_words(request)}
    for key in ("dataset", "dataset.name"):
        if key in typed:
            raise ConfigError(f"{typed[key].text}: fit reads the table {request.file}; leave this out")
    model = request.model or (typed["model"].value if "model" in typed else None)
    if model in for_tables():
        given["task"] = schema("model", model).task  # type: ignore[attr-defined]
    values = {key.partition(".")[2]: one.value for key, one in typed.items() if one.group == "dataset"}
    checked = build("dataset", {"name": "table", **values})
    for key in values:
        if key in given and getattr(checked, key) != given[key]:
            other = {"path": request.file, "task": f"--model {model}"}
            option = other.get(key, TypedTable().say(key))
            raise ConfigError(f"fit: {option} and {typed[f'dataset.{key}'].text} disagree; keep one of them")
    return TypedTable(**{**values, **given, "keys": tuple(key for key in values if key not in given)})


def typed_words(request: Request) -> list[Any]:
    """The settings that are typed, entries of config/overrides."""
    if not request.overrides:
        return []
    from flyrun.config.overrides import read  # late: Hydra, which few fits need

    return read(request.overrides)


def run_name(file: str) -> str:
    """Folder's name for a file: its own, without ending or unusual letters."""
    path = Path(file)
    named = path.parent if has_magic(path.name) else path  # files by a pattern are named for their folder
    stem = re.sub(r"(\.(csv|tsv|txt|npz|parquet|pq|gz))+$", "", named.name, flags=re.IGNORECASE)
    return re.sub(r"[^A-Za-z0-9._+-]+", "_", stem).lstrip(".")[:150] or "fit"


def model_of(request: Request, task: str) -> str:
    """The model that was asked for, or else the usual one of a task."""
    typed = next((str(one.value) for one in typed_words(request) if one.key == "model"), None)
    usual = "gaussian" if request.groups and task == "regression" else for_tables(task)[0]
    return request.model or typed or usual


def asks_for_chains(request: Request) -> bool:
    """Whether a setting of chains is typed."""
    return any(not word.startswith("dataset.") for word in request.overrides)


def folder_of(request: Request) -> Path:
    """Where a run's files go."""
    name = request.name if request.name is not None else run_name(request.file)
    return Path(request.results_dir).expanduser() / "runs" / name


def settings_of(request: Request, read: ReadTable, model: str) -> dict[str, Any]:
    """What tells one fit from another: table, model and prior, as JSON gives it back."""
    told = read.table.settings() | {"sha256": read.table.sha256}
    own = [str(one) for one in request.priors]
    found = {"dataset": told, "model": model, "prior_scale": request.prior_scale, "prior": own}
    return found | ({"groups": [str(bar) for bar in request.groups]} if request.groups else {})


def refuse_to_replace(folder: Path, settings: dict[str, Any]) -> None:
    """Raise ConfigError where a fit of other settings is in the folder."""
    before = summaries.read_fit(folder).get("settings")
    if before and (changes := store.changes(before, settings)):
        raise ConfigError(
            f"{folder}: holds finished results with other settings ({changes}); "
            f"--name {store.free_name(folder)} keeps both, --fresh replaces them"
        )


def shape(table: Table, layout: Layout) -> list[str]:
    """How large a table is, and what was left out."""
    lost = f" ({layout.dropped:,} dropped for missing values)" if layout.dropped else ""
    lost += f", standing for {layout.copies:,.0f}" if layout.copies != layout.rows else ""
    columns = f"{len(layout.columns)} columns, {len(layout.names)} coefficients"
    shape = f"{layout.rows:,} rows{lost}, {columns if layout.features else 'no columns, the intercept alone'}"
    shape += " a class" if layout.task == "classes" else ""
    return [f"{Path(str(table.path)).name}: {shape}", *left_out(layout)]


def left_out(layout: Layout) -> list[str]:
    """Which columns were left out for they count the rows."""
    names = ", ".join(layout.row_numbers)
    return [f"left out: {names}, without a name and counting the rows"] if names else []


def taken(layout: Layout, most: int | None = None) -> list[str]:
    """What each column was taken for, the target first; features in at most so many lines."""
    columns = [layout.target, *layout.columns]
    shown = columns if most is None or len(columns) <= most else columns[: most - 1]
    lines = [_taken(one) + (" (the target)" if one is layout.target else "") for one in shown]
    lines[1:1] = [f"{_taken(one)} (the {role}, no feature)" for role, one in layout.beside.items()]
    if more := len(columns) - len(shown):
        lines.append(f"  and {more:,} more columns, which --check shows")
    return lines


def _taken(column: Column) -> str:
    if column.levels is None:
        return f"  {column.name}: number {plain(column.low)} … {plain(column.high)}"
    first, *others = column.levels
    more = f" and {len(others) - MOST_SHOWN:,} more" if len(others) > MOST_SHOWN else ""
    return f"  {column.name}: {first} (the reference), {', '.join(others[:MOST_SHOWN])}{more}"
