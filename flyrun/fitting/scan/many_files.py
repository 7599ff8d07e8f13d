"""`flyrun fit` on many files: what will be read, the scan, and the same answer as of one file."""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from flyrun.families.family import Family, family
from flyrun.fitting import engine, identified, level_fits, lines, ratios, stored
from flyrun.fitting.engine import Answer
from flyrun.fitting.question import Question
from flyrun.fitting.request import Request, TypedTable, dashed
from flyrun.fitting.scan import kept_sums, mappers, table_files
from flyrun.fitting.scan.level_scans import LevelScans
from flyrun.fitting.scan.pilot import Inputs
from flyrun.fitting.scan.row_groups import tree
from flyrun.fitting.scan.row_weights import MOST_VARIANCE
from flyrun.fitting.scan.stages import Found, Scan
from flyrun.ground import progress
from flyrun.ground.errors import ConfigError, FlyrunError, factoring
from flyrun.ground.executor import Dask
from flyrun.ground.schema import build, listing, schema
from flyrun.tables.options import ROLES
from flyrun.tables.order import refuse_unfitted

_SEED = 0
#: options that a scan knows
_TAKEN = (*ROLES, "features", "drop", "categorical", "numeric", "reference", "order", "missing", "formula")
_MOST_NAMED = 3  # columns that hold rows of the core
_OF_MEMORY = 3  # one file larger than this part of the memory, as float32, is scanned


def wanted(request: Request) -> bool:
    """Whether a request is for a scan: of a folder or a pattern, on a cluster, or of one very large file."""
    if table_files.several(request.file) or _dask(request) is not None:
        return True
    return request.file.endswith((".parquet", ".pq")) and _too_large(request.file)


def _too_large(file: str) -> bool:
    with contextlib.suppress(Exception):  # which a reading tells of
        import pyarrow.parquet as parquet  # late: an extra

        about = parquet.read_metadata(file)
        return about.num_rows * about.num_columns * 4 > mappers.memory() / _OF_MEMORY
    return False


def _dask(request: Request) -> Dask | None:
    """The cluster that is asked for."""
    typed = {key: one.value for key, one in request.typed.items()}
    if typed.get("executor", "dask" if typed.get("executor.address") else None) != "dask":
        return None
    own: dict[str, Any] = {}
    for key, value in typed.items():
        if key.startswith("executor.slurm."):
            own.setdefault("slurm", {})[key.removeprefix("executor.slurm.")] = value
        elif key.startswith("executor."):
            own[key.removeprefix("executor.")] = value
    return build("executor", {"name": "dask", **own})  # type: ignore[return-value]


@factoring()
def answer(request: Request, console: Any) -> Answer:
    """The answer of one scan. FlyrunError in one line."""
    found, table, columns = _asked(request)
    say = progress.speaker(console).say
    with _mapper(request, found, len(columns), console) as mapper:
        say(f"{_size(found, columns)}: one scan reads {_bytes(found.size)}")
        scan = Scan(Inputs(request, found, columns, table, mapper, say), _SEED)
        pilot = scan.pilot()
        say(f"pilot: {len(pilot.y):,} rows ({_bytes(pilot.x.nbytes)}) came here")
        task, one = _model(request, table, pilot.y)
        table = replace(table, task=task, sha256=found.digest)
        stored.refuse_to_replace(request, table, one)
        made = scan.run(pilot, scan.encoding(pilot, task, one), one)
    return _answered(request, found, table, made, _counts(found, made, mapper, len(pilot.y)))


