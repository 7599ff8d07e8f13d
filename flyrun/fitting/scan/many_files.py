"""`flyrun fit` on many files: what will be read, the scan, and the same answer as of one file."""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from flyrun.config.executor import Dask
from flyrun.config.schema import build, schema
from flyrun.errors import ConfigError
from flyrun.fitting import by_weights, read_table
from flyrun.fitting.request import Request, dashed
from flyrun.fitting.scan import kept_sums, mappers, row_groups
from flyrun.fitting.scan.stages import Found, Scan
from flyrun.models.family import family

_SEED = 0
_TAKEN = ("features", "drop", "numeric", "missing")  # options that a scan knows
_OF_MEMORY = 3  # one file larger than this part of the memory, as float32, is scanned


def wanted(request: Request) -> bool:
    """Whether a request is for a scan: of a folder or a pattern, on a cluster, or of one very large file."""
    if row_groups.several(request.file) or _dask(request) is not None:
        return True
    return request.file.endswith((".parquet", ".pq")) and _too_large(request.file)


def _too_large(file: str) -> bool:
    with contextlib.suppress(Exception):  # which a reading tells of
        import pyarrow.parquet as parquet  # late: an extra

        about = parquet.read_metadata(file)
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return about.num_rows * about.num_columns * 4 > memory / _OF_MEMORY
    return False


def _dask(request: Request) -> Dask | None:
    """The cluster that is asked for."""
    typed = {one.key: one.value for one in read_table.typed_words(request)}
    if typed.get("executor") != "dask":
        return None
    own = {key.partition(".")[2]: value for key, value in typed.items() if key.startswith("executor.")}
    return build("executor", {"name": "dask", **own})  # type: ignore[return-value]


def answer(request: Request, say: Any) -> tuple[read_table.ReadTable, Any, by_weights.Answer, list[str]]:
    """The table, posterior, answer and lines that tell of it. FlyrunError in one line."""
    _refuse_options(request)
    found = row_groups.find(request.file)
    table = read_table.typed_table(request)
    columns = row_groups.chosen(found, request.target, table.features, table.drop)
    with _mapper(request, found, len(columns), say) as mapper:
        scan = Scan(request, found, columns, mapper, say, _SEED)
        pilot = scan.pilot()
        model, task = _model(request, pilot.y)
        one = family(model)
        if one.contrasts is not None:
            raise ConfigError(f"--model {model}: is not for a scan of many files; name one file")
        read = read_table.ReadTable(replace(table, task=task, sha256=found.digest), None, None)  # type: ignore[arg-type]
        if not request.fresh:
            settings = read_table.settings_of(request, read, model)
            read_table.refuse_to_replace(read_table.folder_of(request), settings)
        size = f"{len(found.files)} files, {len(found.blocks)} row groups, {found.rows:,} rows"
        say(f"{size}, {len(columns)} columns, {found.size / 1e9:.3g} GB; {one.words} of {request.target}")
        made = scan.run(pilot, scan.encoding(pilot, task, one), one)
    read = read._replace(layout=made.layout)
    lines = _lines(request, found, made, one.words)
    told = replace(by_weights.by_weights(read, made.posterior, made.answer.found), how=_how(found, made))
    return read, made.posterior, told, lines


@contextlib.contextmanager
def _mapper(request: Request, found: row_groups.Shards, columns: int, say: Any) -> Iterator[mappers.Mapper]:
    kept = kept_sums.Kept(read_table.folder_of(request) / "scan")
    if request.fresh:
        kept.clear()
    with contextlib.ExitStack() as stack:
        if (dask := _dask(request)) is not None:
            if dask.open_to_all:
                say(dask.open_to_all)
            run = stack.enter_context(mappers.on_dask(dask.address, dask.workers or request.workers, say))
        else:
            run = stack.enter_context(mappers.local(request.workers, found.rows * columns))
        yield mappers.Mapper(run, kept, say)
    kept.clear()


def _model(request: Request, y: Any) -> tuple[str, str]:
    """The model that was asked for and its task; of two values the usual one."""
    typed = next((str(one.value) for one in read_table.typed_words(request) if one.key == "model"), None)
    model = request.model or typed
    if model is None:
        if len(set(y.tolist())) != 2:
            raise ConfigError(
                f"--target {request.target}: has more than two values; say what it is with --model, as "
                "--model poisson of counts or --model gaussian of numbers"
            )
        model = "logistic"
    return model, schema("model", model).task  # type: ignore[attr-defined]


def _refuse_options(request: Request) -> None:
    """ConfigError for an option that a scan does not know."""
    for key in request.table:
        if key in ("formula", "log_target"):
            raise ConfigError("fit: a formula is not for a scan of many files; name columns with --target")
        if key not in _TAKEN:
            raise ConfigError(
                f"{dashed('rows' if key == 'limit' else key)}: is not for a scan of many files; leave it out"
            )
    for one in read_table.typed_words(request):
        if one.key != "model" and one.group != "executor" and one.key != "executor":
            raise ConfigError(f"{one.text}: is not for a scan of many files; leave it out")


def _lines(request: Request, found: row_groups.Shards, made: Found, words: str) -> list[str]:
    """What was read and what is fitted to it."""
    layout, target = made.layout, made.layout.target
    lost = f" ({layout.dropped:,} dropped for missing values)" if layout.dropped else ""
    model = f"{words} of {target.name}"
    if layout.task == "binary":
        against, one = target.levels or []
        model += f" = {one} ({int(made.counts[max(made.counts)]):,} rows) against {against}"
    columns = f"{len(layout.features)} columns, {len(layout.names)} coefficients"
    return [f"{request.file}: {len(found.files)} files, {layout.rows:,} rows{lost}, {columns}", model]


def _how(found: row_groups.Shards, made: Found) -> str:
    """What was read and moved, and what certifies the draws."""
    own, weighted = made.answer, made.answer.found
    if weighted.independent:
        read = f"read {made.rows_read / found.rows:.2f} times"
        return f"{read}; {len(weighted.x):,} independent draws in closed form"
    share = 100.0 * (own.core + own.travelled) / max(made.layout.rows, 1)
    return (
        f"read {made.rows_read / found.rows:.2f} times; {own.core + own.travelled:,} rows travelled "
        f"({share:.3g} %, {own.nbytes / 1e6:.2g} MB), {own.core:,} of them kept exactly; "
        f"{len(weighted.x):,} weighted draws, {weighted.effective:,.0f} effective "
        f"({own.planned * len(weighted.x):,.0f} planned), variance of log weights {own.variance:.2g}"
    )
