"""Runs at an address: made in a folder of this machine, sent whole, fetched again to read.

What is sent last names each file's digest, so that a reader takes files of one run alone, or none: where two
commands send a run of one name at once, or one is killed meanwhile, reading it is refused.
"""

import contextlib
import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from flyrun.ground import addresses, files, paths
from flyrun.ground.errors import FlyrunError, StoreError

_SENT = "sent.json"  # of a run at an address: its files and their digests
_NOT_SENT = ("lock", "scan")  # of a run's folder: what is of use here alone
_MODEL = ".flyrun"  # of one file that is a run


def fetched(given: str) -> str:
    """A run that is given by an address, as a folder or file of this machine; others as they are given.

    Of what an address holds as it is now there is one copy. Raises StoreError where no whole run is there.
    """
    if not addresses.is_address(given):
        return given
    address = given.rstrip("/")
    if address.endswith(_MODEL):
        content = _content(address, "holds no model")
        place = _cache("models", content) / address.rpartition("/")[2]
        if not place.exists():
            files.write_bytes(place, content)
        return str(place)
    sent = _content(f"{address}/{_SENT}", "holds no fit that was sent whole")
    place = _cache("fetched", address.encode(), sent) / "runs" / address.rpartition("/")[2]
    for name, digest in _names(address, sent).items():
        if not (file := place / name).exists():
            content = _content(f"{address}/{name}", "lacks a file of the fit")
            if hashlib.sha256(content).hexdigest() != digest:
                raise StoreError(
                    f"{address}: {name} is of another fit than {_SENT}, because two were sent at once or one "
                    "was cut off; give the fit's command again"
                )
            file.parent.mkdir(parents=True, exist_ok=True)
            files.write_bytes(file, content)
    return str(place)


@contextlib.contextmanager
def exchanged(results_dir: str, folder: Path) -> Iterator[str]:
    """Let a run's folder here hold what was sent of a run of its name before, and send what is in it at the
    end of the body; the address of the run. After an error nothing is sent.

    Errors call the folder by its address. Raises StoreError where that cannot be read or written.
    """
    address = f"{addresses.full(results_dir)}/runs/{folder.name}"
    _replace(folder, address)
    try:
        yield address
    except FlyrunError as error:
        raise type(error)(str(error).replace(str(folder), address)) from error
    _send(folder, address)


def local(results_dir: str) -> str:
    """The folder of this machine where results at an address are made; any other as it is."""
    if not addresses.is_address(results_dir):
        return results_dir
    return str(_cache("results", addresses.full(results_dir).encode()))


def _replace(folder: Path, address: str) -> None:
    """Let a folder hold the finished files that an address does, and what is of use here alone."""
    for place in folder.iterdir() if folder.exists() else ():
        if place.name not in _NOT_SENT:
            shutil.rmtree(place) if place.is_dir() else place.unlink()
    try:
        addresses.state(f"{address}/{_SENT}")
    except FileNotFoundError:
        return
    except OSError as error:
        raise _unread(address, error) from error
    with contextlib.suppress(StoreError):  # of what is not whole nothing is kept
        shutil.copytree(fetched(address), folder, dirs_exist_ok=True)


def _send(folder: Path, address: str) -> None:
    digests = dict[str, str]()
    for file in sorted(folder.rglob("*")):
        name = file.relative_to(folder).as_posix()
        if not file.is_file() or name.split("/")[0] in _NOT_SENT:
            continue
        content = file.read_bytes()
        digests[name] = hashlib.sha256(content).hexdigest()
        _put(f"{address}/{name}", content, folder)
    _put(f"{address}/{_SENT}", json.dumps(digests, indent=1).encode(), folder)


def _put(path: str, content: bytes, folder: Path) -> None:
    try:
        with addresses.replacing(path) as file:
            file.write(content)
    except StoreError as error:
        raise StoreError(f"{error}; the run is whole in {folder}") from error


def _names(address: str, sent: bytes) -> dict[str, str]:
    """Digests by name of file, none outside the run's folder."""
    try:
        digests: dict[str, Any] = dict(json.loads(sent))
    except ValueError as error:
        raise StoreError(f"{address}/{_SENT}: is damaged; give the fit's command again") from error
    for name in digests:
        if (path := PurePosixPath(name)).is_absolute() or ".." in path.parts:
            raise StoreError(f"{address}/{_SENT}: names {name}, which is in no run; delete it")
    return digests


def _content(path: str, lost: str) -> bytes:
    try:
        with addresses.opened(path) as file:
            return bytes(file.read())
    except FileNotFoundError as error:
        folder, _, name = path.rpartition("/")
        raise StoreError(f"{folder}: {lost}, for {name} is not there; look at the address") from error
    except OSError as error:
        raise _unread(path, error) from error


def _unread(path: str, error: OSError) -> StoreError:
    reason = " ".join(str(error).split())[:160]
    return StoreError(
        f"{path}: cannot be read ({reason}); look at its name, and at the environment's credentials"
    )


def _cache(kind: str, *of: bytes) -> Path:
    place = paths.cache_dir("runs") / kind / hashlib.sha256(b"\0".join(of)).hexdigest()[:16]
    with files.writing(place, "set FLYRUN_CACHE to a folder of this machine"):
        place.mkdir(parents=True, exist_ok=True)
    return place