@factoring()
def answers(request: Request, console: Any) -> tuple[dict[str, Request], dict[str, Answer | FlyrunError]]:
    """Requests and answers, or why there is none, of the levels of a column, by one scan."""
    found, table, columns = _asked(request)
    say, by = progress.speaker(console).say, str(request.by)
    with _mapper(request, found, len(columns), console) as mapper:
        say(f"{_size(found, columns)}: one scan reads {_bytes(found.size)}")
        scans = LevelScans(Inputs(request, found, columns, table, mapper, say), _SEED)
        lost = f"; {scans.lost:,} rows lack one, and are left out" if scans.lost else ""
        say(f"{len(scans.levels):,} levels of {by}{lost}")
        y = scans.pilot()
        task, one = _model(request, table, y)
        own, tables = level_fits.requests(request, scans.names), {}
        for level in scans.open:
            where = level_fits.where(request, level)
            tables[level] = replace(table, where=where, task=task, sha256=found.digest)
            stored.refuse_to_replace(own[level], tables[level], one)
        made = scans.run(task, one)
    told = dict[str, Answer | FlyrunError]()
    for level, one_of_them in made.items():
        if isinstance(one_of_them, FlyrunError):
            told[level] = one_of_them
        else:
            whole = replace(one_of_them, rows_read=scans.rows_read)
            counts = _counts(found, whole, mapper, len(y)) | {"level": level, "levels": len(scans.levels)}
            told[level] = _answered(own[level], found, tables[level], whole, counts)
    times = scans.rows_read / found.rows
    count = sum(not isinstance(one, FlyrunError) for one in told.values())
    say(f"read {times:.2f} times, {count:,} posteriors; {mapper.seconds:,.0f} CPU-seconds")
    return own, told


def _asked(request: Request) -> tuple[table_files.Shards, TypedTable, list[str]]:
    """The files, the table as it is typed, and the features. FlyrunError for what a scan does not take."""
    _refuse_options(request)
    found, table = table_files.find(request.file), request.typed_table
    drop, features = table.drop, table.features
    if table.formula is not None:
        table, features = _of_formula(found, table)
    found = table_files.with_categories(found, table)
    if request.by is not None:
        level_fits.refuse(request, found.kinds)
        if found.kinds[request.by] == "other":
            raise ConfigError(f"--by {request.by}: holds neither text nor numbers; name another column")
        drop = (*drop, request.by)
    columns = table_files.chosen(found, request.target, features, drop, table.beside)
    fitted = (*columns, request.target, *table.beside.values())
    refuse_unfitted(table, fitted)
    if text := [name for name in table.numeric if name in fitted and found.kinds[name] == "text"]:
        raise ConfigError(f"--numeric {text[0]}: the files hold text there; write numbers, or leave it out")
    return found, table, columns


def _of_formula(found: table_files.Shards, table: TypedTable) -> tuple[TypedTable, tuple[str, ...]]:
    """The table with the categories that its formula makes, and the columns that this names."""
    from flyrun.tables import formula  # late: few fits have one

    read = formula.read(str(table.formula), list(found.kinds))
    if name := next((name for name in read.columns if table.role(name) != "column"), None):
        raise ConfigError(f"formula {table.formula!r} names {name}, which is the {table.role(name)}")
    own = tuple(dict.fromkeys([*table.categorical, *read.categories]))
    return replace(table, categorical=own), read.columns


def _answered(
    request: Request, found: table_files.Shards, table: TypedTable, made: Found, counts: dict[str, Any]
) -> Answer:
    """The answer of what a scan found. counts: as of `_counts`."""
    layout = replace(made.layout, row_numbers=table_files.left_out(found, table))
    about = [
        *_lines(request, found, made),
        *lines.left_out(layout),
        *_moved(made, counts),
        *_foretold(counts),
    ]
    own = engine.by_weights(Question(request, table, layout, made.posterior, about), made.answer.found)
    empty = identified.empty_in_sums(layout, made.encoding.two, made.ends)
    return replace(own, how=_how(made), scan=counts, caveats=[*own.caveats, *empty])


@contextlib.contextmanager
def _mapper(
    request: Request, found: table_files.Shards, columns: int, console: Any
) -> Iterator[mappers.Mapper]:
    kept = kept_sums.Kept(request.folder / "scan")
    say, show = progress.speaker(console).say, partial(progress.counted, console)
    if request.fresh:
        kept.clear()
    with contextlib.ExitStack() as stack:
        if (dask := _dask(request)) is not None:
            run = stack.enter_context(_on_dask(dask, request.workers, say))
        else:
            run = stack.enter_context(mappers.local(mappers.processes(request.workers, found.rows * columns)))
        yield mappers.Mapper(run, kept, say, show, found.size / found.rows)
    kept.clear()
    with contextlib.suppress(OSError):
        kept.folder.parent.rmdir()  # where nothing else is in it


