"""A run's stored cells -> table.csv, table.json, report.md, report.html and figures/."""

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console

from flyrun.experiments.report import figures, settings, summaries
from flyrun.experiments.report.arms import ArmResult, Run
from flyrun.experiments.report.draws import Draws
from flyrun.experiments.report.section import Section, sections, shown
from flyrun.experiments.runner import store
from flyrun.ground import files, run_files
from flyrun.ground.page import document
from flyrun.ground.page.metrics import Row
from flyrun.ground.page.render import View
from flyrun.ground.schema import listing

_NAMED = 4  # arms that a caveat names
SECTIONS = sections()


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


def summarise(folder: Path) -> None:
    """Leave the summary of a cell that has just ended beside its draws, for the reports to come.

    By the sections that its run is for: others may take minutes a cell.
    """
    with contextlib.closing(Draws(store.open_folder(folder))) as draws:
        summaries.of_cell(draws, summaries.served(run_files.read_run(folder.parents[2]), SECTIONS))


class Page:
    """What a run's report says, each part worked out once."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.sections = shown(run, SECTIONS)

    @cached_property
    def table(self) -> pd.DataFrame:
        """A row an arm."""
        return frame(self.run, self.sections)

    @cached_property
    def views(self) -> list[View]:
        """What is shown of the table: in each view the arms that it is about, and those not yet finished."""
        run, rows, made = self.run, self.table.to_dict("records"), []
        for section in self.sections:
            about = {arm.name for arm in run.arms if section.about(arm) or not arm.done}
            made += section.views_of(run, [row for row in rows if section.table or row.get("arm") in about])
        return made

    @cached_property
    def caveats(self) -> list[str]:
        """What a reader must know before trusting a row, arm by arm, then of the run; a sentence each."""
        by_text: dict[str, list[str]] = {}
        for arm in self.run.arms:
            for section in (one for one in self.sections if one.about(arm)):
                for text in section.arm_caveats(self.run, arm):
                    by_text.setdefault(text, []).append(arm.name)
        by_arm = [f"{_shortly(arms)}: {text}" for text, arms in by_text.items()]
        return by_arm + [text for section in self.sections for text in section.caveats(self.run)]

    @cached_property
    def lead(self) -> list[str]:
        """What a run is, a line each."""
        return [line for section in self.sections for line in section.lead(self.run)]

    @cached_property
    def legend(self) -> list[str]:
        """What stands below the tables."""
        return [line for section in self.sections for line in section.legend(self.run)]


def _shortly(arms: list[str]) -> str:
    """The names of arms, of many the first."""
    more = f"{len(arms) - _NAMED} more arms" if len(arms) > _NAMED + 1 else ""
    return listing([*arms[:_NAMED], more] if more else arms)


def build(
    run_dir: Path,
    console: Console | None = None,
    each: Callable[..., Iterable] = map,
    pdf: bool = False,
) -> Report:
    """Write a run's report, and print its tables when a console is given.

    each: does `map`'s work of figures.  pdf: write these as .pdf, too.
    Unfinished, failed and missing cells are marked, never left out. Raises StoreError when there is no run
    in run_dir or the folder cannot be written.
    """
    run_dir = Path(run_dir)
    return write(load(run_dir), run_dir, console, each, pdf)


def write(
    run: Run,
    folder: Path,
    console: Console | None = None,
    each: Callable[..., Iterable] = map,
    pdf: bool = False,
) -> Report:
    """The same of a run that was loaded, to a folder that exists."""
    page = Page(run)
    with files.writing(folder):
        drawn, left_out, against = figures.draw(run, folder, page.sections, each, pdf)
        warnings = [*page.caveats, *left_out]
        text = document.compose(
            run.info,
            run.infos,
            lead=page.lead,
            views=page.views,
            caveats=warnings,
            legend=page.legend,
            figures=drawn,
            settings={arm.name: arm.infos[0].get("settings", {}) for arm in run.done},
            table_of_settings=settings.table(run),
        )
        states = {arm.name: arm.states for arm in run.arms}
        messages = {arm.name: arm.messages for arm in run.arms if arm.messages}
        written = document.write(
            text, folder, run.info, page.table, source=run.source, states=states, messages=messages
        )
    kinds = ("png", "svg", "pdf")[: 2 + pdf]
    written += [folder / "figures" / f"{name}.{kind}" for name in drawn for kind in kinds]
    complete = all(arm.done == arm.wanted for arm in run.arms)
    made = Report(page.table, tuple(written), tuple(warnings), complete, text, tuple(against))
    if console is not None:
        document.show(text, folder, console)
    return made


def frame(run: Run, sections: list[Section]) -> pd.DataFrame:
    """The table of these sections, arms in the run's order; whole numbers, numbers or text by column.

    Where an arm lacks what a column tells there is NaN, or nothing. `note` is what all of them say.
    """
    own = next((section.table for section in sections if section.table), None)
    rows = own(run) if own else [_row(run, arm, sections) for arm in run.arms]
    metrics = (one for section in sections for one in section.metrics_of(run))
    columns = dict.fromkeys(name for one in metrics for name in one.columns)
    table = pd.DataFrame(rows, columns=list(columns), dtype=object)
    return table if own else table.apply(_typed)


def _row(run: Run, arm: ArmResult, sections: list[Section]) -> Row:
    parts = [section.cells_of(run, arm) for section in sections]
    row = {name: value for part in parts for name, value in part.items()}
    return row | {"note": "; ".join(part["note"] for part in parts if part.get("note"))}


def _typed(column: pd.Series) -> pd.Series:
    known = [value for value in column if value is not None and value == value]
    if not all(isinstance(value, int | float | np.number) and not isinstance(value, bool) for value in known):
        return column
    whole = known and all(isinstance(value, int | np.integer) for value in known)
    return column.astype("Int64" if whole else float)
