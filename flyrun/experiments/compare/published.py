"""A published table as a whole: the runs of all its experiments, ours beside the paper's.

results/reference/<name>.json says which experiments and arms it has; each run is looked for under the
experiment's name. What was not run, or not to its end, is a row too. Under each experiment come the arms
of its run that the paper does not have.
"""

import json
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console
from rich.text import Text

from flyrun.experiments.report.arms import Run
from flyrun.experiments.report.build import Page, ReportResult, load
from flyrun.experiments.report.sections import paper
from flyrun.experiments.runner.store import read_chains
from flyrun.ground import files, paths
from flyrun.ground.errors import ConfigError, StoreError
from flyrun.ground.page import document, latex, render, words
from flyrun.ground.page.render import View
from flyrun.ground.schema import did_you_mean, listing

_ABOUT = ("source", "settings")  # what is no experiment there
# Of the environment, what a row of the CSV tells beside the numbers.
_ORIGIN = ("finished", "cpu", "cores", "flyrun", "commit", "python", "numpy", "numba")


def build(
    name: str,
    results_dir: Path,
    out: Path | None = None,
    console: Console | None = None,
    as_latex: bool = False,
) -> ReportResult:
    """Gather the published table `name`; write <out>.md and <out>.csv; print it when a console is given.

    as_latex: print LaTeX, and write <out>.tex too.
    Raises ConfigError when there is no such table, StoreError when the files cannot be written.
    """
    published = _published(name)
    runs = {key: _load(results_dir / "runs" / key) for key in published if key not in _ABOUT}
    frames = [_rows(key, run, published[key]) for key, run in runs.items()]
    # A column that is empty in one frame has no type to agree on.
    table = pd.concat([frame.astype(object) for frame in frames], ignore_index=True)
    views = paper.views_of_several(table)
    remarks = _remarks(runs, table)
    source = str(published.get("source", name))
    texts = {".md": _markdown(source, name, views, remarks, runs), ".csv": table.to_csv(index=False)}
    written = _given_out((source, views, remarks), name, texts, out, console, as_latex)
    complete = bool((table["seeds"] == table["seeds_wanted"]).all())
    return ReportResult(table, tuple(written), tuple(remarks), complete)


def of_run(run_dir: Path, out: Path | None, console: Console, as_latex: bool) -> None:
    """Print a run's tables, and write them, as `build` does. Raises StoreError where it is none, or a fit."""
    title = str(read_chains(run_dir).get("title") or run_dir.name)
    page = Page(load(run_dir))
    lines = [f"# {render.escape_markdown(title)}", "", *map(render.markdown, page.views)]
    lines += [f"- {render.escape_markdown(text)}" for text in page.caveats]
    texts = {".md": "\n".join([*lines, ""]), ".csv": page.table.to_csv(index=False)}
    remarks = page.caveats + page.legend * as_latex
    _given_out((title, page.views, remarks), run_dir.name, texts, out, console, as_latex)


def _given_out(
    page: tuple[str, list[View], list[str]],
    name: str,
    texts: dict[str, str],
    out: Path | None,
    console: Console | None,
    as_latex: bool,
) -> list[Path]:
    """Print a page, or its LaTeX, and write it; page: title, tables and remarks. Returns the files."""
    title, views, remarks = page
    if as_latex:
        texts = texts | {".tex": latex.tables(views, name, [title, *remarks])}
    written = _write(out, texts) if out is not None else []
    if console is not None:
        if as_latex:
            console.print(Text(texts[".tex"]), soft_wrap=True, end="")
        else:
            render.print_page(console, title, views, remarks)
        for path in written:
            console.print(Text(f"{'% ' * as_latex}wrote {path}"), soft_wrap=True)
    return written


def _published(name: str) -> dict[str, Any]:
    if name not in (known := paths.references()):
        raise ConfigError(
            f"table {name}: no such table{did_you_mean(name, known)}; choose from {listing(known)}"
        )
    path = paths.reference_dir() / f"{name}.json"
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
    table = Page(run or Run({}, (), "")).table
    ours = {row["arm"]: row for row in table.to_dict("records")}
    origin = {} if run is None else document.environment(run.infos)
    rows = []
    for arm in [*published, *(name for name in ours if name not in published)]:
        row = ours.get(arm) or {
            "experiment": experiment,
            "arm": arm,
            "seeds": 0,
            "note": f"not run; flyrun experiment={experiment}",
            **{f"paper_{key}": value for key, value in published[arm].items()},
        }
        rows.append(row | {"beyond_paper": arm not in published})
        if row["seeds"]:
            rows[-1] |= {key: origin.get(key) for key in _ORIGIN}
    return pd.DataFrame(rows, columns=[*table.columns, "beyond_paper", *_ORIGIN])


def _remarks(runs: dict[str, Run | None], table: pd.DataFrame) -> list[str]:
    """What is missing, and every run's caveats."""
    remarks = []
    for key, run in runs.items():
        if run is None:
            remarks.append(f"{key} is not run yet: `flyrun experiment={key}`.")
            continue
        absent = table.loc[(table["experiment"] == key) & (table["seeds"] == 0), "arm"]
        remarks += [f"{key}, {arm}: this run has no finished seed of it." for arm in absent]
        remarks += [f"{key}, {text}" for text in Page(run).caveats]
    return remarks


def _markdown(source: str, name: str, views: list, remarks: list[str], runs: dict[str, Run | None]) -> str:
    begun = {key: run for key, run in runs.items() if run is not None}
    about = {key: Page(run).lead[1 if run.info.get("paper") else 0 :] for key, run in begun.items()}
    origins = {key: document.environment(run.infos) for key, run in begun.items()}
    keys = dict.fromkeys(key for origin in origins.values() for key in origin)
    rows = tuple((key, *(origin.get(key, "-") for origin in origins.values())) for key in keys)
    values = {
        "lead": [f"{key}: {' '.join(lines)}" for key, lines in about.items()],
        "legend": dict.fromkeys(line for run in begun.values() for line in Page(run).legend),
        "origins": [View("Made with", ("", *origins), rows)] if rows else [],
    }
    return words.fill("published.md", source=source, name=name, views=views, remarks=remarks, **values) + "\n"


def _write(out: Path, texts: dict[str, str]) -> list[Path]:
    written = {out.with_name(out.name + kind): text for kind, text in texts.items()}
    with files.writing(out):
        files.make_folder(out.parent)
        for path, text in written.items():
            files.write_text(path, text)
    return list(written)