def _on_dask(settings: Dask, workers: int | None, say: Any) -> Any:
    """A context of what looks on Dask's workers."""
    try:
        from flyrun.fitting.scan import dask_mapper  # late: an extra
    except ImportError as error:
        raise ConfigError(
            "executor=dask: needs distributed; install it with `pip install 'flyrun[dask]'`"
        ) from error
    return dask_mapper.on_dask(settings, workers, say)


def _model(request: Request, table: TypedTable, y: Any) -> tuple[Any, Family]:
    """The model that was asked for and its target's task; of two values the usual one."""
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
    task, one = schema("model", model).task, family(model)  # type: ignore[attr-defined]
    if request.exp:
        ratios.name_of(one.link, request.target)
    _refuse_beside(request, table, one)
    return task, one


def _refuse_beside(request: Request, table: TypedTable, one: Family) -> None:
    """ConfigError for a column beside the features that a model does not take."""
    from flyrun.tables.possible import refused_beside  # late: pandas takes half a second

    if said := refused_beside(one.domain, table, counts=False):
        raise ConfigError(f"{request.file}: target {request.target} {said}")
    role = next((role for role in ("offset", "exposure") if role in table.beside), None)
    if role and one.domain.standardized:
        raise ConfigError(
            f"--{role}: is not for --model {one.name} in a scan; take it off the target in the files"
        )


def _refuse_options(request: Request) -> None:
    """ConfigError for an option that a scan does not know."""
    if request.groups:
        bar = request.groups[0]
        raise ConfigError(f"fit: groups, as {bar}, are not for a scan of many files; write C({bar.group})")
    if request.by is not None and "formula" in request.table:
        raise ConfigError(
            "--by: a formula is not for levels of many files; name columns with --target and --features"
        )
    for key in request.table:
        if key == "log_target":
            raise ConfigError(
                "fit: the log of the target is not for a scan of many files; name "
                f"{request.target} itself, as with --model gamma, whose coefficients are of the log of its "
                "mean, or write a column of the log"
            )
        if key not in (*_TAKEN, "written"):
            raise ConfigError(
                f"{dashed('rows' if key == 'limit' else key)}: is not for a scan of many files; leave it out"
            )
    for one in request.typed.values():
        if one.key != "model" and one.group != "executor" and one.key != "executor":
            raise ConfigError(f"{one.text}: is not for a scan of many files; leave it out")


def _lines(request: Request, found: table_files.Shards, made: Found) -> list[str]:
    """What was read and what is fitted to it."""
    layout, target = made.layout, made.layout.target
    lost = f" ({layout.dropped:,} dropped for missing values)" if layout.dropped else ""
    model = f"{made.posterior.family.words} of {target.name}"
    if layout.task == "binary":
        against, one = target.levels or []
        model += f" = {one} ({int(made.counts[max(made.counts)]):,} rows) against {against}"
    columns = f"{len(layout.features)} columns, {len(layout.names)} coefficients"
    return [f"{request.file}: {len(found.files)} files, {layout.rows:,} rows{lost}, {columns}", model]


def _size(found: table_files.Shards, columns: list[str]) -> str:
    files = f"{len(found.files):,} file{'s' if len(found.files) > 1 else ''}"
    return f"{files}, {len(found.blocks):,} row groups, {found.rows:,} rows, {len(columns):,} columns"


def _bytes(number: float) -> str:
    """In the unit that people say."""
    power = next((power for power in (4, 3, 2) if number >= 1000**power), 1)
    return f"{number / 1000**power:.3g} {('kB', 'MB', 'GB', 'TB')[power - 1]}"


