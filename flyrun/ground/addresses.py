"""Files here, or at an address, as s3://bucket/folder, by Arrow's file systems or fsspec's: read and written.

Credentials, regions and endpoints are those of the environment.
"""

import contextlib
import functools
import glob
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from flyrun.ground import files
from flyrun.ground.errors import DataError, StoreError

_AT_ONCE = 1 << 22  # bytes that are sent
_WITHOUT_FOLDERS = ("s3", "gs", "gcs")
_ARROWS_OWN = ("s3", "gs", "gcs", "hdfs", "file")


def is_address(given: str | Path) -> bool:
    """Whether this is an address, which no path is."""
    return isinstance(given, str) and "://" in given


def full(path: str) -> str:
    """A path that means the same whatever the current folder is; an address as it is."""
    return path.rstrip("/") if is_address(path) else os.path.abspath(os.path.expanduser(path))


def listed(given: str) -> list[str]:
    """Files of a folder, whatever is in its folders, or of a pattern, or one file, each as it is opened.

    Raises DataError for an address that cannot be reached.
    """
    if is_address(given):
        return _listed(given)
    whole = Path(given).expanduser()
    if whole.is_file():
        return [str(whole)]
    paths = whole.rglob("*") if whole.is_dir() else map(Path, glob.glob(str(whole), recursive=True))
    return [str(path) for path in paths if path.is_file()]


def state(path: str) -> tuple[int, int]:
    """A file's size, and when it was changed, in ns. Raises OSError."""
    if is_address(path):
        system, inner = _system(path)
        about = system.get_file_info(inner)
        if not about.is_file:
            raise FileNotFoundError(2, "no such file", path)
        return about.size, about.mtime_ns or 0
    status = os.stat(path)
    return status.st_size, status.st_mtime_ns


def opened(path: str) -> Any:
    """A file to read from, anywhere in it. Raises OSError."""
    if is_address(path):
        system, inner = _system(path)
        return system.open_input_file(inner)
    return open(path, "rb")


@contextlib.contextmanager
def replacing(path: str) -> Iterator[BinaryIO]:
    """A file to write, which is whole at `path` once the body has ended. Before, and after an error in the
    body, nothing is there but what was; after an error in sending to an address nothing is. Raises StoreError
    where it cannot be written.
    """
    if not is_address(path):
        with files.writing(path):
            files.make_folder(Path(path).parent)
            with files.replacing(Path(path)) as temporary, open(temporary, "wb") as file:
                yield file
        return
    with tempfile.TemporaryFile() as file:
        yield file
        file.seek(0)
        try:
            system, inner = _system(path)
            if path.partition("://")[0] not in _WITHOUT_FOLDERS:
                system.create_dir(inner.rpartition("/")[0])
            there = system.open_output_stream(inner)
            try:
                shutil.copyfileobj(file, there, _AT_ONCE)
                there.close()
            except BaseException:  # Ctrl-C, too: to close what was sent in part makes a file of it
                try:
                    with contextlib.suppress(OSError):
                        there.close()
                finally:
                    with contextlib.suppress(OSError):
                        system.delete_file(inner)
                raise
        except (OSError, NotImplementedError, ValueError) as error:
            reason = " ".join(str(error).split())[:160]
            raise StoreError(f"{path}: cannot be written ({reason}); name another place") from error


def _listed(given: str) -> list[str]:
    from pyarrow import fs  # late: an extra

    scheme = given.partition("://")[0]
    fixed = given[: wildcard.start()] if (wildcard := re.search(r"[*?\[]", given)) else given
    try:
        system, inner = _system(fixed.rpartition("/")[0] if wildcard else given)
        about = system.get_file_info(inner)
        if about.is_file:
            return [given]
        inside = system.get_file_info(fs.FileSelector(inner, recursive=True, allow_not_found=True))
    except OSError as error:
        reason = " ".join(str(error).split())[:160]
        raise DataError(
            f"{given}: cannot be reached ({reason}); look at its name, and at the environment's credentials"
        ) from error
    files = [f"{scheme}://{info.path}" for info in inside if info.is_file]
    return [path for path in files if not wildcard or _pattern(given).fullmatch(_plain(path))]


def _pattern(given: str) -> re.Pattern[str]:
    """Of a pattern as the shell has it: * and ? stay in a folder, **/ goes through folders."""
    regex = re.escape(_plain(given)).replace(r"\*\*/", "(?:.*/)?").replace(r"\*", "[^/]*")
    return re.compile(regex.replace(r"\?", "[^/]"))


def _plain(address: str) -> str:
    """With one spelling of slashes."""
    return re.sub("/+", "/", address)


def _system(address: str) -> tuple[Any, str]:
    """The file system of an address, and the path in it."""
    scheme, _, rest = address.partition("://")
    root = rest.partition("/")[0]
    system, base = _system_of(scheme, root)
    return system, base + rest[len(root) :]


@functools.lru_cache
def _system_of(scheme: str, root: str) -> tuple[Any, str]:
    from pyarrow import fs  # late: an extra

    address = f"{scheme}://{root}"
    if scheme in _ARROWS_OWN:
        system, base = fs.FileSystem.from_uri(address + ("/" if scheme == "file" else ""))
        return system, base.rstrip("/")
    try:
        import fsspec  # late: an extra

        system, base = fsspec.core.url_to_fs(address)
    except (ImportError, ValueError) as error:
        raise DataError(
            f"{address}: no such file system is known ({error}); install what it names"
        ) from error
    return fs.PyFileSystem(fs.FSSpecHandler(system)), base.rstrip("/")
