"""A person's own table: CSV, Parquet or .npz, numbers and categories, one column of it to be explained.

The file is read in pieces, which are kept for the second look at them: the first finds out what the columns
are, the second encodes them. Encoded rows that would take more than IN_MEMORY bytes go to a file in the
per-user cache and are mapped from there: neither table nor rows need to fit in memory. They go as float32
and, where there are two classes, times the target's ±1, for a likelihood would copy them to multiply.
"""

import contextlib
import functools
import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from flyrun import paths
from flyrun.config.dataset import Table
from flyrun.config.schema import did_you_mean, listing
from flyrun.data import archive, features, mapped, sources
from flyrun.data.dataset import Dataset
from flyrun.data.table import files as table_files
from flyrun.data.table.columns import scan, usable
from flyrun.data.table.kept import Kept
from flyrun.data.table.layout import Layout, encode
from flyrun.data.your_file import YourFile
from flyrun.errors import DataError
from flyrun.threads import ahead

NAME = "table"
IN_MEMORY = 64 << 20
# Raise this when what `encode` makes of a file changes: it is part of the cache's key.
ENCODING = 3


def load(config: Table) -> Dataset:
    """Features (N, D), the intercept last, and the target; no test rows.

    info: "layout" (layout.Layout as plain values) tells names, levels, means and sds.
    DataError for files, columns and values that cannot be used.
    """
    path, digest = _path(config), fingerprint(config)
    target, chosen = _columns(config, path)
    read = functools.partial(table_files.pieces, path, [*chosen, target], config)
    with contextlib.closing(Kept(read)) as kept:
        asked = _folder(config, path, digest)
        layout = _stored_layout(asked) or scan(kept, target, chosen, config, str(path))
        # What task=auto turns out to be is kept under its own name, where a model will look for it.
        folder = _folder(replace(config, task=layout.task), path, digest)  # type: ignore[arg-type]
        size = (layout.rows, len(layout.names))
        stored = size[0] * size[1] * 8 > IN_MEMORY
        pieces = ahead(_pieces(config, path, layout, kept))
        if not stored:
            rows, aim = np.empty(size), np.empty(size[0])
            _fill(rows, aim, pieces)
        elif not folder.is_dir():
            features.tell(f"{path}: encoding {size[0]:,} rows of {size[1]} columns, once a file, in {folder}")
            mapped.make(folder, lambda temporary: _write(temporary, layout, pieces))
    if stored:
        if not asked.is_dir():
            mapped.make(asked, lambda temporary: _write_layout(temporary, layout))
        remedy = f"delete the folder {folder}, it is made again at the next run"
        rows = mapped.opened(folder / "features.npy", size, remedy)
        aim = np.load(folder / "target.npy", allow_pickle=False)
    return Dataset(
        name=NAME,
        features=rows,
        target=aim.astype(np.int64) if layout.task == "classes" else aim,
        test_features=np.empty((0, size[1])),
        test_target=np.empty(0),
        feature_names=tuple(layout.names),
        sha256=digest,
        info={
            "title": path.name,
            "source": f"your file {path.name}",
            "rows": layout.rows,
            "dropped": layout.dropped,
            "layout": asdict(layout),
        },
        task=layout.task,  # type: ignore[arg-type]
        folded=stored and layout.task == "binary",
    )


def fingerprint(config: Table) -> str:
    """sha256 of the file; DataError where it is not there."""
    path = _path(config)
    status = path.stat()
    return _sha256(path, status.st_size, status.st_mtime_ns)


def store(config: Table | None = None) -> YourFile:
    """The file, which is not ours."""
    say = (config or Table()).say
    needs = f"a {table_files.FORMATS} file, as in {say('path', 'FILE')} {say('target', 'COLUMN')}"
    return YourFile(NAME, needs, endings=table_files.ENDINGS)


def _path(config: Table) -> Path:
    return store(config).path(config.path, config.path and config.say("path", config.path))


@functools.lru_cache(maxsize=16)
def _sha256(path: Path, size: int, changed_ns: int) -> str:
    """Digest of a file, worked out once in a process while its size and time stay."""
    try:
        return sources.sha256_of(path)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error


def _columns(config: Table, path: Path) -> tuple[str, list[str]]:
    """(target, features) that the configuration names; DataError for one that the file has not."""
    if config.decimal != "." and not table_files.is_csv(path):
        raise DataError(f"{config.say('decimal', config.decimal)}: is for CSV files, which {path} is not")
    known = table_files.names(path)
    if config.target is None:
        raise DataError(f"dataset.target=null: name the column to explain; {path} has {_some(known)}")
    asked = {"features": config.features or (), "drop": config.drop, "categorical": config.categorical}
    for key, names in (("target", (config.target,)), *asked.items()):
        for name in names:
            if name not in known:
                close = did_you_mean(name, known)
                raise DataError(
                    f"{config.say(key)}: {path} has no column {name!r}{close}; it has {_some(known)}"
                )
    for key in ("features", "drop"):
        if config.target in asked[key]:
            raise DataError(f"{config.say(key)}: {config.target} is the target; leave it out there")
    chosen = [name for name in config.features or known if name not in (config.target, *config.drop)]
    if not chosen:
        raise DataError(f"{path}: no column is left beside the target {config.target}")
    return config.target, list(dict.fromkeys(chosen))


def _some(names: list[str]) -> str:
    return listing(names) if len(names) <= 12 else f"{', '.join(names[:12])} and {len(names) - 12} more"


def _folder(config: Table, path: Path, digest: str) -> Path:
    settings = {key: value for key, value in config.settings().items() if key not in ("name", "path")}
    text = json.dumps([ENCODING, digest, settings, np.__version__], sort_keys=True)
    stem = path.name.partition(".")[0][:40]
    return paths.cache_dir("tables") / f"{stem}-{archive.sha256(text.encode())[:12]}"


def _stored_layout(folder: Path) -> Layout | None:
    try:
        return Layout.from_dict(json.loads((folder / "layout.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError):
        return None


Encoded = Iterator[tuple[np.ndarray, np.ndarray]]  # features and target of some rows


def _pieces(config: Table, path: Path, layout: Layout, kept: Kept) -> Encoded:
    for piece, _ in usable(kept.again(layout.text), config, str(path)):
        yield encode(piece, layout)


def _fill(rows: Any, aim: Any, pieces: Encoded) -> None:
    start = 0
    for block, values in pieces:
        rows[start : start + len(block)], aim[start : start + len(block)] = block, values
        start += len(block)


def _write(folder: Path, layout: Layout, pieces: Encoded) -> None:
    shape = (layout.rows, len(layout.names))
    rows = np.lib.format.open_memmap(folder / "features.npy", "w+", np.float32, shape)
    aim = np.empty(shape[0])
    if layout.task == "binary":
        pieces = ((block * values[:, None], values) for block, values in pieces)
    _fill(rows, aim, pieces)
    rows.flush()
    np.save(folder / "target.npy", aim)
    _write_layout(folder, layout)


def _write_layout(folder: Path, layout: Layout) -> None:
    (folder / "layout.json").write_text(json.dumps(asdict(layout)), encoding="utf-8")
