"""A published table as a whole: the runs of all its experiments, ours beside the paper's.

results/reference/<name>.json says which experiments and arms it has; each run is looked for under the
experiment's name. What was not run, or not to its end, is a row too. Under each experiment come the arms
of its run that the paper does not have.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console
from rich.text import Text

from flyrun import files, paths
from flyrun.config.schema import did_you_mean, listing
from flyrun.errors import ConfigError, StoreError
from flyrun.report import document, render
from flyrun.report.arms import Run
from flyrun.report.build import caveats, frame, lead, legend, load
from flyrun.report.render import View, escape_markdown, markdown
from flyrun.report.sections import paper

# Of the environment, what a row of the CSV tells beside the numbers.
_ORIGIN = ("finished", "cpu", "cores", "flyrun", "commit", "python", "numpy", "numba")


@dataclass(frozen=True)
class PublishedTable:
    """A whole table. complete: every arm of every experiment has all its seeds."""

    table: pd.DataFrame
    files: tuple[Path, ...]
    complete: bool


def build(
    name: str, results_dir: Path, out: Path | None = None, console: Console | None = None
) -> PublishedTable:
    """Gather the published table `name`; write <out>.md and <out>.csv; print it when a console is given.

    Raises ConfigError when there is no such table, StoreError when the files cannot be written.
    """
    published = _published(name)
    runs = {key: _load(results_dir / "runs" / key) for key in published if key != "source"}
    frames = [_rows(key, run, published[key]) for key, run in runs.items()]
    # A column that is empty in one frame has no type to agree on.
    table = pd.concat([frame.astype(object) for frame in frames], ignore_index=True)
    views = paper.views_of_several(table)
    remarks = _remarks(runs, table)
    files = []
    if out is not None:
        text = _markdown(str(published.get("source", name)), name, views, remarks, runs)
        files = _write(out, {".md": text, ".csv": table.to_csv(index=False)})
    if console is not None:
        _print(console, str(published.get("source", name)), views, remarks, files)
    complete = bool((table["seeds"] == table["seeds_wanted"]).all())
    return PublishedTable(table, tuple(files), complete)


def _published(name: str) -> dict[str, Any]:
    path = paths.reference_dir() / f"{name}.json"
    if name not in paths.references():
        raise ConfigError(
            f"table {name}: no such table{did_you_mean(name, paths.references())}; "
            f"choose from {listing(paths.references())}"
        )
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"table {name}: {path} cannot be read ({error}); restore it") from error


def _load(run_dir: Path) -> Run | None:
    try:
        return load(run_dir)
    except StoreError:
        if (run_dir / "run.json").exists():
            raise
        return None


def _rows(experiment: str, run: Run | None, published: dict[str, dict[str, float]]) -> pd.DataFrame:
    """The published arms' rows, the paper's values and a note where there are none; then the run's others."""
    table = frame(run or Run({}, (), ""))
    found = {row["arm"]: row for row in table.to_dict("records")}
    origin = {} if run is None else document.environment(run)
    rows = []
    for arm in [*published, *(name for name in found if name not in published)]:
        row = found.get(arm) or {
            "experiment": experiment,
            "arm": arm,
            "seeds": 0,
            "note": f"not run; flyrun experiment={experiment}",
            **{f"paper_{key}": value for key, value in published[arm].items()},
        }
        row = {**row, "beyond_paper": arm not in published}
        rows.append({**row, **({key: origin.get(key) for key in _ORIGIN} if row["seeds"] else {})})
    return pd.DataFrame(rows, columns=[*table.columns, "beyond_paper", *_ORIGIN])


def _remarks(runs: dict[str, Run | None], table: pd.DataFrame) -> list[str]:
    """What is missing, and every run's caveats."""
    found = []
    for key, run in runs.items():
        if run is None:
            found.append(f"{key} is not run yet: flyrun experiment={key}.")
            continue
        absent = table.loc[(table["experiment"] == key) & (table["seeds"] == 0), "arm"]
        found += [f"{key}, {arm}: this run has no finished seed of it." for arm in absent]
        found += [f"{key}, {text}" for text in caveats(run)]
    return found


def _markdown(source: str, name: str, views: list, remarks: list[str], runs: dict[str, Run | None]) -> str:
    begun = {key: run for key, run in runs.items() if run is not None}
    lines = [f"# {escape_markdown(source)}, ours beside the paper's", ""]
    lines += [markdown(view) for view in views]
    for key, run in begun.items():
        about = lead(run)[1 if run.info.get("paper") else 0 :]
        lines += [escape_markdown(f"{key}: {' '.join(about)}"), ""]
    for line in dict.fromkeys(line for run in begun.values() for line in legend(run)):
        lines += [escape_markdown(line), ""]
    if remarks:
        lines += ["Before trusting these numbers:", ""]
        lines += [f"- {escape_markdown(text)}" for text in remarks] + [""]
    origins = {key: document.environment(run) for key, run in begun.items()}
    keys = list(dict.fromkeys(key for origin in origins.values() for key in origin))
    rows = tuple((key, *(origin.get(key, "-") for origin in origins.values())) for key in keys)
    if rows:
        lines += [markdown(View("Made with", ("", *origins), rows))]
    return "\n".join([*lines, escape_markdown(f"Again, without sampling: flyrun table {name}"), ""])


def _write(out: Path, texts: dict[str, str]) -> list[Path]:
    paths = [out.with_name(out.name + kind) for kind in texts]
    with files.writing(out):
        files.make_folder(out.parent)
        for path, text in zip(paths, texts.values(), strict=True):
            files.write_text(path, text)
    return paths


def _print(console: Console, title: str, views: list, remarks: list[str], files: list[Path]) -> None:
    console.print(Text(title, style="bold"), soft_wrap=True)
    render.print_views(console, views)
    render.print_caveats(console, remarks)
    for path in files:
        console.print(Text(f"wrote {path}"), soft_wrap=True)
