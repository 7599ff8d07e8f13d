"""A run's stored cells -> table.csv, table.json, report.md, report.html and figures/."""

import contextlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from rich.console import Console

from flyrun import files
from flyrun.config.schema import listing
from flyrun.report import document, figures, html, summaries, table
from flyrun.report.arms import Run
from flyrun.report.draws import Draws
from flyrun.report.render import View
from flyrun.report.section import Section, import_section, served, shown
from flyrun.runner import store

_NAMED = 4  # arms that a caveat names
_PARTS = (
    "arms arena coefficients paper ess chains cost prefetching marginal_error long_run scaling shards "
    "accuracy weights density certificates held_out quadrature prediction functionals hogwild"
)
SECTIONS: tuple[Section, ...] = tuple(map(import_section, _PARTS.split()))


@dataclass(frozen=True)
class ReportResult:
    """What was built. complete: every wanted cell is finished."""

    table: pd.DataFrame
    files: tuple[Path, ...]
    warnings: tuple[str, ...]
    complete: bool


@dataclass(frozen=True)
class Report(ReportResult):
    """Of a run, with what it says, and what speaks against publishing its figures."""

    text: document.Document
    faults: tuple[str, ...]


def load(run_dir: Path) -> Run:
    """A run with what the sections need of its cells; raises StoreError without a run.json."""
    return summaries.load(Path(run_dir), SECTIONS)


def summarise(folder: Path, **info: object) -> None:
    """Leave the summary of a cell that has just ended beside its draws, for the reports to come.

    info: what its run.json will say, where that decides what is reported.
    """
    with contextlib.closing(Draws(store.open_folder(folder))) as draws:
        summaries.of_cell(draws, served(info, SECTIONS) if info else SECTIONS)


def frame(run: Run) -> pd.DataFrame:
    """The table of a run."""
    return table.frame(run, shown(run, SECTIONS))


def views(run: Run, whole: pd.DataFrame) -> list[View]:
    """What is shown of a run's table: in each view the arms that it is about, and those not yet finished."""
    rows = whole.to_dict("records")
    made = []
    for section in shown(run, SECTIONS):
        about = {arm.name for arm in run.arms if section.about(arm) or not arm.done}
        made += section.views_of(run, [row for row in rows if section.table or row.get("arm") in about])
    return made


def caveats(run: Run) -> list[str]:
    """What a reader must know before trusting a row, arm by arm, then of the run; a sentence each."""
    parts = shown(run, SECTIONS)
    about = [(arm, section) for arm in run.arms for section in parts if section.about(arm)]
    by_text: dict[str, list[str]] = {}
    for arm, section in about:
        for text in section.arm_caveats(run, arm):
            by_text.setdefault(text, []).append(arm.name)
    by_arm = [f"{_shortly(arms)}: {text}" for text, arms in by_text.items()]
    return by_arm + [text for section in parts for text in section.caveats(run)]


def _shortly(arms: list[str]) -> str:
    """The names of arms, of many the first."""
    more = f"{len(arms) - _NAMED} more arms" if len(arms) > _NAMED + 1 else ""
    return listing([*arms[:_NAMED], more] if more else arms)


def lead(run: Run) -> list[str]:
    """What a run is, a line each."""
    return [line for section in shown(run, SECTIONS) for line in section.lead(run)]


def legend(run: Run) -> list[str]:
    """What the tables' columns mean."""
    return [line for section in shown(run, SECTIONS) for line in section.legend(run)]


def build(run_dir: Path, console: Console | None = None, each: Callable[..., Iterable] = map) -> Report:
    """Write a run's report, and print its tables when a console is given. each: does `map`'s work of figures.

    Unfinished, failed and missing cells are marked, never left out. Raises StoreError when there is no run
    in run_dir or the folder cannot be written.
    """
    run_dir = Path(run_dir)
    return write(load(run_dir), run_dir, console, each)


def write(
    run: Run, folder: Path, console: Console | None = None, each: Callable[..., Iterable] = map
) -> Report:
    """The same of a run that was loaded, to a folder that exists."""
    whole, warnings = frame(run), caveats(run)
    with files.writing(folder):
        drawn, left_out, against = figures.draw(run, folder, shown(run, SECTIONS), each)
        warnings += left_out
        text = document.compose(
            run, lead=lead(run), views=views(run, whole), caveats=warnings, legend=legend(run), figures=drawn
        )
        texts = {
            "table.csv": whole.to_csv(index=False),
            "table.json": _as_json(run, whole, text),
            "report.md": document.as_markdown(text),
            "report.html": html.page(text),
        }
        for name, content in texts.items():
            files.write_text(folder / name, content)
    written = [folder / name for name in texts]
    written += [folder / "figures" / f"{name}.{kind}" for name in drawn for kind in ("png", "svg")]
    complete = all(arm.done == arm.wanted for arm in run.arms)
    made = Report(whole, tuple(written), tuple(warnings), complete, text, tuple(against))
    if console is not None:
        document.show(text, folder, console)
    return made


def _as_json(run: Run, whole: pd.DataFrame, text: document.Document) -> str:
    rows = [{key: table.plain(value) for key, value in row.items()} for row in whole.to_dict("records")]
    keys = ("name", "experiment", "title", "paper", "reference", "reference_name", "command", "started")
    meta = {
        **{key: run.info.get(key) for key in keys},
        "source": run.source,
        "environment": text.environment,
        "warnings": text.caveats,
        "states": {arm.name: arm.states for arm in run.arms},
        "messages": {arm.name: arm.messages for arm in run.arms if arm.messages},
    }
    return json.dumps({"rows": rows, "meta": meta}, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
