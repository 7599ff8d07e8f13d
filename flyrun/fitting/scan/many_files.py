"""`flyrun fit` on many files: what will be read, the scan, and the same answer as of one file."""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from rich.console import Console

from flyrun.families.family import Family, family, with_link
from flyrun.fitting import (
    chosen_priors,
    engine,
    identified,
    level_fits,
    lines,
    lone_rows,
    parameters,
    priors,
    question,
    ratios,
    stored,
    wide_categories,
)
from flyrun.fitting.engine import Answer
from flyrun.fitting.question import Question
from flyrun.fitting.request import Budget, Clock, Request, TypedTable
from flyrun.fitting.scan import (
    column_checks,
    grouped_scan,
    joined_groups,
    kept_sums,
    mappers,
    pilot_rows,
    refusals,
    rows_kept,
    said,
    table_files,
    workers,
)
from flyrun.fitting.scan.joined_groups import Shards
from flyrun.fitting.scan.level_scans import LevelScans
from flyrun.fitting.scan.pilot import Inputs
from flyrun.fitting.scan.row_groups import tree
from flyrun.fitting.scan.stages import Found, Scan
from flyrun.ground import progress
from flyrun.ground.errors import ConfigError, FlyrunError, factoring
from flyrun.ground.progress import JsonLines
from flyrun.ground.schema import schema
from flyrun.tables.layout import Column, Layout
from flyrun.tables.order import refuse_unfitted

_SEED = 0
_OF_DRAWS = ("effective", "planned", "variance")  # of a scan's counts, what its own draws tell
_OF_MEMORY = 3  # one file larger than this part of the memory, as float32, is scanned


def wanted(request: Request) -> bool:
    """Whether a request is for a scan: of a folder or a pattern, on a cluster, or of one very large file."""
    if table_files.several(request.file) or workers.dask(request.typed) is not None:
        return True
    return request.file.endswith((".parquet", ".pq")) and _too_large(request.file)


def _too_large(file: str) -> bool:
    with contextlib.suppress(Exception):  # which a reading tells of
        import pyarrow.parquet as parquet  # late: an extra

        about = parquet.read_metadata(file)
        return about.num_rows * about.num_columns * 4 > mappers.memory() / _OF_MEMORY
    return False


@factoring()
def answer(request: Request, console: Console | JsonLines | None) -> Answer:
    """The answer of one scan. FlyrunError in one line."""
    return wide_categories.parted(request, lambda its: _answer(its, console, its is request))


def _answer(request: Request, console: Console | JsonLines | None, first: bool) -> Answer:
    """As of `answer`; ManyLevelsError for a category of many levels. first: of the request as typed."""
    shards, table, columns = _asked(request)
    say = progress.speaker(console).say
    with _mapper(request, shards, len(columns), console) as mapper:
        shards = joined_groups.joined(rows_kept.of(shards, mapper, say))
        if first:
            say(f"{said.size(shards, columns)}: one scan reads {said.in_bytes(shards.size)}")
        scan = Scan(Inputs(request, shards, columns, table, mapper, say), _SEED)
        pilot = scan.pilot()
        say(f"pilot: {len(pilot.y):,} rows ({said.in_bytes(pilot.x.nbytes)}) came here")
        task, model_family = _model(request, table, pilot.y)
        table = replace(table, task=task, sha256=shards.digest)
        stored.refuse_to_replace(request, table, model_family)
        encoding = scan.encoding(pilot, task, model_family)
        steps = scan.steps(pilot, encoding, model_family)
        if request.groups:
            steps = grouped_scan.steps(scan, encoding, task, model_family)
        fitted = scan.follow(steps)
        counts = said.counts(shards, fitted, mapper, len(pilot.y))
        answered = _of_groups if request.groups else _answered
        return answered(_question(request, shards, table, fitted, counts), shards, fitted, counts)


def look(request: Request) -> list[str]:
    """What many files hold, and priors, by a pilot; nothing is fitted. Errors: as of `answer`."""
    return wide_categories.parted(request, _look)


def _look(request: Request) -> list[str]:
    shards, table, columns = _asked(request)
    with (
        stored.alone(request, sends=False) as here,
        _mapper(here, shards, len(columns), None) as mapper,
    ):
        shards = joined_groups.joined(rows_kept.of(shards, mapper, lambda line: None))
        scan = Scan(Inputs(request, shards, columns, table, mapper, lambda line: None), _SEED)
        pilot = scan.pilot()
        task, model_family = _model(request, table, pilot.y)
        encoding = scan.encoding(pilot, task, model_family)
        model = scan.model(encoding, model_family)
        posterior = model.posterior(pilot_rows.rows_of(pilot, encoding, model.form, shards.blocks))
        groups = [
            f"groups: {bar}, whose levels a fit counts" for bar in grouped_scan.bars_of(scan, encoding.layout)
        ]
    layout = encoding.layout
    return [
        f"{request.file}: {said.size(shards, columns)}",
        *lines.taken(_described(replace(layout, sources=layout.sources or layout.features), shards)),
        *groups,
        *priors.lines(question.table_of_priors(request, layout, posterior)),
        f"for {model_family.name}; sds are by {len(pilot.y):,} rows of a pilot; --check fits nothing",
    ]


