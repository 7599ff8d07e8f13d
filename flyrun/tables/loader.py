"""A person's own table: CSV, Parquet or .npz, numbers and categories, one column of it to be explained.

The file is read in pieces, which are kept for the second look at them: the first finds out what the columns
are, the second encodes them. Encoded rows that would take more than IN_MEMORY bytes go to a file in the
per-user cache and are mapped from there: neither table nor rows need to fit in memory. They go as float32
and, where there are two classes, times the target's ±1, for a likelihood would copy them to multiply.
"""

import contextlib
import functools
import json
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from flyrun.ground import archive, feature_cache, files, mapped, paths, sources
from flyrun.ground.errors import DataError
from flyrun.tables import frames
from flyrun.tables.dataset import Dataset
from flyrun.tables.encode import PARTS
from flyrun.tables.formats import ENDINGS, FORMATS
from flyrun.tables.layout import Layout
from flyrun.tables.options import Table
from flyrun.tables.your_file import YourFile

NAME = "table"
IN_MEMORY = 64 << 20
# Raise this when what `encode` makes of a file changes: it is part of the cache's key.
ENCODING = 10
_SETTLED_NS = 3_000_000_000


class _File(NamedTuple):
    """A file as first looked at. state: its size, times (ns) and inode; taken: when that was (ns)."""

    path: Path
    digest: str
    state: tuple[int, ...]
    taken: int

    @classmethod
    def of(cls, config: Table) -> "_File":
        """The file of a table; DataError where it is not there, or not as it was."""
        if (frame := frames.find(config.path)) is not None:
            return cls(Path(str(config.path)), frame.digest, (), 0)
        path, taken = _path(config), time.time_ns()
        state = _state(path)
        digest = _sha256(path, *state) if _settled(state, taken) else _digest(path)
        file = cls(path, digest, state, taken)
        if config.sha256 not in (None, file.digest):
            raise file.changed()
        return file

    @contextlib.contextmanager
    def unchanged(self) -> Iterator[None]:
        """Refuse what was read of a file that has changed since, whatever it seemed to be meanwhile."""
        try:
            yield
        except Exception as error:  # as of rows that there were not before
            if not self._holds():
                raise self.changed() from error
            raise
        if not self._holds():
            raise self.changed()

    def _holds(self) -> bool:
        if not self.state:  # a frame
            return True
        try:
            same = _state(self.path) == self.state and _settled(self.state, self.taken)
            return same or sources.sha256_of(self.path) == self.digest
        except OSError:
            return False

    def changed(self) -> DataError:
        """One line."""
        return DataError(
            f"{self.path}: changed while it was in use; wait until it is written, then give the command again"
        )


def unchanged(config: Table) -> contextlib.AbstractContextManager[None]:
    """Refuse, by a DataError, what is read of a table whose file is not, or no longer, of its sha256."""
    return _File.of(config).unchanged()


def _state(path: Path) -> tuple[int, ...]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def _settled(state: tuple[int, ...], now: int) -> bool:
    """Whether times would tell of a change from now on; of one soon after the last they may not."""
    return now - max(state[1:3]) > _SETTLED_NS


def load(config: Table) -> Dataset:
    """Features (N, D), the intercept last, the target and what is beside; no test rows.

    info: "layout" (layout.Layout as plain values) tells names, levels, means and sds.
    DataError for files, columns and values that cannot be used.
    """
    file = _File.of(config)
    asked = _folder(config, file)
    layout = _stored_layout(asked)
    if layout is not None and _is_mapped(layout) and (folder := _of_task(config, file, layout)).is_dir():
        rows, aim = _opened(folder, layout)
    else:
        layout, rows, aim = _read(config, file, asked, layout)
    beside: dict[str, Any] = {PARTS.get(role, role): aim[:, 1 + k] for k, role in enumerate(layout.beside)}
    return Dataset(
        name=NAME,
        features=rows,
        target=aim[:, 0].astype(np.int64) if layout.domain.classes > 2 else aim[:, 0],
        test_features=np.empty((0, rows.shape[1])),
        test_target=np.empty(0),
        feature_names=tuple(layout.names),
        sha256=file.digest,
        info={
            "title": file.path.name,
            "source": f"your file {file.path.name}",
            "rows": layout.rows,
            "dropped": layout.dropped,
            "layout": asdict(layout),
        },
        task=layout.task,
        folded=_is_mapped(layout) and layout.task == "binary",
        **beside,
    )


