"""Files that are either whole or absent: written under a temporary name, synced, renamed.

Arrays go into uncompressed .npz archives without pickle, with a digest of all names and values, so
that a file cut short or altered is told from a whole one.
"""

import contextlib
import hashlib
import json
import os
import re
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from flyrun.ground.errors import StoreError, refusal

_DIGEST = "_digest"
_FEW_BYTES = 1 << 16  # of the smallest results


class DamagedFile(Exception):  # noqa: N818  (a state of a file that callers recover from)
    """A stored file is cut short, altered or unreadable."""


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on leaving, sync it and rename it to `path`.

    When the body fails the temporary file goes and `path` stays as it was.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        _sync(temporary)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    # The rename itself is on disk only when the folder is.
    _sync(path.parent)


def make_folder(path: Path) -> None:
    """Make a folder and those above it, so that they are on disk before what is written into them."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in missing:
        _sync(folder.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def reserve(folder: Path, n_bytes: int) -> None:
    """Raise OSError unless the folder's disk has room for n_bytes; leaves nothing behind.

    For writers that do not fail in peace: HDF5 on a full disk prints its own tracebacks.
    """
    temporary = folder / f".room.{os.getpid()}.tmp"
    try:
        with open(temporary, "wb") as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, max(1, n_bytes))
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def writing(place: Path | str, elsewhere: str = "name another place") -> Iterator[None]:
    """Turn a file system's refusal into a StoreError of one line, as `errors.refusal` has it."""
    try:
        yield
    except OSError as error:
        raise StoreError(refusal(place, error, elsewhere)) from error


def refuse_unwritable(folder: Path, elsewhere: str = "name another place") -> None:
    """Raise StoreError unless a file can be written to a folder, or to the nearest above it that is there.

    Before work that ends in a file; leaves nothing behind. An address, of which a path makes a folder here
    that is called as its scheme, is refused.
    """
    if re.match(r"[a-z][a-z0-9+.-]+:/", str(folder)):
        raise StoreError(
            f"{folder}: is an address, to which this is not written; name a folder of this machine, and copy "
            "it there afterwards (results of one fit go to one such as s3://bucket/results)"
        )
    with writing(folder, elsewhere):
        there = next(place for place in (folder, *folder.parents) if place.exists())
        reserve(there, _FEW_BYTES)


def write(path: Path, writer: Callable[[BinaryIO], object]) -> None:
    """Write `path` whole or not at all; `writer` gets the open binary file."""
    with replacing(path) as temporary, open(temporary, "wb") as file:
        writer(file)


def write_text(path: Path, text: str) -> None:
    """Write `text` as UTF-8, whole or not at all."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write `content` whole or not at all."""
    write(path, lambda file: file.write(content))


def write_json(path: Path, value: object) -> None:
    """Write `value` as indented JSON; numpy numbers and arrays become plain ones."""
    write_text(path, json.dumps(value, indent=1, default=_plain) + "\n")


def _plain(value: object) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


def read_json(path: Path) -> Any:
    """Parse `path`; raises DamagedFile when it is missing or not JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DamagedFile(f"{path}: {error}") from error


def keep(write: Callable[[Path, Any], object], path: Path, value: object) -> None:
    """Write what only saves time later; where the file system refuses, nothing is kept."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, value)


def write_arrays(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write named arrays (no objects) and their digest as .npz."""
    arrays = {name: np.asarray(array) for name, array in arrays.items()}
    for name, array in arrays.items():
        if array.dtype.hasobject:
            raise TypeError(f"array '{name}' holds Python objects; only plain arrays are stored")
    stored: dict[str, Any] = {**arrays, _DIGEST: np.frombuffer(_digest(arrays), np.uint8)}
    write(path, lambda file: np.savez(file, **stored))


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Read what write_arrays wrote; raises DamagedFile unless every byte is as it was written."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            # before any header is believed, which could ask for more memory than there is
            if bad := archive.zip.testzip():
                raise zipfile.BadZipFile(f"{bad} is not as it was written")
            arrays = {name: archive[name] for name in archive.files}
    except MemoryError:
        raise
    except Exception as error:  # one wrong byte makes zipfile and numpy raise nearly anything
        raise DamagedFile(f"{path}: {error}") from error
    stored = arrays.pop(_DIGEST, None)
    if stored is None or stored.tobytes() != _digest(arrays):
        raise DamagedFile(f"{path}: its digest does not match")
    return arrays


def _digest(arrays: dict[str, np.ndarray]) -> bytes:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name}|{array.dtype.str}|{array.shape}|".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.digest()