@factoring()
def answers(
    request: Request, console: Console | JsonLines | None
) -> tuple[dict[str, Request], dict[str, Answer | FlyrunError]]:
    """Requests and answers, or why there is none, of the levels of a column, by one scan."""
    shards, table, columns = _asked(request)
    say, by = progress.speaker(console).say, str(request.by)
    with _mapper(request, shards, len(columns), console) as mapper:
        shards = joined_groups.joined(rows_kept.of(shards, mapper, say))
        say(f"{said.size(shards, columns)}: one scan reads {said.in_bytes(shards.size)}")
        scans = LevelScans(Inputs(request, shards, columns, table, mapper, say), _SEED)
        lost = f"; {scans.lost:,} rows lack one, and are left out" if scans.lost else ""
        say(f"{len(scans.levels):,} levels of {by}{lost}")
        y = scans.pilot()
        task, model_family = _model(request, table, y)
        requests, tables = level_fits.requests(request, scans.names), {}
        for level in scans.open:
            where = level_fits.where(request, level)
            tables[level] = replace(table, where=where, task=task, sha256=shards.digest)
            stored.refuse_to_replace(requests[level], tables[level], model_family)
        fits = scans.run(task, model_family)
    by_level = dict[str, Answer | FlyrunError]()
    for level, fitted in fits.items():
        if isinstance(fitted, FlyrunError):
            by_level[level] = fitted
        else:
            whole = replace(fitted, rows_read=scans.rows_read)
            counts = said.counts(shards, whole, mapper, len(y))
            counts |= {"level": level, "levels": len(scans.levels)}
            asked = _question(requests[level], shards, tables[level], whole, counts)
            by_level[level] = _answered(asked, shards, whole, counts)
    times = scans.rows_read / shards.rows
    count = sum(not isinstance(outcome, FlyrunError) for outcome in by_level.values())
    say(f"read {times:.2f} times, {count:,} posteriors; {mapper.seconds:,.0f} CPU-seconds")
    return requests, by_level


def _asked(request: Request) -> tuple[Shards, TypedTable, list[str]]:
    """The files, the table as it is typed, and the features. FlyrunError for what a scan does not take."""
    refusals.refuse_options(request)
    table = request.typed_table
    shards = table_files.with_missing(table_files.find(request.file, table.where), table.na)
    if table.where is not None:
        rows_kept.refuse_columns(shards, table.where)
    drop, features = table.drop, table.features
    if table.formula is not None:
        table, features = _of_formulas(shards, table, request)
    shards = table_files.with_categories(shards, table)
    if request.by is not None:
        level_fits.refuse(request, shards.kinds)
        if shards.kinds[request.by] == "other":
            raise ConfigError(f"--by {request.by}: holds neither text nor numbers; name another column")
        drop = (*drop, request.by)
    columns = table_files.chosen(shards, request.target, features, drop, table.beside, table)
    column_checks.refuse_ends(shards, table, columns)
    fitted = (*columns, request.target, *table.beside.values())
    refuse_unfitted(table, fitted)
    if text := [name for name in table.numeric if name in fitted and shards.kinds[name] == "text"]:
        raise ConfigError(f"--numeric {text[0]}: the files hold text there; write numbers, or leave it out")
    return shards, table, columns


def _of_formulas(shards: Shards, table: TypedTable, request: Request) -> tuple[TypedTable, tuple[str, ...]]:
    """The table with the categories that formulas make, and the columns that these name."""
    from flyrun.tables import formula  # late: few fits have one

    rights = [str(table.formula), *(options["formula"] for options in request.formulas.values())]
    each = [formula.read(text, list(shards.kinds)) for text in rights]
    columns = tuple(dict.fromkeys(name for read in each for name in read.columns))
    categories = dict.fromkeys(name for read in each for name in read.categories)
    numbers = {name for name in categories if shards.kinds[name] != "text"} - {*table.categorical}
    for of, read in zip((request.target, *request.formulas), each, strict=True):
        if name := next((name for name in read.columns if table.role(name) != "column"), None):
            raise ConfigError(f"formula {read.text!r} names {name}, which is the {table.role(name)}")
        if both := {*read.columns} & numbers - {*read.categories}:
            raise parameters.of_two_minds(of, min(both))
    return replace(table, categorical=tuple(dict.fromkeys([*table.categorical, *categories]))), columns