def _read(config: Table, file: _File, asked: Path, layout: Layout | None) -> tuple[Layout, Any, np.ndarray]:
    """The rows of a file that is not encoded yet, or too small to be kept so. layout: if it is known."""
    from flyrun.tables.reading import Reading  # late: pandas takes half a second

    with file.unchanged(), contextlib.closing(Reading(config, file.path)) as reading:
        layout = layout or reading.layout()
        pieces = reading.encoded(layout)
        size = (layout.rows, len(layout.names))
        if not _is_mapped(layout):
            rows, aim = np.empty(size), _aims(layout)
            _fill(rows, aim, pieces)
            return layout, rows, aim
        folder = _of_task(config, file, layout)
        if not folder.is_dir():
            what = f"{file.path}: encoding {size[0]:,} rows of {size[1]} columns"
            feature_cache.tell(f"{what}, once a file, in {folder}")
            mapped.make(folder, lambda temporary: _write(temporary, layout, pieces, file))
    if not asked.is_dir():
        mapped.make(asked, lambda temporary: _write_layout(temporary, layout))
    return layout, *_opened(folder, layout)


def _aims(layout: Layout) -> np.ndarray:
    """Room for the target and what is beside, (N, 1 + B)."""
    return np.empty((layout.rows, 1 + len(layout.beside)))


def _is_mapped(layout: Layout) -> bool:
    return layout.rows * len(layout.names) * 8 > IN_MEMORY


def _of_task(config: Table, file: _File, layout: Layout) -> Path:
    """Where the rows are: what task=auto turns out to be is kept as what a model will ask for."""
    return _folder(replace(config, task=layout.task), file)


def _opened(folder: Path, layout: Layout) -> tuple[np.ndarray, np.ndarray]:
    remedy = f"delete the folder {folder}, it is made again at the next run"
    rows = mapped.opened(folder / "features.npy", (layout.rows, len(layout.names)), remedy)
    return rows, np.load(folder / "target.npy", allow_pickle=False)


def fingerprint(config: Table) -> str:
    """sha256 of the file, as it is to be or as it is; DataError where it is not there."""
    return config.sha256 or _File.of(config).digest


def store(config: Table | None = None) -> YourFile:
    """The file, which is not ours."""
    say = (config or Table()).say
    needs = f"a {FORMATS} file, as in {say('path', 'FILE')} {say('target', 'COLUMN')}"
    return YourFile(NAME, needs, endings=ENDINGS)


def _path(config: Table) -> Path:
    return store(config).path(config.path, config.path and config.say("path", config.path))


@functools.lru_cache(maxsize=16)
def _sha256(path: Path, size: int, *state: int) -> str:
    """Digest of a settled file, worked out once while size, times and inode stay, as git does."""
    about = json.dumps([str(path.resolve()), size, *state])
    note = paths.cache_dir("tables") / "digests" / archive.sha256(about.encode())
    with contextlib.suppress(OSError, UnicodeError):
        if len(known := note.read_text(encoding="ascii")) == 64:
            return known
    found = _digest(path)
    files.keep(files.write_text, note, found)
    return found


def _digest(path: Path) -> str:
    try:
        return sources.sha256_of(path)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error


def _folder(config: Table, file: _File) -> Path:
    text = json.dumps([ENCODING, file.digest, config.key_settings(), np.__version__], sort_keys=True)
    stem = file.path.name.partition(".")[0][:40] if file.state else "frame"  # one frame has many names
    return paths.cache_dir("tables") / f"{stem}-{archive.sha256(text.encode())[:12]}"


def _stored_layout(folder: Path) -> Layout | None:
    try:
        return Layout.from_dict(json.loads((folder / "layout.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _fill(rows: np.ndarray, aim: np.ndarray, pieces: Iterator[tuple[np.ndarray, np.ndarray]]) -> None:
    start = 0
    for block, values in pieces:
        rows[start : start + len(block)], aim[start : start + len(block)] = block, values
        start += len(block)


def _write(
    folder: Path, layout: Layout, pieces: Iterator[tuple[np.ndarray, np.ndarray]], file: _File
) -> None:
    shape = (layout.rows, len(layout.names))
    rows = mapped.created(folder / "features.npy", shape)
    aim = _aims(layout)
    if layout.task == "binary":
        pieces = ((block * values[:, :1], values) for block, values in pieces)
    with file.unchanged():  # what is kept is kept under its digest
        _fill(rows, aim, pieces)
    rows.flush()
    np.save(folder / "target.npy", aim)
    _write_layout(folder, layout)


def _write_layout(folder: Path, layout: Layout) -> None:
    (folder / "layout.json").write_text(json.dumps(asdict(layout)), encoding="utf-8")