def _counts(found: table_files.Shards, made: Found, mapper: mappers.Mapper, pilot: int) -> dict[str, Any]:
    """What was read and moved, for fit.json. seconds: of CPUs, for looks alone; bytes: of the files."""
    own, whole = made.answer, tree(list(made.foretold)) if made.foretold else None
    return {
        "files": [{"path": one.path, "bytes": one.size, "footer": one.footer} for one in found.files],
        "rows": found.rows,
        "rows_read": made.rows_read,
        "bytes": found.size,
        "seconds": mapper.seconds,
        "kernels": sorted(mapper.kernels),
        "moved_bytes": mapper.moved,
        "pilot": pilot,
        "core": own.core,
        "drawn": own.travelled,
        "row_bytes": own.nbytes,
        "scans": made.scans,
        "effective": own.found.effective,
        "planned": own.planned * len(own.found.x),
        "variance": own.variance,
        "folds": [{"rows": one.copies, "mean": one.mean, "error": one.error} for one in made.foretold],
        "held_out": {"mean": whole.mean, "error": whole.error} if whole else {},
    }


def _foretold(told: dict[str, Any]) -> list[str]:
    """How well each fold is foretold by all others. told: as of `_counts`."""
    if not (folds := told["folds"]):
        return []
    whole, means = told["held_out"], [one["mean"] for one in folds]
    return [
        f"{len(folds)} folds of row groups, each foretold by all others: log density {whole['mean']:.6g} ± "
        f"{whole['error']:.2g} a row; of the folds {min(means):.6g} to {max(means):.6g}"
    ]


def _moved(made: Found, told: dict[str, Any]) -> list[str]:
    """What was read, by whom, and which rows travelled. told: as of `_counts`."""
    times, pilot = told["rows_read"] / told["rows"], told["pilot"]
    for_all = f" for all {told['levels']:,} posteriors" if "levels" in told else ""
    read = (
        f"read {times:.2f} times: {_bytes(times * told['bytes'])} in {told['seconds']:,.0f} CPU-seconds of "
        f"{listing(told['kernels'])}; {_bytes(told['moved_bytes'])} moved here{for_all}"
    )
    if len(told["kernels"]) > 1:
        read += ", and last bits depend on who looked at which row group"
    travelled = told["core"] + told["drawn"]
    if not travelled:
        return [read, f"no row travelled but {pilot:,} of the pilot"]
    share = 100.0 * travelled / max(made.layout.rows, 1)
    kept = f"{told['core']:,} kept exactly"
    if told["core"]:
        kept += f" ({_far_columns(made)})"
    drawn = f"{told['drawn']:,} drawn in proportion to what second order leaves out of each"
    rows = f"{travelled:,} rows travelled ({share:.3g} %, {_bytes(told['row_bytes'])})"
    return [read, f"{rows}: {kept}, {drawn}; besides, {pilot:,} of the pilot"]


def _far_columns(made: Found) -> str:
    """How many rows of the core have their largest part of a predictor's variance by each column."""
    post = made.posterior
    sd = (
        made.answer.found.x[:, : post.n_coefficients].std(axis=0).reshape(post.linear, post.width).max(axis=0)
    )
    names = np.array(made.layout.names)
    most = np.argmax(np.abs(post.rows.features) * sd, axis=1)
    place, count = np.unique(most, return_counts=True)
    order = np.argsort(-count, kind="stable")
    shown = [f"{count[k]:,} for {names[place[k]]}" for k in order[:_MOST_NAMED]]
    more = f" and {len(order) - _MOST_NAMED:,} more columns" if len(order) > _MOST_NAMED else ""
    return ", ".join(shown) + more


def _how(made: Found) -> str:
    """What the draws are worth, and what certifies them."""
    own, weighted = made.answer, made.answer.found
    if weighted.independent:
        return f"{len(weighted.x):,} independent draws in closed form"
    if not own.travelled:
        return engine.how(made.posterior, weighted)
    mean, covariance = weighted.moments()
    moved = np.abs(mean - weighted.x.mean(axis=0)) / np.sqrt(np.diag(covariance))
    return (
        f"{len(weighted.x):,} weighted draws, {weighted.effective:,.0f} effective "
        f"({own.planned * len(weighted.x):,.0f} planned); log weights vary by {own.variance:.2g}, as two "
        f"halves of the sample tell (at most {MOST_VARIANCE:g}); weights moved no mean by more than "
        f"{moved.max():.2g} sd"
    )