def _question(
    request: Request, shards: Shards, table: TypedTable, fitted: Found, counts: dict[str, Any]
) -> Question:
    """What a scan found is to answer. counts: as of `said.counts`."""
    layout = _described(fitted.layout, shards, fitted)
    layout = replace(layout, row_numbers=table_files.left_out(shards, table))
    about = [
        *said.lines(request, shards, fitted),
        *lines.left_out(layout),
        *said.moved(fitted, counts),
        *said.foretold(counts),
    ]
    return Question(request, table, layout, fitted.posterior, about)


def _of_groups(asked: Question, shards: Shards, fitted: Found, counts: dict[str, Any]) -> Answer:
    """The answer with groups, by the engine of one table. counts: as of `said.counts`."""
    answered = engine.answer(asked, Clock().spent(asked.request.budget))
    counts = {key: value for key, value in counts.items() if key not in _OF_DRAWS}
    return replace(answered, scan=counts, caveats=[*answered.caveats, *_lone(shards, asked.layout, fitted)])


def _answered(question: Question, shards: Shards, fitted: Found, counts: dict[str, Any]) -> Answer:
    """The answer of what a scan found. counts: as of `said.counts`."""
    layout, table = question.layout, question.table
    engine.refuse_improper(question)
    weighted = engine.by_weights(question, fitted.answer.found)
    width = len(layout.names) - 1  # columns of the target's predictors, before those of parameters
    ends = np.delete(fitted.ends, np.s_[width:-1], axis=1)
    empty = identified.empty_in_sums(layout, fitted.encoding.two[:width], ends)
    if fitted.apart:
        apart = tree(fitted.apart)
        columns = identified.separating_ends(apart.low, apart.high)
        empty = identified.apart_lines(table, layout, columns, not apart.wrong) or empty
    caveats = [*weighted.caveats, *empty, *_lone(shards, layout, fitted)]
    return replace(weighted, how=said.how(fitted), scan=counts, caveats=caveats)


def _described(layout: Layout, shards: Shards, fitted: Found | None = None) -> Layout:
    """A layout with the ends of columns that files say, and the rows of levels that a scan counted."""

    def of(column: Column) -> Column:
        ends, counts = shards.ends.get(column.name), column.counts
        if fitted is not None and column.levels and (rows := fitted.texts.of(column.name)):
            counts = [rows.get(level, 0) for level in column.levels]
        elif fitted is not None and column is layout.target and len(fitted.counts) == 2:
            counts = [round(rows) for rows in fitted.counts.values()]
        if ends is None or column.levels:
            return replace(column, counts=counts)
        return replace(column, low=float(ends.low), high=float(ends.high))

    features, sources = ([*map(of, columns)] for columns in (layout.features, layout.sources))
    beside = {role: of(column) for role, column in layout.beside.items()}
    return replace(layout, features=features, sources=sources, beside=beside, target=of(layout.target))


def _lone(shards: Shards, layout: Layout, fitted: Found) -> list[str]:
    """As of `lone_rows`."""
    if (ends := shards.ends.get(layout.target.name)) is None:
        return []
    low_high = float(ends.low), float(ends.high)
    return lone_rows.caveats(layout, fitted.posterior.family, low_high, *fitted.target)


@contextlib.contextmanager
def _mapper(
    request: Request, shards: Shards, columns: int, console: Console | JsonLines | None
) -> Iterator[mappers.Mapper]:
    kept = kept_sums.Kept(request.folder / "scan")
    say, show = progress.speaker(console).say, partial(progress.counted, console)
    if request.fresh:
        kept.clear()
    with contextlib.ExitStack() as stack:
        run = stack.enter_context(workers.at_work(request.typed, request.workers, shards.rows * columns, say))
        spent = Clock().spent(request.budget if request.budget.typed else Budget())
        yield mappers.Mapper(run, kept, say, show, shards.size / shards.rows, spent)
    kept.clear()
    with contextlib.suppress(OSError):
        kept.folder.parent.rmdir()  # where nothing else is in it


def _model(request: Request, table: TypedTable, y: np.ndarray) -> tuple[str, Family]:
    """The task of targets y (n,) and the model that was asked for; of two values the usual one."""
    model = request.model_asked
    if model is None and "trials" in request.table:
        model = "binomial"
    if model is None and len(table.order_of(request.target)) > 2:
        model = "ordinal"
    if model is None:
        if len(set(y.tolist())) != 2:
            raise ConfigError(
                f"--target {request.target}: has more than two values; say what it is with --model, as "
                "--model poisson of counts or --model gaussian of numbers"
            )
        model = "logistic"
    task = schema("model", model).task  # type: ignore[attr-defined]
    model_family = family(with_link(model, request.link))
    model_family = chosen_priors.with_constants(model_family, request.priors, request.formulas)
    if request.exp:
        ratios.name_of(model_family.link, request.target)
    refusals.refuse_beside(request, table, model_family)
    levels = len(set(y.tolist())) if model_family.domain.classes else 0
    parameters.refuse_unknown(request.formulas, model_family, levels, y, "trials" in request.table)
    return task, model_family
