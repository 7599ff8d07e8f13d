"""A part of a report: what it reads of cells, its metrics, tables, figures and words, in one file each."""

import functools
import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from flyrun.experiments.report import metrics as columns
from flyrun.experiments.report.arms import ArmResult, Run
from flyrun.experiments.report.draws import Draws
from flyrun.ground.page.metrics import Metric, Row
from flyrun.ground.page.render import View

#: plot(arms, styles, title) returns a matplotlib Figure, or None for nothing; its docstring's first paragraph
#: is the figure's caption
Plot = Callable[..., Any]


def no_row(*_: object) -> Row:
    """Nothing is known of an arm."""
    return {}


def _no_lines(*_: object) -> list:
    return []


@dataclass(frozen=True)
class Section:
    """One part. It is about the arms whose cells have what it `reads`, and is shown where there is one.

    place: where it stands on the page. What answers an experiment's question comes first (10 to 150), then
    what weights, chains and the paper's figures are (160 to 220), diagnostics last.
    summarise: of a cell's Draws, what to keep of it, by name, for JSON; {} where it lacks what is read.
    pool: the same of all finished cells of an arm together.  code: modules whose edit changes what these
    give, with the section's own.
    metrics: its columns of table.csv, in their order, or what names them for a run.  row: values for an arm
    that no metric gives by itself.  planned: of an arm without a finished seed; with it the section is shown
    while no arm has one.  table: rows that stand for the whole table, where it has none for the arms.
    title: of its one table, of the metrics that have a heading; views: of several, from rows of the table.
    by_sweep: figures with a line for all arms of a sweep; others draw a few arms, a line each.
    caveats, arm_caveats: sentences.  lead, legend: lines above and below.
    when: a further condition to be shown.  only: what of run.json must be so for it to be worked out at all.
    inputs: digest of the files, besides draws, that pool reads, by the folder of a cell.  replaces: sections
    that are not shown where this one is.
    """

    name: str
    place: int = 155
    reads: tuple[str, ...] = ()
    summarise: Callable[[Draws], Row] | None = None
    pool: Callable[[list[Draws]], Row] | None = None
    code: tuple[str, ...] = ()
    metrics: Sequence[Metric] | Callable[[Run], Sequence[Metric]] = ()
    title: str = ""
    row: Callable[[Run, ArmResult], Row] = no_row
    planned: Callable[[Run, ArmResult], Row] | None = None
    table: Callable[[Run], list[Row]] | None = None
    views: Callable[[list[Row]], list[View]] | None = None
    figures: dict[str, Plot] = field(default_factory=dict)
    by_sweep: tuple[str, ...] = ()
    lead: Callable[[Run], list[str]] = _no_lines
    legend: Callable[[Run], list[str]] = _no_lines
    arm_caveats: Callable[[Run, ArmResult], list[str]] = _no_lines
    caveats: Callable[[Run], list[str]] = _no_lines
    when: Callable[[Run], bool] = lambda run: True
    only: str = ""
    inputs: Callable[[Path], str] = lambda cell: ""
    replaces: tuple[str, ...] = ()

    def __reduce__(self) -> tuple[Callable[[str], Any], tuple[str]]:
        """To another process goes where it stands: functions without a name could not."""
        return _named, (self.name,)

    def about(self, arm: ArmResult) -> bool:
        """Whether an arm has what this part reads; a part that reads nothing is about all of them."""
        return not self.reads or arm.has(*self.reads)

    def arms(self, run: Run) -> list[ArmResult]:
        """The arms of a run that this part is about."""
        return [arm for arm in run.arms if self.about(arm)]

    def wanted(self, run: Run) -> bool:
        """Whether a run has something to show here."""
        planned = self.planned is not None and not run.done
        of_the_run = self.table is not None and not run.arms  # it has rows of its own
        return bool(planned or of_the_run or self.arms(run)) and self.when(run) and self.serves(run.info)

    def serves(self, info: dict[str, Any]) -> bool:
        """Whether a run, by its run.json, is one that this part is for."""
        return not self.only or bool(info.get(self.only))

    def metrics_of(self, run: Run) -> Sequence[Metric]:
        """Its metrics, of a run."""
        return self.metrics(run) if callable(self.metrics) else self.metrics

    def cells_of(self, run: Run, arm: ArmResult) -> Row:
        """An arm's values in the table."""
        if not self.about(arm):
            return self.planned(run, arm) if self.planned and not arm.done else {}
        row = dict(self.row(run, arm))
        for one in self.metrics_of(run):
            if one.of is not None and (value := one.of(run, arm)) is not None:
                one.put(row, value)
        return row

    def views_of(self, run: Run, rows: list[Row]) -> list[View]:
        """Its tables, from rows of the table."""
        if self.views is not None:
            return self.views(rows)
        table = columns.table(self.title, self.metrics_of(run), rows) if self.title else None
        return [table] if table is not None and len(table.header) > 1 else []  # as where rows are no arms'


@functools.cache
def sections() -> tuple[Section, ...]:
    """The parts that reports are made of, in their order: one of each file of report/sections, and those of
    other packages, which name them as entry points `flyrun.sections`, or a metric alone as `flyrun.metrics`.

    A package's that cannot be used, or has the name of another, is a part that says so on every page.
    """
    files = pkgutil.iter_modules([str(Path(__file__).parent / "sections")])
    parts = {
        one.name: importlib.import_module(f"flyrun.experiments.report.sections.{one.name}").SECTION
        for one in files
    }
    points = [*metadata.entry_points(group="flyrun.sections"), *metadata.entry_points(group="flyrun.metrics")]
    for point in sorted(points, key=lambda point: point.name):
        package = point.dist.name if point.dist else point.module
        from flyrun import extend  # late: only packages need it

        try:
            part = extend.loaded(point.load)
            if isinstance(part, Metric) and point.group == "flyrun.metrics":
                part = Section(part.name, metrics=[part], title=part.head)
            problem = "" if isinstance(part, Section) else f"is no {point.group[7:-1].capitalize()}"
            problem = problem or f"{part.name} is the name of another" * (part.name in parts)
        except extend.ContractError as error:
            problem = str(error)
        except Exception as error:  # whatever another's package does while it is imported
            problem = f"cannot be loaded ({type(error).__name__}: {error})"
        if problem:
            text = f"The section {point.name} {problem}; mend or remove the package {package}."
            part = Section(f"{package}:{point.name}", caveats=functools.partial(_says, text))
        parts[part.name] = part
    return tuple(sorted(parts.values(), key=lambda part: part.place))


def _says(text: str, run: Run) -> list[str]:
    return [text]


def _named(name: str) -> Section:
    return next(part for part in sections() if part.name == name)


def served(info: dict[str, Any], sections: tuple[Section, ...]) -> tuple[Section, ...]:
    """The parts that are worked out for a run, by its run.json."""
    return tuple(section for section in sections if section.serves(info))


def shown(run: Run, sections: tuple[Section, ...]) -> list[Section]:
    """The parts of a run's report."""
    wanted = [section for section in sections if section.wanted(run)]
    replaced = {name for section in wanted for name in section.replaces}
    return [section for section in wanted if section.name not in replaced]
